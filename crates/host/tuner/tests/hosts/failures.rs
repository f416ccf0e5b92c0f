//! Known failures of other tuning tools, one test for each: the tuner must not repeat them.
//!
//! ```text
//!  1 CPUs taken from the application (scylla-operator #2017)      2 one CPU for 32 queues (redpanda #10444)
//!  3 steering where every CPU has a queue (redpanda #27680)       4 `virtio1` found in `virtio10` (seastar #244)
//!  5 masks of more than 32 CPUs (seastar #316, #1179)            11 a guest agent that fights (scylla-ansible #515)
//! 12 interrupts of the kernel's own, EIO (seastar #703)          13 no vector left, ENOSPC (irqbalance #303)
//! 14 numbers of interrupts from before a change of queues (irqbalance #275)
//! 15 undone by the mere end of a process (OCPBUGS-13065)         17 deleted instead of restored (NTO #396)
//! 18 equal values spelt differently (tuned #857)                 21 real-time threads starve the device (ena #336)
//! 22 no budget for real-time threads (AL2023 #315)
//! ```
//!
//! The others are tested where they are dealt with. In `src`:
//!
//! ```text
//!  6 numbers on the disk: `interrupts_are_planned_anew_and_irqbalance_is_told_by_device` (`persist/tests.rs`)
//!  7 the wrong variable: the same, and `persist/conflicts`       16 which one wins: `persist/conflicts`
//!  8 `an_interrupt_that_does_not_follow_its_affinity_is_given_it_anew_and_then_left`, and
//!    `irqbalance_moves_what_it_was_told_to_leave_alone_and_is_named`
//!  9 `a_driver_reset_is_known_by_the_drivers_counter`
//! 10 `an_interface_that_was_opened_anew_has_lost_its_affinities` (these in `watch/tests.rs`)
//! 19 `a_write_that_hangs_undoes_the_plan_and_leaves_what_rollback_can_finish` (`host.rs`)
//! 20 `rings_are_as_long_as_bursts_and_memory_allow` (`strategy/tests.rs`), `queues_say_what_they_cost` (`settings/tests.rs`)
//! 23 `the_written_files_can_be_tested_at_once` (`evenkeel/tests/tune_persist.rs`)
//! ```
//!
//! Every errno at every step is in `apply/tests.rs`.

use std::io;

use os::CpuSet;
use rustix::io::Errno;
use tuner::apply::apply;
use tuner::apply::host::{FileHost, HostAccess};
use tuner::apply::journal::{BootAndNamespace, Journal, Journals};
use tuner::apply::rollback::undo;
use tuner::observe::cpu_model::CpuModel;
use tuner::observe::facts::Irqbalance;
use tuner::plan::change::{Change, Setting};
use tuner::plan::strategy::Strategy;
use tuner::plan::{Plan, PlanRequest, plan, rest};
use tuner::{Facts, Root, probe};

use crate::hosts::shapes;
use crate::hosts::tree::{Shape, Tree};

const SMALL: Shape = Shape { sockets: 1, cores_per_socket: 4, threads_per_core: 1, cores_per_cache: 4 };
const PCI: &str = "pci0000:00/0000:00:03.0";

fn facts(tree: &Tree) -> Facts {
    probe(&tree.root(), &[]).expect("probe")
}

fn planned(facts: &Facts, strategy: Strategy) -> Plan {
    plan(facts, &PlanRequest { strategy: Some(strategy), ..PlanRequest::default() })
}

fn reasons(plan: &Plan) -> Vec<&str> {
    plan.refusals.iter().map(|refusal| refusal.reason.as_str()).collect()
}

/// Four CPUs, and an interface whose queues all interrupt the first.
fn with_queues(queues: u32) -> Tree {
    let tree = Tree::new()
        .kernel("6.1.0-18-amd64")
        .cpus(SMALL)
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .nic("eth0", PCI, "ixgbe", queues, queues);
    (0..queues)
        .fold(tree, |tree, queue| tree.message_interrupt(PCI, 40 + queue, &format!("eth0-TxRx-{queue}"), 0))
}

fn small() -> Tree {
    with_queues(1)
}

#[test]
fn row_01_no_cpu_is_taken_from_the_application_without_a_word() {
    let served = |cpus: &str| small().process(7, "memcached", "0::/a", cpus);
    let shared = planned(&facts(&served("0-3")), Strategy::Irq0Rps);
    assert_eq!(
        shared.advice,
        [
            "memcached (PID 7) may run on CPUs 0, which take all interrupts then: keep it to 1-3 (AllowedCPUs=)"
        ]
    );
    assert!(planned(&facts(&served("1-3")), Strategy::Irq0Rps).advice.is_empty());
    assert!(shared.changes.iter().all(|change| !change.undo().is_empty()), "and every step has a way back");
}

#[test]
fn row_02_interrupts_of_many_queues_are_not_gathered_on_one_cpu() {
    let plan = planned(&facts(&shapes::n2_standard_16()), Strategy::Irq0Rps);
    assert_eq!(plan.changes, []);
    assert_eq!(reasons(&plan), ["16 receive queues for 16 CPUs: steering would only add a hop"]);
}

#[test]
fn row_03_packets_are_not_steered_where_every_cpu_has_a_queue() {
    let plan = planned(&facts(&with_queues(4)), Strategy::RpsRfs);
    assert_eq!(reasons(&plan), ["4 receive queues for 4 CPUs: steering would only add a hop"]);
}

#[test]
fn row_04_an_interface_has_the_interrupts_of_its_own_device() {
    let virtio = |tree: Tree, nic: &str, device: u32, irq: u32| {
        let pci = format!("pci0000:00/0000:00:{device:02}.0");
        let name = |way: &str| format!("virtio{device}-{way}.0");
        tree.nic(nic, &format!("{pci}/virtio{device}"), "virtio_net", 1, 1)
            .message_interrupt(&pci, irq, &name("input"), 0)
            .message_interrupt(&pci, irq + 1, &name("output"), 0)
    };
    let tree = Tree::new().kernel("6.1.0-18-amd64").cpus(SMALL);
    let facts = facts(&virtio(virtio(tree, "eth0", 1, 40), "eth1", 10, 50));
    let moved = |nic: &str| -> Vec<u32> {
        let proposed = Strategy::Spread.changes(&CpuModel::of(&facts), &[facts.nic(nic).unwrap()]);
        proposed.changes.iter().filter_map(|change| change.setting.irq()).collect()
    };
    assert_eq!((moved("eth0"), moved("eth1")), (vec![40, 41], vec![50, 51]));
}

#[test]
fn row_05_masks_are_words_of_32_cpus_with_one_comma_between() {
    for cpus in (1..1100).step_by(7) {
        for set in [CpuSet::first(cpus), CpuSet::from_iter([cpus])] {
            let mask = set.mask();
            let words: Vec<usize> = mask.split(',').map(str::len).collect();
            assert!((1..=8).contains(&words[0]) && words[1..].iter().all(|len| *len == 8), "{mask}");
            assert_eq!(CpuSet::parse_mask(&mask).unwrap(), set, "{mask}");
        }
    }
}

#[test]
fn row_11_who_would_set_the_same_is_known_before_anything_is_planned() {
    let tree = shapes::n2_standard_16().file("usr/bin/google_set_multiqueue", "#!/bin/bash");
    let names: Vec<String> = facts(&tree).agents.into_iter().map(|agent| agent.name).collect();
    assert_eq!(names, ["google_guest_agent", "google_set_multiqueue"]);
}

/// A host that refuses to write one setting.
struct Refusing {
    host: FileHost,
    setting: Setting,
    errno: Errno,
}

impl HostAccess for Refusing {
    fn read(&self, setting: &Setting) -> io::Result<String> {
        self.host.read(setting)
    }

    fn write(&mut self, setting: &Setting, text: &str) -> io::Result<()> {
        if *setting == self.setting { Err(self.errno.into()) } else { self.host.write(setting, text) }
    }

    fn interrupt(&self, irq: u32) -> io::Result<(u64, CpuSet)> {
        self.host.interrupt(irq)
    }

    fn reset_by(&self, setting: &Setting) -> Vec<Setting> {
        self.host.reset_by(setting)
    }
}

fn journal(root: &Root) -> Journal {
    let journals = Journals::new(root.path("/var/lib/evenkeel/tune"));
    journals.begin(&BootAndNamespace::of(root).expect("a place"), 0, None).expect("begin a journal")
}

/// Spreads four interrupts of which the kernel refuses one: it alone is left, with a word that says why.
#[track_caller]
fn check_refused(errno: Errno, word: &str) {
    let tree = with_queues(4);
    let changes = planned(&facts(&tree), Strategy::Spread).changes;
    assert_eq!(changes.len(), 3, "the first is where it should be");
    let host = FileHost::new(tree.root());
    let setting = changes[1].setting.clone();
    let applied =
        apply(&mut Refusing { host, setting, errno }, &changes, &mut journal(&tree.root())).unwrap();
    assert_eq!((applied.done.len(), applied.left.len()), (2, 1));
    assert!(applied.left[0].1.contains(word), "{}", applied.left[0].1);
}

#[test]
fn row_12_an_interrupt_that_the_kernel_manages_is_left_and_named() {
    check_refused(Errno::IO, "the kernel manages this interrupt");
    let mut managed = facts(&small());
    managed.interrupts.iter_mut().for_each(|interrupt| interrupt.managed = true);
    assert_eq!(reasons(&planned(&managed, Strategy::Spread)), ["it has no interrupt that can be moved"]);
}

#[test]
fn row_13_an_interrupt_without_a_vector_is_left_and_named() {
    check_refused(Errno::NOSPC, "no interrupt vector left");
}

#[test]
fn row_14_what_follows_a_change_of_queues_is_planned_with_the_new_numbers() {
    let with = |queues: u32, numbered: u32| {
        let tree = Tree::new().kernel("6.1.0-18-amd64").cpus(SMALL).nic("eth0", PCI, "ixgbe", queues, queues);
        let tree = (0..queues).fold(tree, |tree, queue| {
            tree.message_interrupt(PCI, numbered + queue, &format!("eth0-TxRx-{queue}"), 0)
        });
        let mut facts = facts(&tree);
        facts.nics[0].channels = Some(queues);
        facts.nics[0].channels_max = Some(4);
        facts.irqbalance = Some(Irqbalance { pid: 9, banned: [3].into() });
        facts
    };
    let first = planned(&with(2, 40), Strategy::Queues);
    let said = |changes: &[Change]| -> Vec<String> {
        changes.iter().map(|change| format!("{} {}", change.setting, change.wanted)).collect()
    };
    assert_eq!(said(&first.changes), ["channels of eth0 combined=4"]);
    let then = rest(&with(4, 70), &first.then.expect("the interrupts are still to be placed"));
    assert_eq!(
        said(&then.changes),
        [
            "interrupts that irqbalance (9) leaves alone 3 70 71 72 73",
            "/proc/irq/71/smp_affinity 2",
            "/proc/irq/72/smp_affinity 4",
            "/proc/irq/73/smp_affinity 8",
        ]
    );
}

#[test]
fn row_15_and_17_nothing_is_undone_by_an_end_and_what_is_undone_has_its_bytes_again() {
    let tree = small().file("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,00000000");
    let file = Setting::mask("/sys/class/net/eth0/queues/rx-0/rps_cpus");
    let read = || FileHost::new(tree.root()).read(&file).expect("read");
    let changes = planned(&facts(&tree), Strategy::RpsRfs).changes;
    {
        let mut journal = journal(&tree.root());
        apply(&mut FileHost::new(tree.root()), &changes, &mut journal).expect("apply");
    }
    assert_eq!(read(), "e", "the host and the journal have gone out of scope");
    let journals = Journals::new(tree.root().path("/var/lib/evenkeel/tune"));
    let mut journal = journals.all().expect("journals").pop().expect("one");
    assert!(undo(&mut FileHost::new(tree.root()), &mut journal, "test").is_whole());
    assert_eq!(read(), "00000000,00000000\n");
}

#[test]
fn row_18_what_is_so_in_other_letters_is_so() {
    let tree = small()
        .file("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,0000000e")
        .file("sys/class/net/eth0/queues/rx-0/rps_flow_cnt", "32768")
        .file("proc/sys/net/core/rps_sock_flow_entries", "32768");
    assert_eq!(planned(&facts(&tree), Strategy::RpsRfs).changes, Vec::<Change>::new());
}

#[test]
fn row_21_realtime_threads_leave_the_cpus_with_interrupts_alone() {
    let served = |cpus: &str| small().process(7, "memcached", "0::/", cpus);
    let everywhere = planned(&facts(&served("0-3")), Strategy::SchedFifo);
    assert_eq!(everywhere.changes, []);
    assert!(reasons(&everywhere)[0].contains("would starve the packets"));
    assert_eq!(planned(&facts(&served("1-3")), Strategy::SchedFifo).changes.len(), 1);
}

#[test]
fn row_22_realtime_threads_need_a_budget_where_the_kernel_wants_one() {
    let tree = small()
        .process(7, "memcached", "0::/system.slice/memcached.service", "1-3")
        .file("boot/config-6.1.0-18-amd64", "CONFIG_RT_GROUP_SCHED=y");
    let plan = planned(&facts(&tree), Strategy::SchedFifo);
    assert_eq!(plan.changes, []);
    assert!(reasons(&plan)[0].contains("CONFIG_RT_GROUP_SCHED"), "{:?}", plan.refusals);
}
