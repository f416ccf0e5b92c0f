//! Hosts with network namespaces of their own, and the namespaces in which a test makes them.
//!
//! A test runs itself again in new network, mount and process namespaces. Whatever it makes there, bridges, namespaces of
//! hosts and processes, ends with that run, in whatever way it ends.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{FleetHost, ip};
use crate::subject;

/// Names the inner run, and tells it that it is the inner one.
const INNER: &str = "EVENKEEL_TEST_IN_NAMESPACES";
/// Longest time of a run: one that hangs must fail.
const SECONDS_MAX: &str = "480";
/// What the inner run begins with. Names of namespaces are files in /run/netns, so that is its own, too.
const BEGIN: &str = "mount -t tmpfs tmpfs /run && mkdir /run/netns /run/tmp && ip link set lo up";
/// What must succeed, or nothing of all this can be made here.
const TRIAL: &str = "ip link add b0 type bridge && ip netns add n1 && ip link add v0 master b0 type veth peer name eth0 \
                     netns n1 && ip -n n1 link set eth0 up";

/// All hosts are in this network, and the test is its first host.
const NETWORK: [u8; 3] = [10, 77, 0];

/// A bridge: no frame goes from one to the other.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bridge {
    /// Where hosts are at first, and the test is.
    Main,
    /// For those that are taken away.
    Apart,
}

impl Bridge {
    fn name(self) -> &'static str {
        match self {
            Bridge::Main => "main",
            Bridge::Apart => "apart",
        }
    }
}

/// Runs this same test again as root of its own network. `true`: this is the inner run. Where that is not possible, it says
/// so, and the test has nothing to do; in a thorough run it fails.
pub fn in_namespaces(test: &str) -> bool {
    if std::env::var_os(INNER).is_some() {
        return true;
    }
    if !apart(&format!("{BEGIN} && {TRIAL}")).output().is_ok_and(|tried| tried.status.success()) {
        let is_thorough = std::env::var_os("EVENKEEL_TEST_ALL").is_some_and(|value| value == "1");
        assert!(!is_thorough, "left out: no network namespaces can be made here");
        eprintln!("left out: no network namespaces can be made here");
        return false;
    }
    let mut again = apart(&format!("{BEGIN} && exec \"$0\" --exact {test} --nocapture"));
    // Paths have the name, so that it is short: without the module.
    let name = test.rsplit("::").next().unwrap_or(test);
    again
        .arg(std::env::current_exe().expect("own path"))
        .env(INNER, format!("{}-{name}", std::process::id()));
    // The program is built out here, once.
    again.env("EVENKEEL_BIN", subject::router().get_program()).env("TMPDIR", "/run/tmp");
    let mut output = again.output().expect("timeout of coreutils");
    if !output.status.success() {
        // Dozens of processes share this machine, and a healthy one that is late looks lost: once that is forgiven, and shown.
        eprintln!("failed once, tried again:\n{}", String::from_utf8_lossy(&output.stderr));
        again.env(INNER, format!("{}-again-{name}", std::process::id()));
        output = again.output().expect("timeout of coreutils");
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("1 passed"), "the inner test did not run: {said}");
    print!("{said}");
    false
}

/// A name of this process that no other one has: process ids of inner runs are the same in every run.
pub fn unique_name() -> String {
    std::env::var(INNER).unwrap_or_else(|_| std::process::id().to_string())
}

fn apart(script: &str) -> Command {
    // The first process of a namespace accepts only SIGKILL from the parent namespace.
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", SECONDS_MAX, "unshare", "--net", "--mount", "--pid", "--fork"]);
    command.args(["--kill-child", "--mount-proc", "sh", "-c", script]);
    command
}

/// Hosts that have been made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hosts(());

impl Hosts {
    /// Makes them, in a run that [`in_namespaces`] has begun.
    pub(super) fn new(places: impl IntoIterator<Item = FleetHost>) -> Hosts {
        assert!(std::env::var_os(INNER).is_some(), "the network of this machine stays as it is");
        let main = Bridge::Main.name();
        for bridge in [main, Bridge::Apart.name()] {
            ip(&["link", "add", bridge, "type", "bridge"]);
            ip(&["link", "set", bridge, "up"]);
        }
        let [a, b, c] = NETWORK;
        ip(&["address", "add", &format!("{a}.{b}.{c}.1/24"), "dev", main]);
        for place in places {
            let name = place.name();
            ip(&["netns", "add", &name]);
            ip(&[
                "link", "add", &name, "master", main, "type", "veth", "peer", "name", "eth0", "netns", &name,
            ]);
            ip(&["link", "set", &name, "up"]);
            ip(&["-n", &name, "address", "add", &format!("{}/24", Hosts::ip(place)), "dev", "eth0"]);
            ip(&["-n", &name, "link", "set", "eth0", "up"]);
            ip(&["-n", &name, "link", "set", "lo", "up"]);
        }
        Hosts(())
    }

    pub(super) fn ip(place: FleetHost) -> Ipv4Addr {
        let [a, b, c] = NETWORK;
        let host = match place {
            FleetHost::Controller(number) => 10 + number,
            FleetHost::Host(number) => 20 + number,
        };
        Ipv4Addr::new(a, b, c, u8::try_from(host).expect("a small network"))
    }

    pub(super) fn within<T: Send>(place: FleetHost, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", place.name())).expect("a namespace");
        // A thread of its own enters it, and ends there.
        let enter = move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("it is entered");
            work()
        };
        let inside = std::thread::scope(|threads| threads.spawn(enter).join());
        inside.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    pub(super) fn attach(place: FleetHost, bridge: Bridge) {
        ip(&["link", "set", &place.name(), "master", bridge.name()]);
    }
}
