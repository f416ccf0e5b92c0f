//! Plans of made-up hosts as JSON, by which the crate `fleet` is tested, which compares plans and does not know this one.
//!
//! Written anew by `EVENKEEL_TEST_WRITE=1 cargo test -p tuner plan::vectors`.

use std::path::Path;

use serde_json::{Value, json};

use super::profile::Profile;
use super::strategy::Strategy;
use super::{PlanRequest, plan};
use crate::observe::facts::Facts;
use crate::observe::shapes::{ENA, IRQ_FIRST, Shape, VIRTIO};
use crate::report::HostSummary;
use os::CpuSet;

const FILE: &str = "../../fleet/fleet/testdata/plans.json";
const HOST: Shape = Shape { cpus: 8, threads: 1, nodes: 1, queues: 4, irqs: ENA };

fn host(shape: Shape, driver: &str) -> Facts {
    let mut facts = shape.facts();
    facts.kernel.release = "6.1.0".into();
    facts.nics[0].driver = Some(driver.into());
    facts.sysctls.insert("net.core.rps_sock_flow_entries".into(), "0".into());
    facts.sysctls.insert("net.ipv4.tcp_fastopen".into(), "1".into());
    facts
}

/// The same kind of host whose names are other ones.
fn renamed(mut facts: Facts, nic: &str) -> Facts {
    let before = std::mem::replace(&mut facts.nics[0].name, nic.into());
    for interrupt in &mut facts.interrupts {
        interrupt.irq += 31;
        interrupt.name = interrupt.name.replace(&before, nic).replace("virtio0", "virtio3");
        interrupt.device = Some(nic.into());
    }
    facts
}

/// The same host whose interrupts are handled elsewhere, each by a CPU of its own.
fn moved(mut facts: Facts) -> Facts {
    for (number, interrupt) in facts.interrupts.iter_mut().enumerate() {
        interrupt.affinity = CpuSet::parse_list(&(7 - number % 8).to_string()).unwrap();
        interrupt.effective = interrupt.affinity.clone();
    }
    facts
}

fn without_a_cpu(mut facts: Facts) -> Facts {
    facts.cpus[7].online = false;
    facts
}

/// Plans by strategy and host.
fn vectors() -> Value {
    let virtio = Shape { irqs: VIRTIO, ..HOST };
    let hosts = [
        ("ena", host(HOST, "ena")),
        ("ena-renamed", renamed(host(HOST, "ena"), "ens5")),
        ("ena-moved", moved(host(HOST, "ena"))),
        ("ena-cpu-off", without_a_cpu(host(HOST, "ena"))),
        ("ena-8-queues", host(Shape { queues: 8, ..HOST }, "ena")),
        ("virtio", host(virtio, "virtio_net")),
        ("virtio-renamed", renamed(host(virtio, "virtio_net"), "enp1s0")),
    ];
    let asks = [
        ("spread", PlanRequest { strategy: Some(Strategy::Spread), ..PlanRequest::default() }),
        ("rps-rfs", PlanRequest { strategy: Some(Strategy::RpsRfs), ..PlanRequest::default() }),
        ("memcached", PlanRequest { profile: Some(Profile::Memcached), ..PlanRequest::default() }),
    ];
    let of_ask = |(name, asked): &(&str, PlanRequest)| {
        let of_host = |(name, facts): &(&str, Facts)| {
            let mut json = serde_json::to_value(plan(facts, asked)).unwrap();
            json["host"] = json!(HostSummary::of(facts));
            ((*name).to_owned(), json)
        };
        ((*name).to_owned(), Value::Object(hosts.iter().map(of_host).collect()))
    };
    Value::Object(asks.iter().map(of_ask).collect())
}

#[test]
fn the_plans_by_which_fleets_are_tested_are_those_of_this_program() {
    assert_eq!(IRQ_FIRST, 40, "names in the tests of the fleet");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let text = format!("{:#}\n", vectors());
    if std::env::var_os("EVENKEEL_TEST_WRITE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "write them anew: EVENKEEL_TEST_WRITE=1 cargo test -p tuner plan::vectors");
}
