//! A verb that handles no signal as the first process of a container: the kernel withholds signals without a handler from it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::host::EVENKEEL;

const UNSHARE: [&str; 5] = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];

#[test]
fn sigterm_ends_the_first_process_of_a_container() {
    if !Command::new("unshare").args(UNSHARE).arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("left out: namespaces of processes cannot be made here");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("first-process");
    // Of a run that was ended.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let evenkeel = |words: &str| {
        let output = Command::new(EVENKEEL).args(words.split(' ')).current_dir(&folder).output();
        assert!(output.expect(words).status.success(), "{words}");
    };
    evenkeel("control init ca --fleet t --operator o");
    evenkeel("control certificate --authority ca --role controller --id c1 --host 127.0.0.1 --out c1.pem");
    let code = ended_by_sigterm(
        &folder,
        "control serve --register directory:register --zone a --listen 127.0.0.1:0 --tls-ca ca/authority.pem --tls-cert c1.pem",
    );
    assert_eq!(code, Some(128 + 15));
}

/// The status of a verb that is sent SIGTERM once it says that it serves.
fn ended_by_sigterm(folder: &Path, words: &str) -> Option<i32> {
    let mut unshare = Command::new("unshare");
    unshare.args(UNSHARE).arg(EVENKEEL).args(words.split(' ')).current_dir(folder);
    let mut running = unshare.stderr(Stdio::piped()).spawn().expect("unshare");
    let lines = BufReader::new(running.stderr.take().expect("a pipe")).lines();
    let mut said = lines.map(|line| line.expect("a line"));
    assert!(said.any(|line| line.contains(" serves at ")), "it ended before");
    let children = format!("/proc/{0}/task/{0}/children", running.id());
    let children = fs::read_to_string(children).expect("a list of children");
    let first = children.trim().parse().ok().and_then(Pid::from_raw).expect("one child");
    kill_process(first, Signal::TERM).expect("send SIGTERM");
    running.wait().expect("its status").code()
}
