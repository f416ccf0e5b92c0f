//! Recordings, written and read back as traces.

use super::*;
use crate::types::description::Description;
use crate::types::part::Part;
use crate::workload::plan::RunPlan;
use std::path::PathBuf;

fn plan(line: &str) -> RunPlan {
    let run = Description::of(line.split_ascii_whitespace()).expect(line);
    RunPlan::new(&run, Part::WHOLE).expect(line)
}

/// A file of one test, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("evenkeel-record-{name}-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("the recording");
    }
}

/// The lines that `workers` record which do what `script` says.
fn lines(name: &str, workers: usize, script: impl FnOnce(&mut [Recorder])) -> (Recorded, Vec<String>) {
    let plan = plan("--keys 100 --key-size 6 --value-size 5 --ttl 60d --mix get=1,incr=1");
    let file = Scratch::new(name);
    let (recording, mut recorders) = Recording::start(&file.0, workers).expect("a file");
    recorders.iter_mut().for_each(|recorder| recorder.open(1000..2_000_001_000));
    script(&mut recorders);
    for mut recorder in recorders {
        recorder.end().expect("a disk");
    }
    let recorded = recording.join().and_then(|notes| notes.write(&plan.items)).expect("a disk");
    let text = std::fs::read_to_string(&file.0).expect("a recording");
    (recorded, text.lines().map(str::to_owned).collect())
}

#[test]
fn what_was_asked_in_the_window_is_merged_by_time() {
    let (recorded, lines) = lines("merged", 2, |recorders| {
        for (worker, at_ns, command, item) in [
            (0, 999, Command::Get, 1),
            (0, 1000, Command::Set, 2),
            (0, 1_000_006_000, Command::Incr, 3),
            (1, 1_000_004_999, Command::Get, 4),
            // Due before, sent after: its place is where it was sent.
            (1, 1_000_004_000, Command::Touch, 5),
            (1, 2_000_001_000, Command::Get, 6),
        ] {
            recorders[worker].note(command, item);
            recorders[worker].asked(at_ns);
        }
    });
    assert_eq!(recorded, Recorded { requests: 4, left_out: 0, until_ns: u64::MAX });
    let expected = vec![
        "0.000000000,key:02,6,5,0,set,5184000",
        "1.000003999,key:04,6,5,1,get,0",
        "1.000003999,key:05,6,0,1,touch,5184000",
        "1.000005000,num:03,6,0,0,incr,0",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn without_room_a_recording_ends_for_all_workers() {
    let (recorded, lines) = lines("room", 2, |recorders| {
        let mut note = |worker: usize, at_ns| {
            let recorder: &mut Recorder = &mut recorders[worker];
            recorder.note(Command::Get, worker as u64);
            recorder.asked(at_ns);
        };
        (0..10).for_each(|n| note(0, 2000 + n));
        (0..10).for_each(|n| note(1, 2005 + n));
        // As if others were waiting for the disk already, which they do until this test is over.
        recorders[0].room.waiting.fetch_add(1, Ordering::Relaxed);
        recorders[0].send(100).expect("a disk");
        recorders[1].send(5).expect("a disk");
        recorders[1].note(Command::Get, 1);
        recorders[1].asked(3000);
    });
    // The second worker has lost all from 2005 on: the file ends there, for the first one too.
    assert_eq!(recorded, Recorded { requests: 5, left_out: 16, until_ns: 1005 });
    let expected: Vec<String> = (1000..1005).map(|ns| format!("0.00000{ns},key:00,6,5,0,get,0")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_disk_that_fails_is_named() {
    let missing = Path::new("/nonexistent/recording");
    let error = Recording::start(missing, 1).expect_err("no folder").to_string();
    assert_eq!(error, "write /nonexistent/recording");
}

#[test]
fn a_disk_that_fills_up_is_named_and_ends_the_workers() {
    let file = Scratch::new("full");
    let (recording, mut recorders) = Recording::start(&file.0, 1).expect("a file");
    let full = File::options().write(true).open("/dev/full").expect("a device");
    let (sender, rounds) = channel();
    let recorder = &mut recorders[0];
    recorder.sender = sender;
    recorder.open(0..u64::MAX);
    recorder.note(Command::Get, 1);
    recorder.asked(1);
    recorder.end().expect("somebody who listens");
    let error = spool::keep(&rounds, vec![full], &recording.room, &file.0).expect_err("no room");
    assert_eq!(error.to_string(), format!("write {}", file.0.display()));
    drop(rounds);
    recorder.note(Command::Get, 1);
    recorder.asked(2);
    assert!(recorder.end().is_err());
}
