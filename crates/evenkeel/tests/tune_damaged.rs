//! `evenkeel tune` and journals that cannot be read in full, or are of another version: everything else is undone, and what is
//! unknown is said until somebody has looked at it.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use crate::support::host::{Host, STEPS, fails, succeeds};
use crate::support::journal::edit;
use crate::support::until::until;

/// What `status`, `verify` and `rollback` end with when a journal cannot be read in full.
const UNREAD: i32 = 18;

fn journal(host: &Host, number: u32) -> PathBuf {
    host.0.join(format!("state/{number:06}.jsonl"))
}

/// The lines of a host's first journal, with their ends.
fn lines(host: &Host) -> Vec<String> {
    host.journal().split_inclusive('\n').map(str::to_owned).collect()
}

/// Both streams of a command that ends with this status.
#[track_caller]
fn ends(command: &mut Command, status: i32) -> String {
    let output = command.output().unwrap();
    let both = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&both).into_owned();
    assert_eq!(output.status.code(), Some(status), "{command:?}: {said}");
    said
}

/// Each setting's value, as far as it is not the one from before the plan.
fn changed(host: &Host) -> Vec<&'static str> {
    let is_changed =
        |step: &&(&'static str, &str, &str)| fs::read_to_string(host.0.join(step.0)).unwrap() != step.1;
    STEPS.iter().filter(is_changed).map(|step| step.0).collect()
}

#[test]
fn whatever_line_cannot_be_read_everything_else_is_undone_and_that_is_said_until_the_file_is_removed() {
    let of = Host::new("damaged-lines");
    succeeds(&mut of.apply());
    for (index, line) in lines(&of).iter().enumerate() {
        let host = Host::new(&format!("damaged-line-{index}"));
        succeeds(&mut host.apply());
        let mut damaged = lines(&host);
        damaged[index] = format!("{}\n", "\0".repeat(line.len() - 1));
        fs::write(journal(&host, 1), damaged.concat()).unwrap();
        let what = format!("000001.jsonl: line {} cannot be read", index + 1);
        let planned = host.0.join("state/000001.promise.json");
        let said = ends(&mut host.tune("status"), UNREAD);
        assert!(said.contains(&what) && !said.contains("Nothing is in force"), "{said}");
        assert!(said.contains(&format!("the time of the plan, into {}", planned.display())), "{said}");
        let said = ends(host.tune("verify").args(["--seconds", "1"]), 16);
        assert!(said.contains(&what), "{said}");
        let said = ends(&mut host.tune("rollback"), UNREAD);
        assert!(
            said.contains(&what) && said.contains("a setting that it names may still be changed"),
            "{said}"
        );
        let lost = STEPS.iter().map(|step| step.0).find(|path| line.contains(path));
        assert_eq!(changed(&host), lost.into_iter().collect::<Vec<_>>());
        // It is said for as long as the file lies there, and keeps nobody from anything else.
        for _ in 0..2 {
            let said = ends(&mut host.tune("status"), UNREAD);
            assert!(
                said.starts_with("Nothing that can be read is in force.\n") && said.contains(&what),
                "{said}"
            );
        }
        assert!(ends(host.tune("verify").args(["--seconds", "1"]), UNREAD).contains(&what));
        assert!(ends(&mut host.tune("rollback"), 1).contains(&what));
        assert!(fs::read_to_string(&planned).unwrap().contains("rps_flow_cnt"));
        fs::remove_file(journal(&host, 1)).unwrap();
        assert!(ends(&mut host.tune("status"), 0).starts_with("Nothing is in force.\n"));
    }
}

#[test]
fn a_file_in_which_nothing_can_be_read_is_said_for_as_long_as_it_lies_there_and_keeps_nothing_from_being_done()
 {
    for (number, text) in
        [&b"\0\0\0\n"[..], b"\xff\xfe", b"{\"record\":\"begin\",\"ver\n"].into_iter().enumerate()
    {
        let host = Host::new(&format!("damaged-file-{number}"));
        succeeds(&mut host.apply());
        fs::write(journal(&host, 2), text).unwrap();
        let what =
            "000002.jsonl: line 1 cannot be read; none says of which boot it is, so nothing of it is undone";
        assert!(ends(&mut host.tune("status"), UNREAD).contains(what));
        assert!(ends(&mut host.tune("confirm"), 1).contains(what));
        assert!(ends(&mut host.tune("rollback"), UNREAD).contains(what));
        host.holds(|step| step.1);
        assert!(ends(&mut host.tune("rollback"), 1).contains(what));
        assert!(ends(&mut host.apply(), 0).contains(what));
        host.holds(|step| step.2);
        assert!(journal(&host, 3).exists());
        assert!(ends(&mut host.tune("rollback"), UNREAD).contains(what));
        assert_eq!(fs::read(journal(&host, 2)).unwrap(), text);
    }
}

#[test]
fn an_emptied_journal_is_missed() {
    let host = Host::new("damaged-empty");
    succeeds(&mut host.apply());
    fs::write(journal(&host, 1), "").unwrap();
    let said = ends(&mut host.tune("status"), UNREAD);
    assert!(
        said.contains("000001.jsonl: nothing in it can be read") && said.contains(": it is empty"),
        "{said}"
    );
    assert!(fails(&mut host.tune("rollback")).contains(": it is empty"));
}

/// Of two plans, one of which cannot be read in full.
#[test]
fn a_damaged_journal_below_another_one_keeps_that_from_nothing() {
    let host = Host::new("damaged-below");
    succeeds(&mut host.apply());
    let mut damaged = lines(&host);
    // As if it had been the first plan for one setting, and the second one for the others.
    let first = damaged.iter().position(|line| line.contains(STEPS[1].0)).unwrap();
    damaged[first] = "x\n".to_owned();
    fs::write(journal(&host, 1), damaged.concat()).unwrap();
    let change = serde_json::json!({
        "stage": "steering", "setting": {"file": {"path": format!("/{}", STEPS[0].0), "holds": "number"}},
        "now": STEPS[0].2, "wanted": "8192", "why": "", "asked_by": "", "risk": "low", "signal": "",
    });
    let plan = serde_json::json!({ "made": crate::support::host::made(), "changes": [change] });
    fs::write(host.0.join("over"), plan.to_string()).unwrap();
    let said = ends(host.tune("apply").arg("--plan").arg(host.0.join("over")), 0);
    assert!(said.contains("000001.jsonl: line"), "{said}");
    ends(host.tune("rollback").arg("--all"), UNREAD);
    assert_eq!(changed(&host), [STEPS[1].0]);
}

#[test]
fn a_journal_of_another_version_is_refused_by_whatever_changes_something_and_named_by_status() {
    let host = Host::new("version");
    succeeds(&mut host.apply());
    succeeds(&mut host.tune("rollback"));
    let old = "{\"record\":\"begin\",\"version\":1,\"place\":{\"boot_id\":\"first\",\"network\":null},\"at_unix_s\":7}\n";
    fs::write(journal(&host, 2), old).unwrap();
    let what = "000002.jsonl: it is of format version 1, and this evenkeel reads version 2 alone";
    let remedy = "`evenkeel tune rollback` of the evenkeel that wrote it undoes its plan";
    let said = ends(&mut host.tune("status"), UNREAD);
    assert!(said.contains(what) && said.contains(remedy) && !said.contains("Nothing is in force"), "{said}");
    let refuses = |command: &mut Command| {
        let said = ends(command, 1);
        assert!(said.contains(what) && said.contains(remedy), "{command:?}: {said}");
        host.holds(|step| step.1);
    };
    refuses(&mut host.apply());
    refuses(&mut host.tune("confirm"));
    refuses(&mut host.tune("rollback"));
    refuses(host.tune("watch").args(["--repair", "auto"]));
    refuses(host.tune("persist").arg("--dry-run"));
    let load = ["--strategies", "none,rps-rfs", "--load", "true", "--rounds", "1"];
    refuses(host.tune("tournament").args(load));
    assert_eq!(fs::read_to_string(journal(&host, 2)).unwrap(), old);
    // Its settings end with the boot.
    fs::write(host.0.join("proc/sys/kernel/random/boot_id"), "second\n").unwrap();
    assert!(ends(&mut host.tune("status"), 0).starts_with("Nothing is in force.\n"));
}

/// Also if it says so with a checksum that is right.
#[test]
fn a_line_about_another_file_is_not_undone() {
    for path in ["/etc/evenkeel-victim", "/proc/sys/kernel/core_pattern", "/proc/../etc/evenkeel-victim"] {
        let host = Host::new("damaged-foreign");
        for victim in ["etc/evenkeel-victim", "proc/sys/kernel/core_pattern"] {
            fs::create_dir_all(host.0.join(victim).parent().unwrap()).unwrap();
            fs::write(host.0.join(victim), "theirs\n").unwrap();
        }
        succeeds(&mut host.apply());
        edit(&journal(&host, 1), &format!("s#/proc/sys/net/core/somaxconn#{path}#"));
        assert!(host.journal().contains(path), "{}", host.journal());
        ends(&mut host.tune("status"), UNREAD);
        ends(&mut host.tune("rollback"), UNREAD);
        assert_eq!(changed(&host), [STEPS[0].0], "{path}");
        for victim in ["etc/evenkeel-victim", "proc/sys/kernel/core_pattern"] {
            assert_eq!(fs::read_to_string(host.0.join(victim)).unwrap(), "theirs\n", "{path}");
        }
    }
}

/// The deadline and the confirmation are what the host's state hangs on: each is there more than once.
#[test]
fn neither_a_confirmation_nor_a_deadline_is_lost_with_a_line() {
    let host = Host::new("damaged-confirmed");
    succeeds(host.apply().args(["--confirm-within", "1h"]));
    succeeds(&mut host.tune("confirm"));
    edit(&journal(&host, 1), "s/\"confirm_by_ms\":[0-9]*/\"confirm_by_ms\":1/");
    let text = lines(&host);
    for index in 0..text.len() {
        let mut damaged = text.clone();
        damaged[index] = "x\n".to_owned();
        fs::write(journal(&host, 1), damaged.concat()).unwrap();
        ends(&mut host.tune("status"), UNREAD);
        host.holds(|step| step.2);
    }
    for index in 0..text.len() - 2 {
        let host = Host::new(&format!("damaged-deadline-{index}"));
        succeeds(host.apply().args(["--confirm-within", "1h"]));
        let mut damaged = text[..text.len() - 2].to_vec();
        let lost = STEPS.iter().map(|step| step.0).find(|path| damaged[index].contains(path));
        damaged[index] = "x\n".to_owned();
        fs::write(host.0.join("new"), damaged.concat()).unwrap();
        fs::rename(host.0.join("new"), journal(&host, 1)).unwrap();
        ends(&mut host.tune("status"), UNREAD);
        // Its own process may have been quicker, and be at it still.
        until("the way back", || changed(&host) == lost.into_iter().collect::<Vec<_>>());
    }
}

/// The line may be the one that says that the plan is undone.
#[test]
fn a_watch_says_once_what_it_cannot_read_and_sets_nothing_again_meanwhile() {
    let host = Host::new("damaged-watch");
    succeeds(&mut host.apply());
    let said = host.0.join("said");
    let mut watch = host.tune("watch");
    watch.args(["--every", "1s", "--repair", "auto"]).stderr(fs::File::create(&said).unwrap());
    let file = fs::OpenOptions::new().write(true).open(journal(&host, 1)).unwrap();
    let at = host.journal().find("rps_flow_cnt").unwrap() as u64;
    file.write_all_at(b"\0\0\0\0", at).unwrap();
    // As a driver or a restarted service would reset it.
    fs::write(host.0.join(STEPS[0].0), STEPS[0].1).unwrap();
    let prom = host.0.join("prom");
    let mut watch = watch.arg("--prometheus").arg(&prom).spawn().unwrap();
    // Three looks.
    for _ in 0..3 {
        until("a look", || prom.exists());
        fs::remove_file(&prom).unwrap();
    }
    succeeds(Command::new("kill").arg(watch.id().to_string()));
    assert!(watch.wait().unwrap().success());
    let said = fs::read_to_string(&said).unwrap();
    assert_eq!(said.matches("000001.jsonl: line").count(), 1, "{said}");
    assert_eq!(fs::read_to_string(host.0.join(STEPS[0].0)).unwrap(), STEPS[0].1);
}
