//! Queues of a veth in a network namespace of the test's own, changed and changed back. Needs what tests/live.rs needs.

use std::path::PathBuf;

use crate::namespace::in_namespace;
use tuner::apply::apply_then;
use tuner::apply::host::{FileHost, HostAccess};
use tuner::apply::journal::{BootAndNamespace, Journal, Journals, PlanState};
use tuner::apply::rollback::undo;
use tuner::observe::ethtool::Knob;
use tuner::plan::change::{Change, Risk, Stage};
use tuner::plan::signal::ExpectedSignal;
use tuner::{Root, Setting, probe};

const VETH: &str = "
    ip link add left numrxqueues 4 numtxqueues 4 type veth peer name right numrxqueues 4 numtxqueues 4
    ip link set left up; ip link set right up";

fn channels() -> Setting {
    Setting::Device { nic: "left".into(), knob: Knob::Channels }
}

fn change(stage: Stage, setting: Setting, now: &str, wanted: &str) -> Change {
    Change {
        stage,
        setting,
        now: now.into(),
        wanted: wanted.into(),
        why: String::new(),
        asked_by: String::new(),
        risk: Risk::Moderate,
        signal: ExpectedSignal::default(),
    }
}

fn file(queue: &str) -> String {
    std::fs::read_to_string(format!("/sys/class/net/left/queues/{queue}")).unwrap_or_default()
}

/// Receive queues that there are.
fn queues() -> usize {
    let facts = probe(&Root::new("/"), &[]).expect("probe /");
    facts.nic("left").expect("left").rx.len()
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> (Scratch, Journal) {
        let path = std::env::temp_dir().join(format!("tuner-{test}-{}", std::process::id()));
        let place = BootAndNamespace::of(&Root::new("/")).expect("a place");
        let journal = Journals::new(&path).begin(&place, 0, None).expect("a journal");
        (Scratch(path), journal)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Remains are removed with the directory of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn queues_are_taken_away_and_come_back_with_what_was_set_of_them() {
    let test = "queues::queues_are_taken_away_and_come_back_with_what_was_set_of_them";
    let commands = format!(
        "{VETH}
        echo 1 > /sys/class/net/left/queues/rx-0/rps_cpus
        echo 2 > /sys/class/net/left/queues/rx-3/rps_cpus
        echo 4096 > /sys/class/net/left/queues/rx-3/rps_flow_cnt
        echo 2 > /sys/class/net/left/queues/tx-3/xps_cpus"
    );
    if !in_namespace(test, &commands) {
        return;
    }
    let set = ["rx-0/rps_cpus", "rx-3/rps_cpus", "rx-3/rps_flow_cnt", "tx-3/xps_cpus"];
    let before = set.map(file);
    let (_state, mut journal) = Scratch::new("queues-away");
    let mut host = FileHost::new(Root::new("/"));
    let fewer = [change(Stage::Queues, channels(), "rx=4 tx=4", "rx=2 tx=2")];
    let steered = Setting::mask("/sys/class/net/left/queues/rx-1/rps_cpus");
    let applied = apply_then(&mut host, &fewer, &mut journal, &|| false, || {
        assert_eq!(queues(), 2, "what follows is planned with the queues that there are by then");
        Ok(vec![change(Stage::Steering, steered.clone(), "0", "1")])
    });
    assert_eq!(applied.unwrap().done, [channels(), steered]);
    assert_eq!(host.read(&channels()).unwrap(), "combined=0 rx=2 tx=2");
    assert!(file("rx-3/rps_cpus").is_empty());

    let mut journal = Journal::open(journal.path()).unwrap().unwrap();
    let undone = undo(&mut host, &mut journal, "asked");
    assert!(undone.is_whole(), "{undone:?}");
    assert_eq!((journal.state(), queues()), (PlanState::RolledBack, 4));
    assert_eq!(set.map(file), before);
    assert_eq!(host.read(&Setting::mask("/sys/class/net/left/queues/rx-1/rps_cpus")).unwrap().trim(), "0");
}

#[test]
fn what_a_driver_does_not_take_changes_nothing() {
    let test = "queues::what_a_driver_does_not_take_changes_nothing";
    if !in_namespace(test, VETH) {
        return;
    }
    let mut host = FileHost::new(Root::new("/"));
    let (_state, mut journal) = Scratch::new("queues-refused");
    let many = [change(Stage::Queues, channels(), "rx=4", "rx=5")];
    let failed = apply_then(&mut host, &many, &mut journal, &|| false, || Ok(Vec::new())).unwrap_err();
    assert!(failed.to_string().contains("the driver does not take it"), "{failed}");
    assert_eq!(queues(), 4);

    let (_state, mut journal) = Scratch::new("queues-none");
    let rings = Setting::Device { nic: "left".into(), knob: Knob::Rings };
    let failed = apply_then(
        &mut host,
        &[change(Stage::Queues, rings, "rx=1", "rx=2")],
        &mut journal,
        &|| false,
        || Ok(Vec::new()),
    );
    assert!(failed.unwrap_err().to_string().contains("the driver cannot do this"));
}

#[test]
fn what_ethtool_says_of_a_veth_is_read() {
    if !in_namespace("queues::what_ethtool_says_of_a_veth_is_read", VETH) {
        return;
    }
    let facts = probe(&Root::new("/"), &[]).expect("probe /");
    let left = facts.nic("left").expect("left");
    let kinds = left.channel_kinds.expect("a veth has channels");
    assert_eq!((kinds.rx, kinds.tx, kinds.combined), ((4, 4), (4, 4), (0, 0)));
    assert_eq!((left.mtu, left.tx_ring, left.coalescing), (Some(1500), None, None));
    assert_eq!((left.features.get("tso"), left.features.get("lro")), (Some(&true), Some(&false)));
    assert!(left.rss.is_empty() && left.tx[3].xps_rxqs.is_some());
}
