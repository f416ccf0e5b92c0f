use super::*;
use crate::observe::facts::Facts;
use crate::observe::shapes::{ENA, IRQ_FIRST, Shape, VIRTIO, XEN};

/// c3.4xlarge: 16 vCPUs, one queue.
const XEN_16: Shape = Shape { cpus: 16, threads: 1, nodes: 1, queues: 1, irqs: XEN };
const XEN_16_SMT: Shape = Shape { threads: 2, ..XEN_16 };
const ENA_16: Shape = Shape { cpus: 16, threads: 2, nodes: 1, queues: 8, irqs: ENA };
/// i3en.24xlarge: 96 vCPUs, two nodes.
const ENA_96: Shape = Shape { cpus: 96, threads: 2, nodes: 2, queues: 8, irqs: ENA };
const BIG_256: Shape = Shape { cpus: 256, threads: 2, nodes: 2, queues: 64, irqs: ENA };
const TWO: Shape = Shape { cpus: 2, threads: 1, nodes: 1, queues: 1, irqs: VIRTIO };

fn list(text: &str) -> CpuSet {
    CpuSet::parse_list(text).unwrap()
}

/// The host after its interrupts have been spread.
fn spread_out(shape: Shape) -> Facts {
    let mut facts = shape.facts();
    for (number, cpus) in spread(&CpuModel::of(&facts), &facts.nics[0]).unwrap() {
        let irq = facts.interrupts.iter_mut().find(|irq| irq.irq == number).unwrap();
        irq.effective = cpus;
    }
    facts
}

#[track_caller]
fn check_rps(facts: &Facts, wanted: Result<&str, &str>) {
    let nic = &facts.nics[0];
    let model = CpuModel::of(facts);
    let mask = rps(&model, nic, &model.irq_cpus(nic));
    if let Ok(mask) = &mask {
        assert_eq!(mask.without(&facts.online()), CpuSet::new(), "never beyond the CPUs that are online");
    }
    let said = mask.map(|mask| mask.to_string()).map_err(|why| why.to_string());
    assert_eq!(said.as_deref().map_err(String::as_str), wanted);
}

#[test]
fn steering_goes_to_the_node_without_interrupt_cpus_and_their_siblings() {
    check_rps(&XEN_16.facts(), Ok("1-15"));
    check_rps(&XEN_16_SMT.facts(), Ok("1-7,9-15"));
    check_rps(&ENA_96.facts(), Ok("1-23,49-71"));
    check_rps(&spread_out(ENA_96), Ok("8-23,56-71"));
    check_rps(
        &spread_out(BIG_256),
        Err("CPUs 0-63 take its interrupts, and with their siblings they are all there are of 0-63,128-191"),
    );
    check_rps(&spread_out(Shape { queues: 16, ..BIG_256 }), Ok("16-63,144-191"));
    check_rps(&TWO.facts(), Ok("1"));
}

#[test]
fn no_steering_where_it_would_only_add_a_hop() {
    check_rps(
        &Shape { queues: 16, ..XEN_16 }.facts(),
        Err("16 receive queues for 16 CPUs: steering would only add a hop"),
    );
    check_rps(
        &spread_out(ENA_16),
        Err("CPUs 0-7 take its interrupts, and with their siblings they are all there are of 0-15"),
    );
    check_rps(
        &Shape { threads: 2, ..TWO }.facts(),
        Err("CPUs 0 take its interrupts, and with their siblings they are all there are of 0-1"),
    );
}

#[test]
fn where_the_node_is_unknown_packets_stay_on_that_of_the_interrupts() {
    let mut facts = Shape { queues: 2, irqs: VIRTIO, ..ENA_96 }.facts();
    facts.nics[0].node = None;
    for (irq, cpu) in facts.interrupts.iter_mut().zip([25, 26, 30, 31]) {
        irq.effective = CpuSet::from_iter([cpu]);
    }
    let nic = &facts.nics[0];
    let model = CpuModel::of(&facts);
    let mask = rps(&model, nic, &model.receiving(nic)).unwrap();
    assert_eq!(mask, list("24,27-47,72,75-95"), "not 25, 26 and their siblings, but those that only send");
}

#[test]
fn offline_cpus_are_never_used() {
    let mut facts = XEN_16.facts();
    for cpu in &mut facts.cpus[12..] {
        cpu.online = false;
    }
    check_rps(&facts, Ok("1-11"));
    let mut facts = Shape { queues: 8, ..XEN_16 }.facts();
    facts.cpus[1].online = false;
    let (model, nic) = (CpuModel::of(&facts), &facts.nics[0]);
    for cpus in
        xps(&model, nic).unwrap().iter().chain(spread(&model, nic).unwrap().iter().map(|(_, cpus)| cpus))
    {
        assert!(!cpus.is_empty() && !cpus.contains(1), "{cpus}");
    }
}

#[test]
fn a_node_without_cpus_counts_as_unknown() {
    let mut facts = XEN_16.facts();
    facts.nics[0].node = Some(3);
    check_rps(&facts, Ok("1-15"));
}

#[track_caller]
fn check_spread(facts: &Facts, wanted: &[&str]) {
    let places = spread(&CpuModel::of(facts), &facts.nics[0]).unwrap();
    let said: Vec<_> = places.iter().map(|(irq, cpus)| format!("{}:{cpus}", irq - IRQ_FIRST)).collect();
    assert_eq!(said, wanted);
}

#[test]
fn interrupts_are_spread_one_per_core_then_over_siblings_on_their_own_node() {
    check_spread(&ENA_16.facts(), &["0:0", "1:1", "2:2", "3:3", "4:4", "5:5", "6:6", "7:7"]);
    check_spread(
        &Shape { cpus: 8, threads: 2, nodes: 2, queues: 5, irqs: ENA }.facts(),
        &["0:0", "1:1", "2:4", "3:5", "4:0"],
    );
    check_spread(&Shape { queues: 2, irqs: VIRTIO, ..XEN_16 }.facts(), &["0:0", "1:1", "2:0", "3:1"]);
    let places = spread(&CpuModel::of(&BIG_256.facts()), &BIG_256.facts().nics[0]).unwrap();
    assert_eq!(places[63].1.mask(), "80000000,00000000", "CPU 63 is in the second word");
}

#[test]
fn managed_interrupts_and_those_of_the_device_itself_stay() {
    let mut facts = ENA_16.facts();
    facts.interrupts[3].managed = true;
    facts.interrupts[0].name = "ena-mgmnt@pci:0000:00:05.0".into();
    check_spread(&facts, &["1:0", "2:1", "4:3", "5:4", "6:5", "7:6"]);
    for irq in &mut facts.interrupts {
        irq.managed = true;
    }
    assert_eq!(spread(&CpuModel::of(&facts), &facts.nics[0]), Err(NoMask::NoInterrupt));
}

#[test]
fn queues_are_counted_as_numbers() {
    let facts = Shape { queues: 12, ..XEN_16 }.facts();
    let mut facts =
        Facts { interrupts: Shape { queues: 12, irqs: ENA, ..XEN_16 }.facts().interrupts, ..facts };
    facts.interrupts.reverse();
    let places = spread(&CpuModel::of(&facts), &facts.nics[0]).unwrap();
    assert_eq!(places[10], (IRQ_FIRST + 10, list("10")), "Tx-Rx-10 follows Tx-Rx-9, not Tx-Rx-1");
}

#[test]
fn every_cpu_sends_through_the_queue_that_is_nearest() {
    let facts = spread_out(ENA_16);
    let said: Vec<_> =
        xps(&CpuModel::of(&facts), &facts.nics[0]).unwrap().iter().map(CpuSet::to_string).collect();
    assert_eq!(said, ["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"]);

    for shape in [ENA_96, BIG_256, Shape { queues: 3, ..XEN_16_SMT }] {
        let facts = spread_out(shape);
        let sets = xps(&CpuModel::of(&facts), &facts.nics[0]).unwrap();
        let count: usize = sets.iter().map(CpuSet::len).sum();
        let all = sets.iter().fold(CpuSet::new(), |all, set| all.or(set));
        assert_eq!((all, count), (facts.online(), shape.cpus as usize), "each CPU has one queue");
        let (least, most) = (sets.iter().map(CpuSet::len).min(), sets.iter().map(CpuSet::len).max());
        assert!(most.unwrap() <= 3 * least.unwrap(), "queues are used evenly: {sets:?}");
    }
}

#[test]
fn virtual_queues_stand_for_cpus_in_order() {
    let facts = Shape { queues: 4, irqs: &[], ..TWO }.facts();
    let said: Vec<_> =
        xps(&CpuModel::of(&facts), &facts.nics[0]).unwrap().iter().map(CpuSet::to_string).collect();
    assert_eq!(said, ["0", "1", "0", "1"]);
    assert_eq!(xps(&CpuModel::of(&TWO.facts()), &TWO.facts().nics[0]), Err(NoMask::NoChoice));
}

#[test]
fn flows_are_shared_among_queues_and_rounded_up() {
    for (queues, flows) in [(1, 32_768), (3, 16_384), (8, 4096), (33, 1024), (0, 32_768)] {
        assert_eq!(flows_per_queue(FLOW_ENTRIES, queues), flows, "{queues}");
    }
    assert_eq!(flows_per_queue(1000, 1), 1024);
}
