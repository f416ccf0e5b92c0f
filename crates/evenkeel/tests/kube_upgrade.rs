//! `evenkeel kube warm-upgrade` against an API server of a few lines: what it does, also when it is ended again and again.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::cluster::{Cluster, ITEMS, Image, Reply, SUM};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// The command for a cluster.
pub(crate) fn command(cluster: &Cluster, more: &[&str]) -> Command {
    let mut command = Command::new(EVENKEEL);
    let server = format!("http://{}", cluster.address);
    command.args(["kube", "warm-upgrade", "cache", "--namespace", "ns", "--server", &server]).args(more);
    if !more.contains(&"--patience") {
        command.args(["--patience", "60"]);
    }
    command.env_remove("KUBERNETES_SERVICE_HOST");
    command
}

/// Runs it to its end: status, standard output, standard error.
pub(crate) fn run(cluster: &Cluster, more: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(cluster, more).output().expect("the binary starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code().unwrap_or(-1), text(&stdout), text(&stderr))
}

/// Runs it; it has to end well.
#[track_caller]
pub(crate) fn done(cluster: &Cluster) -> String {
    let (status, out, err) = run(cluster, &[]);
    assert_eq!(status, 0, "{out}{err}");
    out
}

/// Each server was started so often, has its items, and is noted to be done; never more than one was away.
#[track_caller]
pub(crate) fn check_servers(cluster: &Cluster, image: &str, starts: usize) {
    let state = cluster.state();
    assert!(state.unready_max <= 1, "{} servers were away at a time", state.unready_max);
    for ((name, pod), at) in state.pods.iter().zip(0..) {
        assert_eq!((pod.image.as_str(), pod.starts), (image, starts), "{name}");
        assert_eq!(pod.server["restored_items"], ITEMS + at, "{name}");
        assert!(pod.is_ready && pod.annotations.is_empty(), "{name}");
    }
}

#[test]
fn servers_get_the_image_one_after_another_and_keep_their_items() {
    let cluster = Cluster::new(3);
    let out = done(&cluster);
    assert_eq!(out, "all 3 servers have evenkeel:2 and its flags; 3 of them were restarted\n");
    check_servers(&cluster, "evenkeel:2", 2);
    // Again, it finds nothing to do.
    assert_eq!(done(&cluster), "all 3 servers have evenkeel:2 and its flags; 0 of them were restarted\n");
    check_servers(&cluster, "evenkeel:2", 2);
}

#[test]
fn what_is_done_is_told_as_json() {
    let cluster = Cluster::new(2);
    cluster.state().pods.get_mut("cache-0").expect("a pod").image = "evenkeel:2".to_owned();
    let (status, out, err) = run(&cluster, &["--json", "--log", "json"]);
    assert_eq!(status, 0, "{err}");
    let outcome: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&outcome["result"], &outcome["servers"]), (&"done".into(), &2.into()));
    assert_eq!(outcome["pods"][0]["ending"], "as_wanted");
    let second = &outcome["pods"][1];
    assert_eq!(
        (&second["ending"], &second["items_before"], &second["items_restored"]),
        (&"restarted".into(), &1001.into(), &1001.into())
    );
    assert!(err.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{err}");
    assert!(err.contains("cache-1: given the image evenkeel:2, with 1001 items"), "{err}");
}

#[test]
fn a_dry_run_changes_nothing() {
    let cluster = Cluster::new(2);
    let (status, out, err) = run(&cluster, &["--dry-run"]);
    assert_eq!((status, out.as_str()), (0, "nothing was changed\n"), "{err}");
    assert!(err.contains("cache-1: would get the image evenkeel:2, with 1001 items"), "{err}");
    assert!(cluster.state().requests.iter().all(|request| request.starts_with("GET ")));
}

#[test]
fn other_flags_alone_restart_a_server_once_they_have_reached_its_pod() {
    let cluster = Cluster::new(2);
    {
        let mut state = cluster.state();
        state.image = "evenkeel:1".to_owned();
        state.flags = Some("bbbb".to_owned());
        state.flags_in_pods = ("bbbb".to_owned(), 4);
    }
    let (status, out, err) = run(&cluster, &[]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(err.contains("cache-0: waiting for the new flags to reach the pod"), "{err}");
    check_servers(&cluster, &format!("evenkeel:1@{SUM}"), 2);
    // The next change goes back to the plain name.
    {
        let mut state = cluster.state();
        state.flags = Some("cccc".to_owned());
        state.flags_in_pods = ("cccc".to_owned(), 0);
    }
    done(&cluster);
    check_servers(&cluster, "evenkeel:1", 3);
}

#[test]
fn another_image_and_other_flags_are_one_restart() {
    let cluster = Cluster::new(2);
    cluster.state().flags = Some("bbbb".to_owned());
    cluster.state().flags_in_pods = ("bbbb".to_owned(), 3);
    done(&cluster);
    check_servers(&cluster, "evenkeel:2", 2);
}

#[test]
fn an_image_that_cannot_be_had_halts_and_the_one_before_brings_the_items_back() {
    let cluster = Cluster::new(2);
    cluster.state().images.insert("evenkeel:2".to_owned(), Image::Unknown);
    let (status, out, _) = run(&cluster, &[]);
    assert_eq!(status, 75);
    assert!(
        out.starts_with(
            "halted at cache-0, with 0 of 2 servers done: the image cannot be had (ImagePullBackOff"
        ),
        "{out}"
    );
    assert_eq!(cluster.state().pods["cache-1"].starts, 1);
    // Run again, it halts there again.
    assert_eq!(run(&cluster, &[]).0, 75);
    cluster.state().image = "evenkeel:1".to_owned();
    assert_eq!(done(&cluster), "all 2 servers have evenkeel:1 and its flags; 1 of them were restarted\n");
}

#[test]
fn an_upgrade_that_is_killed_again_and_again_goes_on() {
    // Pseudo-random times, the same in each run.
    let mut seed = 0x9e37_79b9_u32;
    let mut kills = 0;
    for _ in 0..2 {
        let cluster = Cluster::new(3);
        // The time to kill it grows, so that it comes to an end.
        for least in (5..).step_by(15) {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let time = Duration::from_millis(least + u64::from(seed >> 16) % 400);
            let mut child = command(&cluster, &[])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts");
            // A moment that nothing announces is what is tried here.
            os_pause(time);
            if let Some(status) = child.try_wait().expect("a child") {
                assert!(status.success(), "{status}");
                break;
            }
            child.kill().expect("a child");
            child.wait().expect("a child");
            kills += 1;
        }
        check_servers(&cluster, "evenkeel:2", 2);
    }
    assert!(kills >= 8, "it was killed {kills} times only");
}

/// Lets time pass.
#[allow(clippy::disallowed_methods, reason = "the moment of a kill is no event")]
fn os_pause(time: Duration) {
    std::thread::sleep(time);
}

#[test]
fn an_upgrade_that_ends_after_each_request_goes_on() {
    // Each answer that is lost: the request was carried out, or not.
    for lost_after in 0..60 {
        let cluster = Cluster::new(1);
        let carried_out = lost_after % 2 == 0;
        cluster.state().answers = Some(Box::new(move |_, _, count| {
            (count == lost_after / 2).then_some(if carried_out {
                Reply::ClosesAfterwards
            } else {
                Reply::Closes
            })
        }));
        done(&cluster);
        check_servers(&cluster, "evenkeel:2", 2);
        if cluster.state().requests.len() <= lost_after / 2 {
            return;
        }
    }
    panic!("there were more requests than were lost");
}

#[test]
fn several_at_the_same_time_are_one_upgrade() {
    let cluster = Cluster::new(3);
    let start =
        |_| command(&cluster, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let together: Vec<_> = (0..4).map(start).collect();
    for mut child in together {
        assert!(child.wait().expect("a child").success());
    }
    check_servers(&cluster, "evenkeel:2", 2);
}

#[test]
fn a_pod_that_is_made_again_meanwhile_needs_nothing() {
    let cluster = Cluster::new(2);
    let other = cluster.clone();
    // While the first one restarts, and when the second is just about to be changed.
    cluster.state().answers = Some(Box::new(move |method, path, count| {
        let _ = &other;
        (method == "GET" && path.ends_with("/pods/cache-0") && (4..8).contains(&count)).then(|| {
            Reply::Says(
                404,
                crate::support::cluster::status(404, "NotFound", "pods \"cache-0\" not found").to_string(),
            )
        })
    }));
    done(&cluster);
    let cluster = Cluster::new(2);
    cluster.state().make_again("cache-1");
    done(&cluster);
    let state = cluster.state();
    assert_eq!((state.pods["cache-0"].starts, state.pods["cache-1"].starts), (2, 1));
}

#[test]
fn a_signal_ends_it_and_what_has_begun_stays() {
    let cluster = Cluster::new(2);
    cluster.state().images.insert("evenkeel:2".to_owned(), Image::Hangs);
    let mut child =
        command(&cluster, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = std::io::BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("to be ready") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut said, &mut line).expect("a pipe") > 0, "it ended before");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(143));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "ended by a signal, with 0 of 2 servers done; run again, it goes on from there\n"
    );
    cluster.state().images.insert("evenkeel:2".to_owned(), Image::Good);
    done(&cluster);
    check_servers(&cluster, "evenkeel:2", 2);
}
