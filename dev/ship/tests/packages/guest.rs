//! A Debian with systemd as its first process, in which a test runs itself again as root.
//!
//! It is a folder that systemd-nspawn boots, with a network of its own, so it needs neither a virtual machine nor systemd on this host.

use crate::tools::{have, is_thorough, leave_out};
use checkout::target_directory;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use ship::commands::said;

/// Tells the inner run that it is the inner one.
const INNER: &str = "EVENKEEL_TEST_IN_GUEST";

/// Longest time of a guest: one that hangs must fail.
const SECONDS_MAX: &str = "300";

/// What a guest has besides Debian's essential packages.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,procps,iproute2,libgcc-s1";

/// Releases of Debian whose guests run each test: systemd 252 and 257.
const RELEASES: [&str; 2] = ["bookworm", "trixie"];

/// One guest at a time: two would share the CPUs, and gaps in service are measured.
static TURN: Mutex<()> = Mutex::new(());

/// Runs this same test again in a guest of each release with these files in /root. `true`: this is the inner run. Where no guest
/// can be made, it says so, and the test has nothing to do.
pub(super) fn in_guest(test: &str, files: impl FnOnce() -> Vec<PathBuf>) -> bool {
    if std::env::var_os(INNER).is_some() {
        return true;
    }
    if !is_possible(&[("systemd-nspawn", "Debian: systemd-container")]) {
        return false;
    }
    let files = files();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    RELEASES.iter().for_each(|release| run_in(release, test, &files));
    false
}

/// Runs the test in a guest of this release.
fn run_in(release: &str, test: &str, files: &[PathBuf]) {
    println!("in a guest of {release}:");
    let folder = copy(release, test.rsplit("::").next().unwrap_or(test));
    for file in files {
        fs::copy(file, folder.join("root").join(file.file_name().unwrap())).expect("a file for the guest");
    }
    install_test(&folder, test);
    let output = Command::new("timeout")
        .args(["--kill-after=10", SECONDS_MAX, "systemd-nspawn", "--quiet", "--boot", "--private-network"])
        .args(["--register=no", "--keep-unit", "--machine=evenkeel-test", "--directory"])
        .arg(&folder)
        .arg(format!("--bind-ro={}:/root/test", std::env::current_exe().unwrap().display()))
        .output()
        .expect("systemd-nspawn");
    let outcome = fs::read_to_string(folder.join("root/outcome")).unwrap_or_default();
    println!("{outcome}");
    // Before the test has begun, only the console says what is wrong.
    let console = if outcome.is_empty() { &*String::from_utf8_lossy(&output.stdout) } else { "" };
    assert!(output.status.success(), "{}: in {}: {console}", output.status, folder.display());
    fs::remove_dir_all(&folder).expect("remove the guest");
}

/// A copy of the guest that was installed once, in which no process runs: what a chroot is.
pub(super) fn chroot(name: &str, programs: &[(&str, &str)]) -> Option<PathBuf> {
    is_possible(programs).then(|| copy(RELEASES[0], name))
}

fn is_possible(programs: &[(&str, &str)]) -> bool {
    if !is_thorough() {
        return leave_out("guests with systemd (EVENKEEL_TEST_ALL=1 has them)");
    }
    let is_root = said(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let programs = [programs, &[("mmdebstrap", "Debian: mmdebstrap")]].concat();
    have(&programs) && (is_root || leave_out("guests, which only root can make"))
}

/// A guest of its own for a test.
fn copy(release: &str, name: &str) -> PathBuf {
    let guests = target_directory().join("guests");
    let (original, folder) = (guests.join(release), guests.join(name));
    if !original.exists() {
        let half = guests.join("unfinished");
        fs::create_dir_all(&guests).unwrap();
        let _ = fs::remove_dir_all(&half);
        let include = format!("--include={PACKAGES}");
        said(Command::new("mmdebstrap").args(["--variant=minbase", &include, release]).arg(&half)).unwrap();
        fs::rename(&half, &original).unwrap();
    }
    let _ = fs::remove_dir_all(&folder);
    said(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(&original).arg(&folder)).unwrap();
    folder
}

/// A unit that runs the test and ends the guest with its status.
fn install_test(folder: &Path, test: &str) {
    let units = folder.join("etc/systemd/system");
    let unit = format!(
        "[Unit]\nSuccessAction=exit-force\nFailureAction=exit-force\nFailureActionExitStatus=1\n\n[Service]\nType=oneshot\n\
         Environment={INNER}=1 EVENKEEL_TEST_ALL=1\nExecStart=/root/test --exact {test} --nocapture\n\
         StandardOutput=file:/root/outcome\nStandardError=inherit\n"
    );
    fs::write(units.join("test.service"), unit).unwrap();
    let wants = units.join("multi-user.target.wants");
    fs::create_dir_all(&wants).unwrap();
    symlink("../test.service", wants.join("test.service")).unwrap();
}
