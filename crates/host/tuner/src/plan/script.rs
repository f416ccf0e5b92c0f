//! A plan as shell scripts: the same steps, and the way back.
//!
//! For users who read before they run, or run it with tools of their own. Unlike [`apply`](crate::apply), a script
//! has no journal, does not notice a value that has changed since, and cannot change listeners of running programs,
//! for which there is no command. They are named when the script runs.

use std::fmt::Write;

use crate::observe::ethtool::Parameters;
use crate::plan::Plan;
use crate::plan::change::{Change, Setting};

/// Runs the plan, and the way back if a step fails; `undo` is the path of the other script.
pub fn doing(plan: &Plan, undo: &str) -> String {
    let mut script = head("Carries out a plan of `evenkeel tune`; undone by the script beside it.");
    if plan.then.is_some() {
        script.push_str("# What follows from the new queues is not here: plan again when this has run.\n");
    }
    script.push_str("# Whatever fails takes everything back.\n");
    let _ = writeln!(script, "undo={}", quoted(undo));
    script.push_str("trap 'status=$?; [ $status -eq 0 ] || sh \"$undo\" || true; exit $status' EXIT\n\n");
    for change in &plan.changes {
        let _ = writeln!(script, "# {} ({})", change.why, change.asked_by);
        script.push_str(&line(change, &change.wanted).unwrap_or_else(|| left_out(change)));
    }
    script
}

/// The way back, from the values that the plan was made with.
pub fn undoing(plan: &Plan) -> String {
    let mut script = head("Undoes a plan of `evenkeel tune`: the values from before, the last change first.");
    // One value that cannot be restored does not stop the others.
    script.push_str("failed=0\n");
    for change in plan.changes.iter().rev() {
        if let Some(line) = line(change, change.setting.written(&change.now)) {
            let _ = writeln!(script, "{} || failed=1", line.trim_end());
        }
    }
    script.push_str("exit $failed\n");
    script
}

fn head(what: &str) -> String {
    format!("#!/bin/sh\n# {what}\nset -eu\nput() {{ printf '%s\\n' \"$1\" > \"$2\"; }}\n\n")
}

fn left_out(change: &Change) -> String {
    let what =
        format!("left out: {} = {}: `evenkeel tune apply --live` does it", change.setting, change.wanted);
    format!("echo {} >&2\n", quoted(&what))
}

/// The command that gives a setting this value, if there is one.
fn line(change: &Change, value: &str) -> Option<String> {
    Some(match &change.setting {
        Setting::File { path, .. } => format!("put {} {}\n", quoted(value.trim()), quoted(path)),
        // The directory with the handler's name is in that of its interrupt, whatever its number is by then.
        Setting::Interrupt { handler, .. } => {
            let directory = format!("\"$(dirname /proc/irq/*/{})\"", quoted(handler));
            format!("put {} {directory}/smp_affinity\n", quoted(value.trim()))
        }
        Setting::Device { nic, knob } => {
            let arguments = value.parse().map_or(value.to_owned(), |value: Parameters| value.arguments());
            format!("ethtool {} {} {arguments}\n", knob.option(), quoted(nic))
        }
        Setting::Irqbalance { pid } => {
            let irqs = if value.trim().is_empty() { "NONE" } else { value.trim() };
            format!(
                "printf '%s' 'settings ban irqs {irqs}' | socat - UNIX-CONNECT:/run/irqbalance/irqbalance{pid}.sock\n"
            )
        }
        Setting::Thread { tid } => {
            let word = |name: &str| {
                let words = value.split_whitespace().filter_map(|word| word.split_once('='));
                words.filter(|(word, _)| *word == name).map(|(_, value)| value.to_owned()).next()
            };
            let priority = word("priority").unwrap_or_else(|| "0".to_owned());
            // The kernel itself keeps the length of a thread's time slices. Setting it takes chrt of util-linux 2.41.
            let is_set = change.wanted.contains("slice_ns=");
            let slice = word("slice_ns").filter(|_| is_set).map(|slice| format!(" --sched-runtime {slice}"));
            let slice = slice.unwrap_or_default();
            let policy = match word("policy").as_deref() {
                Some("1") => "--fifo",
                Some("2") => "--rr",
                Some("3") => "--batch",
                Some("5") => "--idle",
                _ => "--other",
            };
            format!("chrt {policy}{slice} --pid {priority} {tid}\n")
        }
        Setting::Listener { .. } | Setting::Napi { .. } => return None,
    })
}

/// A word quoted for the shell: inside of single quotes only a single quote is special.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::listening::{ListenerHandle, QueueLimit};
    use crate::observe::shapes::Scratch;
    use crate::plan::change::{Risk, Stage};

    fn change(path: &str, now: &str, wanted: &str) -> Change {
        Change {
            stage: Stage::Sysctl,
            setting: Setting::number(path),
            now: now.into(),
            wanted: wanted.into(),
            why: "so".into(),
            asked_by: "test".into(),
            risk: Risk::Low,
            signal: Default::default(),
        }
    }

    /// Runs the script on two files and says what they hold afterwards.
    fn run(second: &str) -> (bool, String, bool, String) {
        let scratch = Scratch::new(&format!("script-{second}"));
        let file = |name: &str| scratch.path().join(name).display().to_string();
        let (one, undo) = (file("o'ne"), file("un do.sh"));
        std::fs::write(&one, "1\n").unwrap();
        std::fs::write(file("two"), "2\n").unwrap();
        let changes = vec![change(&one, "1", "10"), change(&file(second), "2", "20")];
        let plan = Plan { changes, ..Plan::default() };
        std::fs::write(file("do.sh"), doing(&plan, &undo)).unwrap();
        std::fs::write(&undo, undoing(&plan)).unwrap();
        let sh =
            |script: &str| std::process::Command::new("sh").arg(script).output().unwrap().status.success();
        let first = sh(&file("do.sh"));
        let between = std::fs::read_to_string(&one).unwrap();
        let second = sh(&undo);
        (first, between, second, std::fs::read_to_string(&one).unwrap())
    }

    #[test]
    fn the_scripts_do_and_undo() {
        assert_eq!(run("two"), (true, "10\n".into(), true, "1\n".into()));
    }

    #[test]
    fn a_script_that_fails_takes_everything_back() {
        assert_eq!(run("no/two"), (false, "1\n".into(), false, "1\n".into()));
    }

    #[test]
    fn threads_are_scheduled_with_chrt() {
        let check = |wanted: &str, doing: &str, undoing: &str| {
            let mut change = change("", "policy=0 priority=0 nice=0 slice_ns=2800000 started=9", wanted);
            change.setting = Setting::Thread { tid: 8 };
            assert_eq!(line(&change, &change.wanted).unwrap(), format!("chrt {doing} 8\n"));
            assert_eq!(line(&change, &change.now).unwrap(), format!("chrt {undoing} 8\n"));
        };
        check("policy=1 priority=1 started=9", "--fifo --pid 1", "--other --pid 0");
        let slice = ["500000", "2800000"].map(|ns| format!("--other --sched-runtime {ns} --pid 0"));
        check("policy=0 slice_ns=500000 started=9", &slice[0], &slice[1]);
    }

    #[test]
    fn what_no_command_does_is_named_when_the_script_runs() {
        let mut change = change("", "128", "4096");
        let socket = ListenerHandle { pid: 8, started: 1, inode: 9, address: "0.0.0.0:11211".into() };
        change.setting = Setting::Listener { socket, limit: QueueLimit::Backlog };
        let plan = Plan { changes: vec![change], ..Plan::default() };
        let run = |script: String| std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let done = run(doing(&plan, "/dev/null"));
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
        assert_eq!(
            said,
            "left out: backlog of 0.0.0.0:11211 (PID 8, socket 9) = 4096: `evenkeel tune apply --live` does it\n"
        );
        assert!(run(undoing(&plan)).status.success());
    }
}
