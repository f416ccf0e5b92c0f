//! A full disk under the agent's folder, or under the link: a host has the new version or the old one, and says what is full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use control::HostProgram;

use super::{CONFIRM, Host};

/// A small file system at a folder, unmounted with this value.
struct Disk(PathBuf);

impl Disk {
    fn mount(folder: &Path) -> Disk {
        let options = "size=64k,nr_inodes=32,mode=755";
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder).status();
        assert!(status.expect("a process").success());
        Disk(folder.to_owned())
    }

    /// Neither a byte nor a name has room any more.
    fn fill(&self) {
        let full = "no space left";
        let large = fs::write(self.0.join("fill"), vec![0; 1 << 20]).expect_err("it is small");
        assert!(large.to_string().to_lowercase().contains(full), "{large}");
        let small = (0..100).find_map(|file| fs::write(self.0.join(format!("fill-{file}")), "").err());
        let small = small.expect("it has few names");
        assert!(small.to_string().to_lowercase().contains(full), "{small}");
    }

    fn clear(&self) {
        for entry in fs::read_dir(&self.0).expect("a folder").flatten() {
            if entry.file_name().to_string_lossy().starts_with("fill") {
                fs::remove_file(entry.path()).expect("removed");
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn is_root() -> bool {
    let root = rustix::process::getuid().is_root();
    if !root {
        eprintln!("a disk of its own needs root");
    }
    root
}

/// A full disk before and while a version comes and goes. `what` is in the reason.
fn check(host: &Host, disk: &Disk, what: &str) {
    let mut agent = host.agent(Duration::from_secs(60));
    let own = agent.planned("new").expect("a plan");
    disk.fill();
    let error = agent.apply("new", &own, CONFIRM).expect_err("the disk is full");
    println!("{error}");
    let error = error.to_lowercase();
    assert!(error.contains("no space left") && error.contains(what), "{error}");
    assert_eq!(agent.seen(&own), Ok(HostProgram::Before));
    host.check("old");
    // There is room again.
    disk.clear();
    let own = agent.planned("new").expect("a plan");
    agent.apply("new", &own, CONFIRM).expect("it has it");
    host.check("new");
    // The way back needs none.
    disk.fill();
    agent.back(&own).expect("back");
    assert_eq!(agent.seen(&own), Ok(HostProgram::Before));
    host.check("old");
}

#[test]
fn a_full_disk_under_the_agents_folder_keeps_a_host_from_a_version_and_not_from_going_back() {
    if !is_root() {
        return;
    }
    let host = Host::begin(2);
    let disk = Disk::mount(&host.path("agent"));
    check(&host, &disk, "agent");
}

#[test]
fn a_full_disk_under_the_link_keeps_a_host_from_a_version_and_not_from_going_back() {
    if !is_root() {
        return;
    }
    let mut host = Host::begin(0);
    fs::create_dir(host.path("link")).expect("a folder");
    let disk = Disk::mount(&host.path("link"));
    host.move_link("link/current");
    (0..2).for_each(|_| host.start_server());
    check(&host, &disk, "link");
}
