//! Tests of reads of simulated files.

use super::*;
use crate::testing::reading::ReadingHandler;
use crate::testing::scripted::ScriptedHandler;

const PORT: u16 = 11211;

/// A host that reads a file of a thousand bytes, and one that has dialled it with tag 1.
fn connected(seed: u64, reads_max: usize) -> (World, DiskFile, [HostId; 2]) {
    let mut world = World::new(seed);
    let file = world.add_file(contents());
    let options = Options { workers: 1, reads_max, ..Options::default() };
    let server = world.add(ReadingHandler::new(file.clone()), &[PORT], &options);
    let client = world.add(ScriptedHandler::default(), &[], &options);
    let place = world.place(server, PORT);
    world.handler::<ScriptedHandler>(client).dial(&place, 1000, 1);
    world.nudge(client);
    world.run_for(1000);
    (world, file, [server, client])
}

fn contents() -> Vec<u8> {
    (0..1000).map(|at| b'a' + (at % 23) as u8).collect()
}

fn send(world: &mut World, client: HostId, text: &str) {
    world.handler::<ScriptedHandler>(client).write(1, text);
    world.nudge(client);
}

fn received(world: &mut World, client: HostId) -> String {
    world.handler::<ScriptedHandler>(client).received(1)
}

fn text(start: usize, end: usize) -> String {
    String::from_utf8(contents()[start..end].to_vec()).expect("text")
}

#[test]
fn a_reply_takes_as_long_as_the_disk() {
    let (mut world, file, [_, client]) = connected(1, 8);
    world.set_disk(&file, DiskConditions { delay_us: 5000, jitter_us: 0, ..DiskConditions::default() });
    send(&mut world, client, "100 5\n2000 5\nlast\n");
    world.run_for(5_000);
    assert_eq!(received(&mut world, client), "");
    world.run_for(2_000);
    assert_eq!(received(&mut world, client), format!(":{}\n", text(100, 105)));
    world.run_for(5_000);
    assert_eq!(received(&mut world, client), ":\nlast\n");
    send(&mut world, client, &format!("{} 5\n", u64::MAX));
    world.run_for(1_000);
    assert_eq!(received(&mut world, client), "error 22\n");
}

/// The replies to reads from a disk with errors and short reads.
fn replies(seed: u64, alignment: usize, conditions: DiskConditions) -> (String, u64) {
    let (mut world, file, [server, client]) = connected(seed, 8);
    world.set_disk(&file, conditions);
    world.handler::<ReadingHandler>(server).alignment = alignment;
    (0..200).for_each(|at| send(&mut world, client, &format!("{at} 1000\n")));
    world.run_for(10_000_000);
    (received(&mut world, client), world.fingerprint())
}

#[test]
fn short_reads_are_continued_and_errors_reported() {
    let conditions = DiskConditions { error_ppm: 50_000, short_ppm: 500_000, ..DiskConditions::default() };
    let (first, fingerprint) = replies(1, 1, conditions);
    let mut errors = 0;
    for (at, line) in first.lines().enumerate() {
        match line {
            "error 5" => errors += 1,
            line => assert_eq!(line, format!(":{}", text(at, 1000))),
        }
    }
    assert!((10..100).contains(&errors), "{errors} errors");
    assert_eq!(first.lines().count(), 200);
    assert_eq!(replies(1, 1, conditions), (first.clone(), fingerprint), "the same seed");
    assert!(replies(2, 1, conditions).0 != first, "another seed");
    let always = DiskConditions { short_ppm: 1_000_000, ..DiskConditions::default() };
    for alignment in [1, 64] {
        let (all, _) = replies(1, alignment, always);
        let expected: String = (0..200).map(|at| format!(":{}\n", text(at, 1000))).collect();
        assert!(all == expected, "alignment {alignment}");
    }
}

#[test]
fn reads_in_flight_are_cancelled_when_the_host_stops() {
    let (mut world, _, [server, client]) = connected(1, 8);
    send(&mut world, client, "0 5\n");
    let ordered = world.run_until(1_000, |world| world.handler::<ReadingHandler>(server).ordered() == 1);
    assert!(ordered);
    let handler: ReadingHandler = world.stop(server);
    assert_eq!(handler.results, [(0, Err(Errno::CANCELED))]);
    // Its event is gone, too.
    world.run_for(1_000_000);
    assert_eq!(received(&mut world, client), "");
}

#[test]
fn a_host_may_be_allowed_no_reads() {
    let (mut world, _, [_, client]) = connected(1, 0);
    send(&mut world, client, "0 5\nlast\n");
    world.run_for(1_000);
    assert_eq!(received(&mut world, client), "busy\nlast\n");
}
