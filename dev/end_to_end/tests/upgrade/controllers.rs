//! `control upgrade` and controllers: they come last, one after the other, and the change goes on without the one that is replaced.

use std::fs;

use end_to_end::clock;
use end_to_end::fleet::etcd_program;

use super::agents::{Hosts, good, with_other_word};

impl Hosts {
    /// Every controller, and the agent beside it, runs this version.
    #[track_caller]
    fn check_controllers(&self, version: &str) {
        for unit in self.controllers.iter().chain(&self.units) {
            let exe = fs::read_link(format!("/proc/{}/exe", unit.pid())).expect("it runs");
            assert_eq!(exe, self.program(version), "{}", self.logs());
        }
        self.check(version);
    }

    /// What becomes of a change while controllers restart: the first one is asked until it answers.
    #[track_caller]
    fn wait_until(&self, expected: &str) {
        let status = || self.control(&["tune", "status", "1"]).unwrap_or_else(|why| why);
        // Each controller takes some seconds on a busy machine.
        let is_so = || status().lines().any(|line| line.starts_with(expected)).then_some(());
        let is_so = (0..5).any(|_| clock::wait_for(is_so).is_some());
        assert!(is_so, "{}\n{}", status(), self.logs());
    }
}

#[track_caller]
fn check(name: &str, count: usize) {
    let hosts = Hosts::begin_with_controllers(name, &good(), count);
    hosts.wait_until_known();
    let before: Vec<u32> = hosts.controllers.iter().map(|unit| unit.pid()).collect();
    let shown = hosts.control(&["upgrade", "--version", "new", "--accept", "all"]).expect("a plan");
    assert!(!shown.contains("left out"), "{shown}");
    hosts.upgrade_with(&[]).unwrap_or_else(|why| panic!("{why}\n{}", hosts.logs()));
    hosts.wait_until("done");
    hosts.check_controllers("new");
    let after: Vec<u32> = hosts.controllers.iter().map(|unit| unit.pid()).collect();
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "each was restarted");
    hosts.control(&["tune", "undo", "1", "--why", "a test"]).expect("an undo");
    hosts.wait_until("undone");
    hosts.check_controllers("old");
}

#[test]
fn a_single_controller_is_upgraded_by_its_own_change() {
    check("one", 1);
}

#[test]
fn three_controllers_are_upgraded_one_after_the_other() {
    if etcd_program().is_none() {
        return eprintln!("left out: there is no etcd (Debian: etcd-server)");
    }
    check("three", 3);
}

#[test]
fn a_controller_that_is_never_ready_with_a_version_goes_back_and_all_hosts_with_it() {
    // Its page of readiness has another name, so nothing is there.
    let hosts = Hosts::begin_with_controllers("unready", &with_other_word(b"/readyz", b"/readyx"), 1);
    hosts.wait_until_known();
    hosts.upgrade_with(&[]).unwrap_or_else(|why| panic!("{why}\n{}", hosts.logs()));
    hosts.wait_until("undone");
    let status = hosts.control(&["tune", "status", "1"]).expect("a status");
    assert!(status.contains("controller c1: it is not ready"), "{status}\n{}", hosts.logs());
    hosts.check_controllers("old");
}
