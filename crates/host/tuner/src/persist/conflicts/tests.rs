use super::*;
use crate::observe::facts::Agent;
use crate::observe::shapes::{ENA, Scratch, Shape};
use crate::persist::{HostMeans, persistence};
use crate::plan::change::{Holds, Setting};

/// A host in a directory, and what is kept there.
struct Host {
    scratch: Scratch,
    facts: Facts,
    keeps: Vec<Keep>,
    /// Whether irqbalance asks our policy script.
    policy: bool,
}

impl Host {
    fn new(name: &str, keeps: &[(&str, &str)]) -> Host {
        let scratch = Scratch::new(&format!("conflicts-{name}"));
        let mut facts = Shape { cpus: 4, threads: 1, nodes: 1, queues: 1, irqs: ENA }.facts();
        facts.kernel.version = (6, 1);
        facts.nics[0].bus = Some("0000:00:05.0".into());
        let keep = |(path, wanted): &(&str, &str)| Keep {
            setting: Setting::File { path: (*path).into(), holds: Holds::Words },
            wanted: (*wanted).into(),
            why: String::new(),
            asked_by: "spread".into(),
        };
        Host { scratch, facts, keeps: keeps.iter().map(keep).collect(), policy: false }
    }

    fn file(self, path: &str, text: &str) -> Host {
        let here = self.scratch.path().join(path);
        std::fs::create_dir_all(here.parent().unwrap()).unwrap();
        std::fs::write(here, text).unwrap();
        self
    }

    fn link(self, path: &str, target: &str) -> Host {
        let here = self.scratch.path().join(path);
        std::fs::create_dir_all(here.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, here).unwrap();
        self
    }

    fn agent(mut self, name: &str, pid: Option<u32>) -> Host {
        self.facts.agents.push(Agent { name: name.into(), pid, sets: "queues".into() });
        self
    }

    /// `place: sets: who wins`, in order.
    #[track_caller]
    fn check(self, wanted: &[&str]) {
        let root = Root::new(self.scratch.path());
        let here = HostMeans {
            program: "/usr/bin/evenkeel".into(),
            systemd: true,
            udev: true,
            sysctl: true,
            irqbalance: self.policy.then(|| "/usr/sbin/irqbalance".into()),
            policy: None,
            links: Vec::new(),
        };
        let persistence = persistence(&self.keeps, &self.facts, &here);
        let found = conflicts(&root, &self.facts, &self.keeps, &persistence).unwrap();
        let said: Vec<String> = found
            .iter()
            .map(|found| format!("{}: {}: {}", found.place, found.sets, found.winner.words()))
            .collect();
        assert_eq!(said, wanted, "{found:#?}");
    }
}

const SOMAXCONN: &[(&str, &str)] = &[("/proc/sys/net/core/somaxconn", "4096")];
const RPS: &[(&str, &str)] = &[("/sys/class/net/eth0/queues/rx-0/rps_cpus", "e")];
const IRQ: &[(&str, &str)] = &[("/proc/irq/40/smp_affinity", "2")];
const PAGES: &[(&str, &str)] = &[("/sys/kernel/mm/transparent_hugepage/enabled", "madvise")];

#[test]
fn the_file_that_is_read_last_wins() {
    Host::new("order", SOMAXCONN)
        .file("usr/lib/sysctl.d/50-default.conf", "net.core.somaxconn = 1024\n")
        .file("etc/sysctl.d/95-mine.conf", "# why\nnet/core/somaxconn=512\n")
        .file("etc/sysctl.d/95-same.conf", "net.core.somaxconn = 4096\n")
        .file("etc/sysctl.d/README", "net.core.somaxconn = 1\n")
        .check(&[
            "/etc/sysctl.d/95-mine.conf:2: net.core.somaxconn = 512: it wins",
            "/usr/lib/sysctl.d/50-default.conf:1: net.core.somaxconn = 1024: ours wins",
        ]);
}

#[test]
fn a_name_hides_the_same_name_behind_it_and_null_switches_off() {
    Host::new("hidden", SOMAXCONN)
        .file("etc/sysctl.d/99-a.conf", "vm.swappiness = 1\n")
        .file("usr/lib/sysctl.d/99-a.conf", "net.core.somaxconn = 1\n")
        .link("etc/sysctl.d/99-b.conf", "/dev/null")
        .file("run/sysctl.d/99-b.conf", "net.core.somaxconn = 2\n")
        .check(&[]);
}

#[test]
fn a_linked_sysctl_conf_is_one_file_in_its_place() {
    for target in ["../sysctl.conf", "/etc/sysctl.conf"] {
        Host::new("linked", SOMAXCONN)
            .file("etc/sysctl.conf", "net.core.somaxconn = 128\n")
            .link("etc/sysctl.d/99-sysctl.conf", target)
            .file("usr/lib/systemd/systemd-sysctl", "")
            .check(&["/etc/sysctl.conf:1: net.core.somaxconn = 128: it wins"]);
    }
    // Without the link systemd does not call sysctl itself.
    Host::new("unlinked", SOMAXCONN)
        .file("etc/sysctl.conf", "net.core.somaxconn = 128\n")
        .file("usr/lib/systemd/systemd-sysctl", "")
        .check(&["/etc/sysctl.conf:1: net.core.somaxconn = 128: either may win"]);
    Host::new("init", SOMAXCONN)
        .file("etc/sysctl.conf", "net.core.somaxconn = 128\n")
        .check(&["/etc/sysctl.conf:1: net.core.somaxconn = 128: it wins"]);
}

#[test]
fn a_key_that_is_written_out_wins_over_patterns() {
    Host::new("pattern", SOMAXCONN)
        .file("etc/sysctl.d/99-all.conf", "net.core.* = 7\n-net.core.somaxconn\n")
        .check(&["/etc/sysctl.d/99-all.conf:1: net.core.* = 7: ours wins"]);
}

#[test]
fn sysctls_that_no_kernel_has_any_more_are_named() {
    let host = |name, version| {
        let mut host = Host::new(name, SOMAXCONN)
            .file("etc/sysctl.d/10-old.conf", "kernel.sched_migration_cost_ns = 5000000\n");
        host.facts.kernel.version = version;
        host
    };
    host("dead", (5, 13))
        .check(&["/etc/sysctl.d/10-old.conf:1: kernel.sched_migration_cost_ns = 5000000: it does nothing"]);
    host("alive", (5, 12)).check(&[]);
}

#[test]
fn tuned_wins_only_if_it_does_not_apply_sysctl_d_again() {
    let host = |name, main: &str| {
        Host::new(name, SOMAXCONN)
            .file("etc/tuned/active_profile", "mine\n")
            .file("etc/tuned/tuned-main.conf", main)
            .file("etc/tuned/profiles/mine/tuned.conf", "[main]\ninclude=base\n")
            .file(
                "usr/lib/tuned/base/tuned.conf",
                "[sysctl]\nnet.core.somaxconn=>2048\nnet.core.somaxconn=2048\n",
            )
    };
    host("tuned-off", "reapply_sysctl=0\n").check(&[]);
    let host = |name, main| host(name, main).agent("tuned", Some(9));
    host("tuned-1", "reapply_sysctl = 1\n")
        .check(&["/usr/lib/tuned/base/tuned.conf:3: net.core.somaxconn = 2048: ours wins"]);
    host("tuned-0", "reapply_sysctl=0\n")
        .check(&["/usr/lib/tuned/base/tuned.conf:3: net.core.somaxconn = 2048: it wins"]);
}

#[test]
fn rules_that_come_later_may_win_and_comparisons_assign_nothing() {
    Host::new("rules", RPS)
        .file(
            "etc/udev/rules.d/99-rps.rules",
            "# rps_cpus\nSUBSYSTEM==\"net\", ATTR{queues/rx-0/rps_cpus}==\"0\", GOTO=\"x\"\n\
             SUBSYSTEM==\"queues\", ATTR{rps_cpus}=\"f\"\n",
        )
        .file("usr/lib/udev/rules.d/60-x.rules", "ACTION==\"add\", RUN+=\"/bin/sh -c 'echo f > rps_cpus'\"\n")
        .file("usr/lib/systemd/network/70-x.link", "[Link]\nReceivePacketSteeringCPUMask=all\n")
        .check(&[
            "/etc/udev/rules.d/99-rps.rules:3: queues/rx-0/rps_cpus: either may win",
            "/usr/lib/udev/rules.d/60-x.rules:1: queues/rx-0/rps_cpus: ours wins",
            "/usr/lib/systemd/network/70-x.link:2: ReceivePacketSteeringCPUMask=all: ours wins",
        ]);
}

#[test]
fn agents_of_clouds_and_scripts_are_named_where_the_network_is_concerned() {
    let with_agents = |host: Host| {
        host.agent("google_set_multiqueue", None).agent("/etc/NetworkManager/dispatcher.d/99-rps", None)
    };
    with_agents(Host::new("agents", RPS)).check(&[
        "google_set_multiqueue: queues: either may win",
        "/etc/NetworkManager/dispatcher.d/99-rps: queues: either may win",
    ]);
    with_agents(Host::new("agents-no", SOMAXCONN)).check(&[]);
}

/// As Debian 12 has it.
const UNIT: &str = "[Service]\nEnvironmentFile=-/usr/lib/irqbalance/defaults.env\nEnvironmentFile=-/etc/default/irqbalance\n\
                    ExecStart=/usr/sbin/irqbalance --foreground $IRQBALANCE_ARGS\n";

#[test]
fn irqbalance_is_judged_by_its_unit() {
    let host = |name, environment: &str| {
        Host::new(name, IRQ)
            .agent("irqbalance", Some(7))
            .file("lib/systemd/system/irqbalance.service", UNIT)
            .file("etc/default/irqbalance", environment)
    };
    host("irqbalance", "").check(&["irqbalance (PID 7): interrupt affinities, every ten seconds: it wins"]);
    let with_policy = |name, environment| Host { policy: true, ..host(name, environment) };
    with_policy("irqbalance-policy", "IRQBALANCE_ONESHOT=1\nIRQBALANCE_ARGS=\"--deepestcache=2\"\n")
        .check(&[]);
    with_policy("irqbalance-key", "OPTIONS=\"--banirq=12\"\n")
        .check(&["/etc/default/irqbalance:1: OPTIONS=\"--banirq=12\": it does nothing"]);
    with_policy("irqbalance-stale", "IRQBALANCE_ARGS=--banirq=12\n")
        .check(&["/etc/default/irqbalance:1: IRQBALANCE_ARGS=--banirq=12: it does nothing"]);
    Host::new("irqbalance-none", RPS).file("lib/systemd/system/irqbalance.service", UNIT).check(&[]);
}

#[test]
fn a_policy_script_in_an_environment_file_is_seen() {
    let host = Host::new("policy", IRQ)
        .file(
            "usr/lib/systemd/system/irqbalance.service",
            "[Service]\nEnvironmentFile=/etc/sysconfig/irqbalance\nExecStart=/usr/sbin/irqbalance $A\n",
        )
        .file("etc/sysconfig/irqbalance", "#A=--policyscript=/no\nA=\"--policyscript=/x\"\n");
    let here = HostMeans::read(&Root::new(host.scratch.path()), "/usr/bin/evenkeel".into()).unwrap();
    assert_eq!(here.policy.as_deref(), Some("/etc/sysconfig/irqbalance"));
    assert_eq!((here.systemd, here.udev, here.sysctl), (false, false, false));
}

#[test]
fn huge_pages_are_fought_over_at_boot() {
    Host::new("pages", PAGES)
        .file("etc/rc.local", "#!/bin/sh\necho never > /sys/kernel/mm/transparent_hugepage/enabled\n")
        .file("etc/tmpfiles.d/thp.conf", "w /sys/kernel/mm/transparent_hugepage/enabled - - - - always\n")
        .link("etc/systemd/system/multi-user.target.wants/tuned.service", "/usr/lib/systemd/system/tuned.service")
        .file("etc/tuned/active_profile", "x\n")
        .file("usr/lib/tuned/x/tuned.conf", "[vm]\ntransparent_hugepages=never\n")
        .check(&[
            "/usr/lib/tuned/x/tuned.conf:2: transparent_hugepages=never: it wins",
            "/etc/tmpfiles.d/thp.conf:1: w /sys/kernel/mm/transparent_hugepage/enabled - - - - always: it wins",
            "/etc/rc.local:2: echo never > /sys/kernel/mm/transparent_hugepage/enabled: it wins",
        ]);
}

#[test]
fn a_later_drop_in_wins() {
    let mut host = Host::new("drop-in", IRQ)
        .file("etc/systemd/system/multi-user.target.d/60-x.conf", "[Unit]\nWants=x.service\n")
        .file(
            "etc/systemd/system/irqbalance.service.d/60-x.conf",
            "[Service]\nExecStart=\nExecStart=/opt/irqbalance\n",
        );
    host.policy = true;
    host.check(&["/etc/systemd/system/irqbalance.service.d/60-x.conf:3: ExecStart=/opt/irqbalance: it wins"]);
}
