//! `evenkeel tune` while another one is at work: the verbs that wait, for how long, and what must not delay others.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::host::{EVENKEEL, Host, STEPS, fails, succeeds};
use crate::support::until::until;

/// The lock of a host, held by this process in place of another verb.
fn lock(host: &Host) -> fs::File {
    let lock = fs::File::open(host.0.join("state/lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// A verb that waits for the lock.
struct Waiting {
    child: std::process::Child,
    said: PathBuf,
}

impl Waiting {
    fn new(host: &Host, command: &mut Command) -> Waiting {
        let said = host.0.join("waiting");
        // Tests that run in the background ignore SIGINT, and processes inherit that.
        let mut here = Command::new("env");
        here.arg("--default-signal").arg(command.get_program()).args(command.get_args());
        let child = here.stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap()).spawn().unwrap();
        let waiting = Waiting { child, said };
        until("its waiting", || waiting.said().contains("waiting up to"));
        waiting
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    fn ends(&mut self) -> Option<i32> {
        let mut ended = None;
        until("its end", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.and_then(|status| status.code())
    }
}

#[test]
fn a_verb_that_finds_the_state_locked_reports_the_holder() {
    let host = Host::new("locked");
    succeeds(&mut host.apply());
    let lock = lock(&host);
    let holder = format!("another `evenkeel tune` is at work (PID {}: `", std::process::id());
    let said = fails(host.apply().args(["--wait", "0s"]));
    assert!(said.contains(&holder) && said.contains(" s ago)\n"), "{said}");
    assert!(said.contains(&format!("or end it with `kill -INT {}`", std::process::id())), "{said}");
    for mut command in [host.apply(), host.tune("confirm"), host.tune("rollback")] {
        let said = fails(command.args(["--wait", "1s"]));
        assert!(said.contains(&holder) && said.contains(" s ago), and has not ended within 1 s\n"), "{said}");
    }
    host.holds(|step| step.2);
    drop(lock);
    succeeds(&mut host.tune("rollback"));
}

#[test]
fn a_verb_waits_for_the_one_before() {
    let host = Host::new("waits");
    succeeds(&mut host.apply());
    for (mut command, value) in [
        (
            host.tune("rollback"),
            (|step| step.1) as fn(&(&'static str, &'static str, &'static str)) -> &'static str,
        ),
        (host.apply(), |step| step.2),
    ] {
        let lock = lock(&host);
        let mut waiting = Waiting::new(&host, &mut command);
        let for_whom = format!("waiting up to 30 s for PID {}: `", std::process::id());
        assert!(waiting.said().contains(&for_whom), "{}", waiting.said());
        drop(lock);
        assert_eq!(waiting.ends(), Some(0), "{}", waiting.said());
        host.holds(value);
    }
}

#[test]
fn a_signal_ends_a_verb_that_waits_for_the_lock() {
    let host = Host::new("told");
    succeeds(&mut host.apply());
    let journal = host.journal();
    let lock = lock(&host);
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for mut command in [host.tune("rollback"), host.tune("confirm"), host.apply()] {
            let mut waiting = Waiting::new(&host, command.args(["--wait", "1h"]));
            succeeds(Command::new("kill").args([&format!("-{signal}"), &waiting.child.id().to_string()]));
            assert_eq!(waiting.ends(), Some(status), "{}", waiting.said());
            let told = "it was ended by a signal while it waited; nothing was changed";
            assert!(waiting.said().contains(told), "{}", waiting.said());
        }
    }
    // Under nohup, SIGHUP has no effect.
    let mut nohup = Command::new("nohup");
    nohup.arg(EVENKEEL).args(["tune", "rollback", "--root"]).arg(&host.0);
    nohup.arg("--state").arg(host.0.join("state")).stdout(Stdio::null());
    let mut waiting = Waiting::new(&host, &mut nohup);
    succeeds(Command::new("kill").args(["-HUP", &waiting.child.id().to_string()]));
    assert_eq!(host.journal(), journal);
    host.holds(|step| step.2);
    drop(lock);
    assert_eq!(waiting.ends(), Some(0), "{}", waiting.said());
    host.holds(|step| step.1);
}

/// A full pipe without a reader.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while std::io::Write::write(&mut writer, &[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

#[test]
fn output_that_is_not_read_does_not_delay_a_rollback() {
    let host = Host::new("stuck");
    let (reader, writer) = full_pipe();
    let mut apply = host.apply().stdout(writer.try_clone().unwrap()).spawn().unwrap();
    until("the plan", || host.journal().contains("\"applied\""));
    succeeds(&mut host.tune("rollback"));
    succeeds(&mut host.apply());
    // A watch that has printed that it watches, and blocks while it prints a repair.
    fs::write(host.0.join(STEPS[0].0), STEPS[0].1).unwrap();
    let mut watch = host.tune("watch");
    let mut watch = watch.args(["--repair", "auto"]).stdout(writer).spawn().unwrap();
    until("the repair", || fs::read_to_string(host.0.join(STEPS[0].0)).unwrap() == STEPS[0].2);
    succeeds(&mut host.tune("rollback"));
    host.holds(|step| step.1);
    drop(reader);
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(apply.wait().unwrap().code(), Some(0));
}

#[test]
fn a_plan_that_another_process_is_applying_is_not_shown_as_interrupted() {
    let host = Host::new("at-work");
    succeeds(&mut host.apply());
    let journal = host.journal();
    let unfinished = journal.trim_end().rsplit_once('\n').unwrap().0;
    fs::write(host.0.join("state/000001.jsonl"), format!("{unfinished}\n")).unwrap();
    let lock = lock(&host);
    let said = succeeds(&mut host.tune("status"));
    let at_work = format!("not finished; at work is PID {}: `", std::process::id());
    assert!(said.contains(&at_work), "{said}");
    drop(lock);
    assert!(succeeds(&mut host.tune("status")).contains("interrupted; `evenkeel tune rollback` undoes it"));
}
