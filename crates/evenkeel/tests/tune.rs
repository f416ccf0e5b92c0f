//! `evenkeel tune apply` and rollback, with the real program: killed between journal and write, ended by a signal,
//! unconfirmed, without room on the disk, and in a network namespace of its own.

use std::fs;
use std::process::Command;

use crate::support::host::{EVENKEEL, Host, STEPS, fails, made, succeeds};
use crate::support::journal::{EDIT, edit};
use crate::support::namespaces::{apart, can_be_made};
use crate::support::until::until;

#[test]
fn a_plan_is_applied_watched_for_drift_and_undone() {
    let host = Host::new("whole");
    succeeds(&mut host.apply());
    host.holds(|step| step.2);
    assert!(
        succeeds(&mut host.tune("status")).contains("/sys/class/net/eth0/queues/rx-0/rps_cpus = 3: holds")
    );
    fs::write(host.0.join("sys/class/net/eth0/queues/rx-0/rps_cpus"), "1\n").unwrap();
    let status = host.tune("status").output().unwrap();
    assert_eq!(status.status.code(), Some(13));
    assert!(
        String::from_utf8_lossy(&status.stdout)
            .contains("/sys/class/net/eth0/queues/rx-0/rps_cpus = 3: DRIFTED: it reads \"1\"")
    );
    assert!(!String::from_utf8_lossy(&status.stdout).contains("Everything reads as before"));
    assert!(
        succeeds(host.tune("rollback").arg("--force"))
            .contains("restored to its value before the plan; it was changed to 1 after the plan")
    );
    host.holds(|step| step.1);
    assert!(fails(&mut host.tune("rollback")).contains("none is in force"));
}

/// For example, with a log on a full disk.
#[test]
fn the_status_does_not_depend_on_whether_output_can_be_written() {
    let host = Host::new("untold");
    let check = |command: &mut Command| {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let said = command.stdout(full).output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(0), "{command:?}: {text}");
        assert_eq!(text.matches("write to standard output: No space left on device").count(), 1, "{text}");
    };
    check(host.apply().args(["--confirm-within", "1h"]));
    host.holds(|step| step.2);
    check(&mut host.tune("confirm"));
    succeeds(&mut plan_over_it(&host));
    check(host.tune("rollback").arg("--all"));
    host.holds(|step| step.1);
}

#[test]
fn rollback_restores_everything_after_a_kill_between_journal_and_write() {
    for (number, (path, now, _)) in STEPS.iter().enumerate() {
        let host = Host::new(&format!("killed-{number}"));
        // A pipe without a reader blocks the write, when the journal has the step already.
        let pipe = host.0.join(path);
        fs::remove_file(&pipe).unwrap();
        succeeds(Command::new("mkfifo").arg(&pipe));
        let mut apply = host.apply().spawn().unwrap();
        // Returns when the pipe is read, by the check before the journal entry.
        fs::write(&pipe, now).unwrap();
        until("the step in the journal", || host.journal().matches("\"step\",").count() == number + 1);
        apply.kill().unwrap();
        apply.wait().unwrap();
        fs::remove_file(&pipe).unwrap();
        fs::write(&pipe, now).unwrap();
        assert!(fails(&mut host.apply()).contains("an earlier one was interrupted"));
        succeeds(&mut host.tune("rollback"));
        host.holds(|step| step.1);
    }
}

#[test]
fn an_unconfirmed_plan_is_undone_and_a_confirmed_one_stays() {
    let host = Host::new("unconfirmed");
    succeeds(host.apply().args(["--confirm-within", "1s"]));
    until("the way back", || host.journal().contains("rolled_back"));
    host.holds(|step| step.1);
    assert!(host.journal().contains("not confirmed in time"));

    let host = Host::new("confirmed");
    succeeds(host.apply().args(["--confirm-within", "1h"]));
    succeeds(&mut host.tune("confirm"));
    host.holds(|step| step.2);
    assert!(fails(&mut host.tune("confirm")).contains("none is waiting for it"));
    succeeds(&mut host.tune("rollback"));
}

/// A plan that raises the first setting from what the host's plan has set.
fn plan_over_it(host: &Host) -> Command {
    let (path, now, wanted) = (STEPS[0].0, STEPS[0].2, "8192");
    let change = serde_json::json!({
        "stage": "steering", "setting": {"file": {"path": format!("/{path}"), "holds": "number"}},
        "now": now, "wanted": wanted, "why": "", "asked_by": "", "risk": "low", "signal": "",
    });
    fs::write(host.0.join("over"), serde_json::json!({ "made": made(), "changes": [change] }).to_string())
        .unwrap();
    let mut apply = host.tune("apply");
    apply.arg("--plan").arg(host.0.join("over"));
    apply
}

/// Otherwise, after the deadline has undone the first plan and a rollback the second, the first one's value would
/// remain, which was neither there before nor belongs to a plan in force.
#[test]
fn nothing_is_applied_over_a_plan_that_waits_to_be_confirmed() {
    let host = Host::new("over");
    succeeds(host.apply().args(["--confirm-within", "1h"]));
    let said = fails(&mut plan_over_it(&host));
    assert!(said.contains("an earlier one waits to be confirmed"), "{said}");
    assert!(said.contains("`evenkeel tune confirm` keeps it, `evenkeel tune rollback` undoes it"), "{said}");
    host.holds(|step| step.2);
    succeeds(&mut host.tune("confirm"));
    succeeds(&mut plan_over_it(&host));
    succeeds(&mut host.tune("rollback"));
    host.holds(|step| step.2);
    succeeds(&mut host.tune("rollback"));
    host.holds(|step| step.1);
}

/// Checks that this plan is refused with these words, and that nothing is changed.
#[track_caller]
fn refuses(host: &Host, plan: &str, words: &str) {
    fs::write(host.0.join("plan"), plan).unwrap();
    let said = fails(&mut host.apply());
    assert!(said.contains(words), "{said}");
    host.holds(|step| step.1);
}

#[test]
fn a_plan_of_another_host_or_boot_or_for_other_settings_is_refused() {
    let host = Host::new("foreign");
    let plan = fs::read_to_string(host.0.join("plan")).unwrap();
    let with = |from: &str, to: &str| {
        assert!(plan.contains(from), "{plan}");
        plan.replace(from, to)
    };
    refuses(
        &host,
        &with("\"first\"", "\"zeroth\""),
        "it was made before this host was started the last time",
    );
    refuses(&host, &with("\"host\":\"\"", "\"host\":\"a\""), "it was made on \"a\", and this is \"\"");
    refuses(&host, &with("\"network\":null", "\"network\":\"net:[1]\""), "in the network namespace net:[1]");
    refuses(
        &host,
        &with("/rps_flow_cnt", "/../../../../../../../etc/passwd"),
        "which no strategy or profile sets",
    );
    refuses(&host, &with("net/core/somaxconn", "kernel/core_pattern"), "which no strategy or profile sets");
    refuses(&host, "{\"changes\":[]}", "missing field `made`");
}

#[test]
fn links_out_of_the_root_are_not_followed() {
    let host = Host::new("links");
    let outside = host.0.with_extension("outside");
    fs::write(&outside, "128\n").unwrap();
    let inside = host.0.join(STEPS[0].0);
    fs::remove_file(&inside).unwrap();
    std::os::unix::fs::symlink(&outside, &inside).unwrap();
    let said = fails(&mut host.apply());
    assert!(said.contains("it is not there any more"), "{said}");
    let climbing = format!("../../../../../../../../../../../..{}", outside.display());
    fs::remove_file(&inside).unwrap();
    std::os::unix::fs::symlink(climbing, &inside).unwrap();
    assert!(fails(&mut host.apply()).contains("it is not there any more"));
    assert_eq!(fs::read_to_string(&outside).unwrap(), "128\n");
    // Links that stay inside are followed: the interfaces in /sys are such links.
    fs::remove_file(&inside).unwrap();
    fs::write(host.0.join("real"), "128\n").unwrap();
    std::os::unix::fs::symlink("/real", &inside).unwrap();
    succeeds(&mut host.apply());
    assert_eq!(fs::read_to_string(host.0.join("real")).unwrap(), "4096");
    fs::remove_file(outside).unwrap();
}

#[test]
fn after_a_restart_there_is_nothing_to_undo() {
    let host = Host::new("restart");
    succeeds(&mut host.apply());
    fs::write(host.0.join("proc/sys/kernel/random/boot_id"), "second\n").unwrap();
    assert!(fails(&mut host.tune("rollback")).contains("the host was restarted since"));
    host.holds(|step| step.2);
}

#[test]
fn a_plan_that_fails_changes_nothing() {
    let host = Host::new("fails");
    fs::write(host.0.join(STEPS[2].0), "7\n").unwrap();
    let said = fails(&mut host.apply());
    assert!(said.contains("it was \"0\\n\" when this was planned and is \"7\\n\" now"), "{said}");
    assert!(said.contains("everything is as it was before"), "{said}");
    assert_eq!(fs::read_to_string(host.0.join("proc/sys/net/core/somaxconn")).unwrap(), "128\n");
    assert_eq!(
        fs::read_to_string(host.0.join("sys/class/net/eth0/queues/rx-0/rps_cpus")).unwrap(),
        "00000000\n"
    );
}

/// Moves the deadline of the host's plan to the distant past.
fn let_pass(host: &Host) {
    edit(&host.0.join("state/000001.jsonl"), "s/\"confirm_by_ms\":[0-9]*/\"confirm_by_ms\":1/");
}

/// Ends the process that watches over the host's plan.
fn kill_watcher(host: &Host) {
    let pid = watcher(host);
    succeeds(Command::new("kill").args(["-9", &pid]));
    let line = || fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    until("its end", || !line().contains("watch-over"));
}

#[test]
fn any_verb_after_the_deadline_undoes_the_plan_if_its_watcher_was_killed() {
    for (job, said) in [
        ("confirm", "confirm a plan: it is too late, the last one was undone when its time was over"),
        ("status", "was not confirmed in time: everything is as it was before"),
        ("rollback", "undo a plan: none is in force"),
        ("verify", "was not confirmed in time: everything is as it was before"),
    ] {
        let host = Host::new(&format!("overdue-{job}"));
        succeeds(host.apply().args(["--confirm-within", "1h"]));
        kill_watcher(&host);
        let_pass(&host);
        // It is undone before anything is planned from its values.
        let output = host.tune(job).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said), "{job}: {text}");
        host.holds(|step| step.1);
        assert!(host.journal().contains("not confirmed in time"), "{job}");
        succeeds(&mut host.apply());
    }
}

#[test]
fn long_running_verbs_first_undo_an_overdue_plan() {
    const LATE: &str = "was not confirmed in time: everything is as it was before";
    let overdue = |name: &str| {
        let host = Host::new(&format!("overdue-{name}"));
        succeeds(host.apply().args(["--confirm-within", "1h"]));
        kill_watcher(&host);
        let_pass(&host);
        host
    };
    // Its old values are those from before the overdue plan.
    let host = overdue("apply");
    let output = host.apply().output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(LATE), "{said}");
    host.holds(|step| step.2);
    succeeds(&mut host.tune("rollback"));
    host.holds(|step| step.1);
    let tournament = ["--strategies", "none,rps-rfs", "--load", "true", "--rounds", "1"];
    for (job, words) in [("persist", &["--dry-run"][..]), ("tournament", &tournament)] {
        let host = overdue(job);
        // Its further work does not concern this host's three settings.
        let said = host.tune(job).args(words).output().unwrap().stderr;
        assert!(String::from_utf8_lossy(&said).contains(LATE), "{job}: {}", String::from_utf8_lossy(&said));
        host.holds(|step| step.1);
    }
    let host = overdue("watch");
    let said = host.0.join("said");
    let mut watch = host.tune("watch");
    let mut watch =
        watch.args(["--repair", "auto"]).stderr(fs::File::create(&said).unwrap()).spawn().unwrap();
    until("the way back", || fs::read_to_string(&said).unwrap().contains(LATE));
    succeeds(Command::new("kill").arg(watch.id().to_string()));
    assert!(watch.wait().unwrap().success());
    host.holds(|step| step.1);
}

#[test]
fn a_deadline_is_the_same_in_another_time_namespace() {
    let ahead = |command: &mut Command| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--time", "--boottime", "100000", "--fork"]);
        unshare.arg(command.get_program()).args(command.get_args());
        unshare
    };
    if !ahead(&mut Command::new("true")).status().is_ok_and(|status| status.success()) {
        return eprintln!("no time namespace can be made here");
    }
    let host = Host::new("time");
    succeeds(host.apply().args(["--confirm-within", "1h"]));
    let said = succeeds(&mut ahead(&mut host.tune("status")));
    assert!(said.contains("in force, undone in 3"), "{said}");
    host.holds(|step| step.2);
    succeeds(&mut ahead(&mut host.tune("confirm")));
}

#[test]
fn a_deadline_of_an_earlier_boot_undoes_nothing() {
    let host = Host::new("rebooted");
    succeeds(host.apply().args(["--confirm-within", "1h"]));
    kill_watcher(&host);
    let_pass(&host);
    fs::write(host.0.join("proc/sys/kernel/random/boot_id"), "second\n").unwrap();
    assert!(succeeds(&mut host.tune("status")).starts_with("Nothing is in force.\n"));
    host.holds(|step| step.2);
}

/// Whether a thread of the process is opening a file; opening a pipe blocks until the other end is open.
fn is_opening_a_file(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut calls = tasks.filter_map(|task| fs::read_to_string(task.path().join("syscall")).ok());
    let opening = [libc::SYS_openat, libc::SYS_openat2].map(|number| format!("{number} "));
    calls.any(|call| opening.iter().any(|number| call.starts_with(number)))
}

#[test]
fn a_signal_in_the_middle_undoes_the_plan() {
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let host = Host::new(&format!("signal-{signal}"));
        let (path, now, wanted) = STEPS[1];
        let (file, pipe) = (host.0.join(path), host.0.join("pipe"));
        fs::remove_file(&file).unwrap();
        succeeds(Command::new("mkfifo").arg(&file));
        let apply = host.apply();
        // Tests that run in the background ignore SIGINT, and processes inherit that.
        let mut here = Command::new("env");
        here.arg("--default-signal").arg(apply.get_program()).args(apply.get_args());
        let mut apply = here.stderr(std::process::Stdio::piped()).spawn().unwrap();
        fs::write(&file, now).unwrap();
        until("the step in the journal", || host.journal().matches("\"step\",").count() == 2);
        until("the write", || is_opening_a_file(apply.id()));
        // It waits for a reader. When it gets one, the signal has arrived, and a file has replaced the pipe.
        succeeds(Command::new("kill").args([&format!("-{signal}"), &apply.id().to_string()]));
        fs::rename(&file, &pipe).unwrap();
        fs::write(&file, wanted).unwrap();
        assert_eq!(fs::read_to_string(&pipe).unwrap(), wanted);
        let ended = apply.wait().unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut apply.stderr.take().unwrap(), &mut said).unwrap();
        assert_eq!(ended.code(), Some(status), "{said}");
        assert!(said.contains("ended by a signal; everything is as it was before"), "{said}");
        for (path, now, _) in STEPS {
            assert_eq!(fs::read_to_string(host.0.join(path)).unwrap(), now, "{path}");
        }
        succeeds(&mut host.apply());
    }
}

/// A driver that is being reset takes its settings again soon after the deadline.
#[test]
fn a_step_that_could_not_be_undone_at_the_deadline_is_tried_again() {
    let host = Host::new("again");
    succeeds(host.apply().args(["--confirm-within", "1h"]));
    let (file, aside) = (host.0.join(STEPS[1].0), host.0.join("aside"));
    fs::rename(&file, &aside).unwrap();
    fs::create_dir(&file).unwrap();
    let_pass(&host);
    until("the rollback of the others", || host.journal().matches("\"undone\"").count() == 2);
    fs::remove_dir(&file).unwrap();
    fs::rename(&aside, &file).unwrap();
    until("the complete rollback", || host.journal().contains("\"rolled_back\""));
    host.holds(|step| step.1);
}

/// The process that watches over the host's plan.
fn watcher(host: &Host) -> String {
    let place = host.0.to_str().unwrap();
    let is_watcher = |pid: &String| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("watch-over") && line.contains(place)
    };
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let pids: Vec<String> = names.filter_map(|name| name.into_string().ok()).filter(is_watcher).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    pids[0].clone()
}

/// The number of times that a process has waited.
fn waits(pid: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
}

#[test]
fn a_journal_that_cannot_be_read_for_a_while_does_not_end_its_watcher() {
    let host = Host::new("unreadable");
    succeeds(host.apply().args(["--confirm-within", "1h"]));
    let (journal, aside, pid) = (host.0.join("state/000001.jsonl"), host.0.join("aside"), watcher(&host));
    fs::create_dir(&aside).unwrap();
    let looks = || {
        let then = waits(&pid).expect("it watches");
        until("its checks", || waits(&pid).is_none_or(|now| now > then + 2));
    };
    // Atomically: a missing journal would end the watcher.
    let exchange = || {
        let here = rustix::fs::CWD;
        rustix::fs::renameat_with(here, &journal, here, &aside, rustix::fs::RenameFlags::EXCHANGE).unwrap();
    };
    looks();
    exchange();
    looks();
    exchange();
    let_pass(&host);
    until("the way back", || host.journal().contains("\"rolled_back\""));
    host.holds(|step| step.1);
}

#[test]
fn a_limit_on_file_sizes_does_not_stop_a_rollback() {
    let host = Host::new("ulimit");
    succeeds(&mut host.apply());
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1; exec \"$@\"", "sh", EVENKEEL, "tune", "rollback", "--root"]);
    limited.arg(&host.0).arg("--state").arg(host.0.join("state"));
    let output = limited.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // A short record may be kept in /run, if that can be written.
    let is_told = match output.status.code() {
        Some(0) => {
            String::from_utf8_lossy(&output.stdout).contains("so that is recorded in /run/evenkeel-tune/")
        }
        code => code == Some(19) && said.contains("File too large"),
    };
    assert!(is_told, "{}: {said}", output.status);
    host.holds(|step| step.1);
    // Either this records it, or it finds nothing to undo and records that.
    let _ = host.tune("rollback").output().unwrap();
    assert!(host.journal().contains("\"rolled_back\""));
}

/// As in a cgroup at its limit of tasks; this limit does not apply to root.
#[test]
fn a_rollback_works_without_threads_if_none_can_be_started() {
    let host = Host::new("threads");
    let nobody = |limit: &str, command: &mut Command| {
        let mut limited = Command::new("setpriv");
        limited.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "prlimit", limit]);
        limited.arg(command.get_program()).args(command.get_args());
        limited
    };
    succeeds(Command::new("chown").args(["-R", "65534"]).arg(&host.0));
    if !nobody("--nproc=9", Command::new("test").args(["-x", EVENKEEL])).status().is_ok_and(|it| it.success())
    {
        return eprintln!("it takes root, and a program that others may run");
    }
    succeeds(&mut nobody("--nproc=9999", &mut host.apply()));
    host.holds(|step| step.2);
    succeeds(&mut nobody("--nproc=1", &mut host.tune("rollback")));
    host.holds(|step| step.1);
}

/// The journals on a disk of their own that is full or read-only.
const NO_ROOM: &str = r#"
set -eu
mkdir "$DIR/state"
mount -t tmpfs -o size=160k,mode=700 tmpfs "$DIR/state"
tune() { job=$1; shift; "$EVENKEEL" tune "$job" --root "$DIR" --state "$DIR/state" "$@"; }
values() { cat "$DIR/proc/sys/net/core/somaxconn" "$DIR"/sys/class/net/eth0/queues/rx-0/*; }
fill() { cat /dev/zero 2> /dev/null > "$DIR/state/fill" || true; ! echo x 2> /dev/null > "$DIR/state/x"; rm "$DIR/state/x"; }
values > "$DIR/before"

# Full after the plan: there is room for what is to be recorded.
tune apply --plan "$DIR/plan"
fill
tune status
tune rollback
tail -n 1 "$DIR/state/000001.jsonl" | grep rolled_back
values | cmp - "$DIR/before"

# Full before the plan: nothing is changed.
status=0; tune apply --plan "$DIR/plan" 2> "$DIR/said" || status=$?
test $status = 71; grep 'No space left' "$DIR/said"
values | cmp - "$DIR/before"
tune status | grep 'Nothing is in force'

# It can only be read: restored, and recorded where it can be until then. Nobody takes the plan for one in force, also not
# a watch that may repair, and that finds everything as it was before the plan.
mount -t tmpfs -o mode=755 tmpfs /run
rm "$DIR/state/fill"
tune apply --plan "$DIR/plan"
mount -o remount,ro "$DIR/state"
tune status | grep -c holds
tune rollback > "$DIR/said"
grep 'its journal cannot be written now, so that is recorded in /run/evenkeel-tune/' "$DIR/said"
values | cmp - "$DIR/before"
tune status | grep 'Nothing is in force'
! tune rollback 2> "$DIR/said"; grep 'none is in force' "$DIR/said"
watched() { rm -f "$DIR/prom"; 
    "$EVENKEEL" tune watch --root "$DIR" --state "$DIR/state" --repair auto --prometheus "$DIR/prom" > "$DIR/watch" & watch=$!
    until test -e "$DIR/prom"; do sleep 0.05; done; kill $watch; wait $watch; values | cmp - "$DIR/before"; }
watched
mount -o remount,rw "$DIR/state"
watched
grep 'watching: 0 settings' "$DIR/watch"
! tune rollback
tail -n 1 "$DIR/state/000002.jsonl" | grep rolled_back
test -z "$(ls /run/evenkeel-tune)"

# Nor can anything be kept elsewhere.
tune apply --plan "$DIR/plan"
mount -o remount,ro "$DIR/state"
mount -o remount,ro /run
status=0; tune rollback 2> "$DIR/said" || status=$?
test $status = 19; grep 'record that everything is as it was before: append to .*Read-only file system' "$DIR/said"
grep '`evenkeel tune watch --repair auto` would set it again' "$DIR/said"
values | cmp - "$DIR/before"
status=0; tune status > "$DIR/said" || status=$?
test $status = 13; grep 'Everything reads as before the plan' "$DIR/said"
status=0; tune rollback > /dev/full 2> "$DIR/said" || status=$?
test $status = 19; grep 'write to standard output' "$DIR/said"
mount -o remount,rw "$DIR/state"
tune rollback
tail -n 1 "$DIR/state/000003.jsonl" | grep rolled_back
values | cmp - "$DIR/before"
umount /run
umount "$DIR/state"
"#;

#[test]
fn neither_a_full_nor_a_read_only_disk_stops_a_rollback() {
    if !can_be_made() {
        return eprintln!("no mount namespace can be made here");
    }
    let host = Host::new("no-room");
    succeeds(&mut apart(&host.0, NO_ROOM));
}

/// A disk with room for the beginning of a plan alone.
const ROOM_FOR_A_BEGINNING: &str = r#"
set -eu
mkdir "$DIR/state"
mount -t tmpfs -o size=64k,mode=700 tmpfs "$DIR/state"
status=0
"$EVENKEEL" tune apply --plan "$DIR/plan" --root "$DIR" --state "$DIR/state" 2> "$DIR/said" || status=$?
cat "$DIR/said"
test $status = 71
grep 'append to .*everything is as it was before: No space left on device' "$DIR/said"
grep '"step"' "$DIR/state/000001.jsonl" | tail -n 1
tail -n 1 "$DIR/state/000001.jsonl" | grep rolled_back
umount "$DIR/state"
"#;

#[test]
fn a_disk_that_becomes_full_on_the_way_is_the_systems_refusal_and_everything_goes_back() {
    if !can_be_made() {
        return eprintln!("no mount namespace can be made here");
    }
    let host = Host::new("filling");
    let queue = |number: usize| format!("sys/class/net/eth0/queues/rx-{number}/rps_cpus");
    let change = |number: usize| {
        let file = host.0.join(queue(number));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "0\n").unwrap();
        serde_json::json!({
            "stage": "steering", "setting": {"file": {"path": format!("/{}", queue(number)), "holds": "mask"}},
            "now": "0", "wanted": "3", "why": "", "asked_by": "", "risk": "low", "signal": "",
        })
    };
    let changes: Vec<_> = (1..65).map(change).collect();
    fs::write(host.0.join("plan"), serde_json::json!({ "made": made(), "changes": changes }).to_string())
        .unwrap();
    succeeds(&mut apart(&host.0, ROOM_FOR_A_BEGINNING));
    (1..65).for_each(|number| assert_eq!(fs::read_to_string(host.0.join(queue(number))).unwrap(), "0\n"));
}

/// For scripts: the processes that watch over a deadline. A shell has its script, and with it these words, on its command
/// line, too.
const WATCHERS: &str = r#"watchers() { for pid in /proc/[0-9]*; do
    tr '\0' ' ' 2> /dev/null < $pid/cmdline | grep -q '^[^ ]* tune watch-over' && echo ${pid#/proc/}; done; true; }"#;

/// A host whose first process appears to be systemd, in namespaces of its own; calls of its commands are recorded.
const SYSTEMD: &str = r#"
set -eu
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system "$DIR/bin"
ip link add v0 type veth peer name v1
printf '#!/bin/sh\nprintf "%%s\\n" "$@" > "$DIR/asked"\n' > "$DIR/bin/systemd-run"
chmod +x "$DIR/bin/systemd-run"
timer=/sys/class/net/v0/gro_flush_timeout
PATH="$DIR/bin:$PATH" "$EVENKEEL" tune apply --strategy defer-50 --nic v0 --state "$DIR/state" --confirm-within 1h
test "$(cat $timer)" = 50000
grep -x -- --on-active=3600s "$DIR/asked"
WATCHERS
# There is no process that could be killed.
test -z "$(watchers)"
let_pass "$DIR/state/000001.jsonl"
sed '1,/^--$/d' "$DIR/asked" | xargs -d '\n' env
test "$(cat $timer)" = 0
tail -n 1 "$DIR/state/000001.jsonl" | grep 'not confirmed in time'

# It hangs: a process of its own watches.
printf '#!/bin/sh\nexec sleep 1000\n' > "$DIR/bin/systemd-run"
PATH="$DIR/bin:$PATH" "$EVENKEEL" tune apply --strategy defer-50 --nic v0 --state "$DIR/state" --confirm-within 1h
test "$(cat $timer)" = 50000
test -n "$(watchers)"
"#;

#[test]
fn with_systemd_the_deadline_is_a_systemd_timer() {
    if !can_be_made() {
        return eprintln!("no network namespace can be made here");
    }
    let host = Host::new("systemd");
    succeeds(&mut apart(&host.0, &SYSTEMD.replace("WATCHERS", &format!("{WATCHERS}\n{EDIT}"))));
}

/// A plan in a network namespace whose deadline has passed, seen from another namespace.
const ELSEWHERE: &str = r#"
set -eu
mount -t tmpfs tmpfs /run
ip netns add blue
tune() { job=$1; shift; "$EVENKEEL" tune "$job" --state "$DIR/state" "$@"; }
blue() { ip netns exec blue "$EVENKEEL" tune "$@" --state "$DIR/state"; }
ip netns exec blue ip link add v0 type veth peer name v1
timer() { ip netns exec blue cat /sys/class/net/v0/gro_flush_timeout; }
WATCHERS
overdue() {
    blue apply --strategy defer-50 --nic v0 --confirm-within 1h
    ! tune confirm 2> "$DIR/said"; grep 'it was done in the network namespace net:' "$DIR/said"
    tune status | grep 'Nothing is in force'
    kill -9 $(watchers)
    let_pass "$DIR/state/$1"
    status=0; tune status > "$DIR/said" || status=$?
    test $status = 13; grep "$1: OVERDUE in the network namespace net:" "$DIR/said"
}
overdue 000001.jsonl
grep "\`ip netns exec blue evenkeel tune status --state $DIR/state\` undoes it there" "$DIR/said"
test "$(timer)" = 50000
blue status 2>&1 | grep 'was not confirmed in time: everything is as it was before'
test "$(timer)" = 0
tune status > "$DIR/said"; ! grep OVERDUE "$DIR/said"

overdue 000002.jsonl
ip netns exec blue sleep 1000 & inside=$!
until test "$(cat /proc/$inside/comm)" = sleep; do sleep 0.05; done
ip netns del blue
status=0; tune status > "$DIR/said" || status=$?
test $status = 13; grep "\`nsenter --net=/proc/[0-9]*/ns/net evenkeel tune status --state $DIR/state\` undoes it" "$DIR/said"
kill $inside; ! wait $inside
status=0; tune status > "$DIR/said" || status=$?
test $status = 13; grep 'no process is found in it' "$DIR/said"
"#;

/// A network namespace with the number of a deleted one, in which a plan was never undone.
const SAME_NUMBER: &str = r#"
set -eu
WATCHERS
tune() { job=$1; shift; "$EVENKEEL" tune "$job" --state "$DIR/state" "$@"; }
case "${1-}" in
first)
    mount -t sysfs sysfs /sys
    ip link add v0 type veth peer name v1
    tune apply --strategy defer-50 --nic v0 --confirm-within 1h
    readlink /proc/self/ns/net > "$DIR/number"
    kill -9 $(watchers)
    exit;;
second)
    mount -t sysfs sysfs /sys
    ip link add v0 type veth peer name v1
    echo 7000 > /sys/class/net/v0/gro_flush_timeout
    status=0; tune status > "$DIR/said" || status=$?
    test $status = 13; grep 'Nothing is in force' "$DIR/said"; grep 'no process is found in it' "$DIR/said"
    test "$(cat /sys/class/net/v0/gro_flush_timeout)" = 7000
    exit;;
esac
again() { unshare --net --mount sh -c "$SCRIPT" sh "$1"; }
again first
let_pass "$DIR/state/000001.jsonl"
# The number is free a moment after the last process in there has ended.
n=0; until test "$(unshare --net readlink /proc/self/ns/net)" = "$(cat "$DIR/number")" || test $n = 100; do
    n=$((n + 1)); sleep 0.05; done
again second
"#;

#[test]
fn a_plan_of_a_deleted_network_namespace_is_not_that_of_a_new_one_with_its_number() {
    if !can_be_made() {
        return eprintln!("no network namespace can be made here");
    }
    let host = Host::new("number");
    let script = SAME_NUMBER.replace("WATCHERS", &format!("{WATCHERS}\n{EDIT}"));
    succeeds(apart(&host.0, &script).env("SCRIPT", &script));
}

#[test]
fn a_plan_that_is_overdue_in_another_network_namespace_is_named() {
    if !can_be_made() {
        return eprintln!("no network namespace can be made here");
    }
    let host = Host::new("elsewhere");
    succeeds(&mut apart(&host.0, &ELSEWHERE.replace("WATCHERS", &format!("{WATCHERS}\n{EDIT}"))));
}

/// The script in the namespace, which ends with everything in it.
const LIVE: &str = r#"
set -eu
mount -t sysfs sysfs /sys
ip link add v0 numrxqueues 4 numtxqueues 4 type veth peer name v1 numrxqueues 4 numtxqueues 4
ip link set v0 up; ip link set v1 up
look() { cat /sys/class/net/v0/queues/*/?ps_cpus /sys/class/net/v0/queues/rx-*/rps_flow_cnt \
    /sys/class/net/v0/gro_flush_timeout /sys/class/net/v0/napi_defer_hard_irqs; }
look > "$DIR/before"
for strategy in xps defer-50; do
    "$EVENKEEL" tune apply --strategy $strategy --nic v0 --state "$DIR/state"
done
"$EVENKEEL" tune status --state "$DIR/state"
test "$(cat /sys/class/net/v0/gro_flush_timeout)" = 50000
echo 0 > /sys/class/net/v0/napi_defer_hard_irqs
status=0; "$EVENKEEL" tune status --state "$DIR/state" || status=$?
test $status = 13
"$EVENKEEL" tune rollback --all --state "$DIR/state"
look > "$DIR/after"
cmp "$DIR/before" "$DIR/after"

# Renamed, with another one under its name: what was set is undone where it is, and the other one is left alone.
"$EVENKEEL" tune apply --strategy defer-50 --nic v0 --state "$DIR/state"
ip link set v0 down; ip link set v0 name renamed
ip link add v0 type veth peer name v2; echo 7000 > /sys/class/net/v0/gro_flush_timeout
"$EVENKEEL" tune rollback --state "$DIR/state" | grep '/sys/class/net/renamed/gro_flush_timeout: restored'
test "$(cat /sys/class/net/renamed/gro_flush_timeout)" = 0
test "$(cat /sys/class/net/v0/gro_flush_timeout)" = 7000
ip link del v0; ip link set renamed name v0; ip link set v0 up
look > "$DIR/after"; cmp "$DIR/before" "$DIR/after"

# While one only measures (it sleeps: clock_nanosleep on x86-64 and aarch64), it is in nobody's way.
"$EVENKEEL" tune apply --strategy xps --nic v0 --state "$DIR/state"
"$EVENKEEL" tune apply --strategy defer-50 --nic v0 --before 3600 --state "$DIR/state" & measuring=$!
until grep -qE '^(230|115) ' /proc/$measuring/syscall; do sleep 0.05; done
"$EVENKEEL" tune rollback --wait 10s --state "$DIR/state"
kill $measuring; ! wait $measuring
look > "$DIR/after"; cmp "$DIR/before" "$DIR/after"

# By hand, every kind at once, and one step that the kernel refuses: a CPU that is not there.
file() { printf '{"stage":"steering","setting":{"file":{"path":"%s","holds":"%s"}},"now":"%s","wanted":"%s","why":"","asked_by":"","risk":"low","signal":""}' "$@"; }
q=/sys/class/net/v0/queues
made=$(printf '"made":{"host":"%s","boot_id":"%s","network":"%s"}' "$(cat /proc/sys/kernel/hostname)" \
    "$(cat /proc/sys/kernel/random/boot_id)" "$(readlink /proc/self/ns/net)")
good="$(file $q/rx-0/rps_cpus mask 0 1),$(file $q/rx-3/rps_flow_cnt number 0 1024),$(file /proc/sys/net/core/somaxconn number "$(cat /proc/sys/net/core/somaxconn)" 777)"
printf '{%s,"changes":[%s]}' "$made" "$good" > "$DIR/good"
printf '{%s,"changes":[%s,%s]}' "$made" "$good" "$(file $q/rx-1/rps_cpus mask 0 80000000,00000000,00000000,00000000,00000000)" > "$DIR/bad"
somaxconn=$(cat /proc/sys/net/core/somaxconn)
! "$EVENKEEL" tune apply --plan "$DIR/bad" --state "$DIR/state" 2> "$DIR/said"
grep -q 'the mask names CPUs that are not there; everything is as it was before' "$DIR/said"
look > "$DIR/after"; cmp "$DIR/before" "$DIR/after"
"$EVENKEEL" tune apply --plan "$DIR/good" --state "$DIR/state"
test "$(cat /proc/sys/net/core/somaxconn)" = 777
"$EVENKEEL" tune rollback --state "$DIR/state"
test "$(cat /proc/sys/net/core/somaxconn)" = "$somaxconn"
look > "$DIR/after"; cmp "$DIR/before" "$DIR/after"

# One queue of four by hand, then as many as there are cores; all four are back with what was set of them.
echo 1 > $q/rx-3/rps_cpus; echo 2048 > $q/rx-3/rps_flow_cnt; look > "$DIR/before"
printf '{%s,"changes":[{"stage":"queues","setting":{"device":{"nic":"v0","knob":"channels"}},"now":"rx=4 tx=4","wanted":"rx=1 tx=1","why":"","asked_by":"","risk":"blink","signal":""}]}' "$made" > "$DIR/one"
"$EVENKEEL" tune apply --plan "$DIR/one" --state "$DIR/state"
! test -e $q/rx-1
if test "$(getconf _NPROCESSORS_ONLN)" -gt 1; then
    "$EVENKEEL" tune plan --strategy queues --nic v0
    "$EVENKEEL" tune apply --strategy queues --nic v0 --state "$DIR/state"
    test -e $q/rx-1
fi
"$EVENKEEL" tune status --state "$DIR/state"
"$EVENKEEL" tune rollback --all --state "$DIR/state"
look > "$DIR/after"; cmp "$DIR/before" "$DIR/after"
"#;

#[test]
fn a_veth_with_four_queues_is_tuned_and_restored_byte_by_byte() {
    if !can_be_made() {
        return eprintln!("no network namespace can be made here");
    }
    let directory = std::env::temp_dir().join(format!("evenkeel-tune-live-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let said = succeeds(&mut apart(&directory, LIVE));
    assert!(said.contains("/sys/class/net/v0/gro_flush_timeout = 50000: holds"), "{said}");
    fs::remove_dir_all(&directory).unwrap();
}
