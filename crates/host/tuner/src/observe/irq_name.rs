//! Names of network interrupts, with the queue and the direction that they contain.
//!
//! Names are the drivers': `ens5-Tx-Rx-3` (ena), `virtio0-input.3`, `mlx5_comp3@pci:…`, `mana_q2@pci:…`, `eth0` or
//! `vif0-q3-rx` (xen-netfront), `gve-ntfy-blk3@pci:…`. The last is the odd one: gve has one block of interrupts, whose
//! first half is for sending and whose second half for receiving, and more of both than there may be queues.

use crate::observe::facts::{Facts, Interrupt, Nic};

/// The direction of a queue's interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Received packets.
    Receives,
    /// Sent packets.
    Sends,
    /// Either.
    Both,
}

/// An interrupt of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfQueue<'f> {
    pub(crate) interrupt: &'f Interrupt,
    pub(crate) way: Way,
    /// `None` only where no interrupt of the interface has a number.
    pub(crate) queue: Option<u32>,
}

impl OfQueue<'_> {
    /// Whether packets come with it.
    pub(crate) fn receives(&self) -> bool {
        self.way != Way::Sends
    }

    /// Whether it completes sent packets.
    pub(crate) fn sends(&self) -> bool {
        self.way != Way::Receives
    }
}

/// The interrupts of an interface's queues, in the order of queues; not those about the device itself.
pub(crate) fn of_queues<'f>(facts: &'f Facts, nic: &Nic) -> Vec<OfQueue<'f>> {
    let is_its = |interrupt: &&Interrupt| interrupt.device.as_deref() == Some(nic.name.as_str());
    let interrupts: Vec<&'f Interrupt> = facts.interrupts.iter().filter(is_its).collect();
    let blocks = interrupts.iter().filter(|interrupt| is_gve_block(&interrupt.name)).count();
    let of_queue = |interrupt: &'f Interrupt| {
        let (way, queue) = meaning(&interrupt.name, blocks)?;
        Some(OfQueue { interrupt, way, queue })
    };
    let mut found: Vec<OfQueue> = interrupts.into_iter().filter_map(of_queue).collect();
    // gve has blocks to spare, and virtio keeps the interrupts of queues that `ethtool -L` has put out of use.
    found.retain(|irq| {
        let queues = match irq.way {
            Way::Receives => nic.rx.len(),
            Way::Sends => nic.tx.len(),
            Way::Both => return true,
        };
        irq.queue.is_none_or(|queue| (queue as usize) < queues)
    });
    // Where queues have numbers, an interrupt without one is the device's own: igb's `eth0` beside `eth0-TxRx-0`.
    if found.iter().any(|irq| irq.queue.is_some()) {
        found.retain(|irq| irq.queue.is_some());
    }
    found.sort_by_key(|irq| (irq.queue, irq.interrupt.irq));
    found
}

/// `None`: not about packets.
fn meaning(name: &str, gve_blocks: usize) -> Option<(Way, Option<u32>)> {
    let name = name.to_ascii_lowercase();
    let queue = queue_number(&name);
    if is_gve_block(&name) {
        // gve.h: queue N sends in block N, and receives in block "number of blocks / 2 + N".
        let (block, half) = (queue?, gve_blocks as u32 / 2);
        return Some(match block < half {
            true => (Way::Sends, Some(block)),
            false => (Way::Receives, Some(block - half)),
        });
    }
    const OWN: [&str; 12] =
        ["config", "mgmnt", "mgmt", "async", "hwc", "aq@", "ctrl", "misc", "ptp", "_cmd", "_pages", "-event"];
    if OWN.iter().any(|own| name.contains(own)) {
        return None;
    }
    let sends = name.contains("-output") || name.contains("-tx") || name.contains("rxtx");
    let receives = name.contains("-input") || name.contains("rx");
    Some(match (receives, sends) {
        (true, false) => (Way::Receives, queue),
        (false, true) => (Way::Sends, queue),
        _ => (Way::Both, queue),
    })
}

/// `gve-ntfy-blk3@pci:0000:00:04.0`, before Linux 6.4 `eth0-ntfy-block.3`.
fn is_gve_block(name: &str) -> bool {
    name.contains("-ntfy-bl")
}

/// The queue in a name: the last number before an `@`.
fn queue_number(name: &str) -> Option<u32> {
    let name = name.split_once('@').map_or(name, |(before, _)| before);
    let name = name.trim_end_matches(|c: char| !c.is_ascii_digit());
    let start = name.rfind(|c: char| !c.is_ascii_digit())? + 1;
    // `eth0` alone is the name of the interface.
    let before = &name[..start];
    let separated = before.ends_with(['-', '.', '_']) || before.ends_with("comp") || before.ends_with("blk");
    let in_queue = before.ends_with("-q") || before.ends_with("_q");
    if separated || in_queue { name[start..].parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_say_which_queue_and_which_way() {
        for (name, expected) in [
            ("ens5-Tx-Rx-3", Some((Way::Both, Some(3)))),
            ("ena-mgmnt@pci:0000:00:05.0", None),
            ("virtio0-input.12", Some((Way::Receives, Some(12)))),
            ("virtio0-output.2", Some((Way::Sends, Some(2)))),
            ("virtio0-config", None),
            ("mlx5_comp7@pci:0000:3b:00.0", Some((Way::Both, Some(7)))),
            ("mlx5_async0@pci:0000:81:00.0", None),
            ("mlx5_cmd_eq@pci:0000:81:00.0", None),
            ("mana_q2@pci:7870:00:00.0", Some((Way::Both, Some(2)))),
            ("mana_hwc@pci:7870:00:00.0", None),
            ("gve-mgmnt@pci:0000:00:04.0", None),
            ("i40e-eth0-TxRx-3", Some((Way::Both, Some(3)))),
            ("i40e-0000:01:00.0:misc", None),
            ("eth0-rxtx-1", Some((Way::Both, Some(1)))),
            ("eth0-event-4", None),
            ("vif0-q3-rx", Some((Way::Receives, Some(3)))),
            ("vif0-q3-tx", Some((Way::Sends, Some(3)))),
            ("eth0", Some((Way::Both, None))),
        ] {
            assert_eq!(meaning(name, 0), expected, "{name}");
        }
    }

    /// An interface with this driver's names for its interrupts, and as many queues as are in use.
    #[track_caller]
    fn check(names: &[&str], queues: usize, expected: &str) {
        let interrupt = |(irq, name): (usize, &&str)| Interrupt {
            irq: irq as u32,
            name: (*name).to_owned(),
            device: Some("eth0".to_owned()),
            ..Interrupt::default()
        };
        let interrupts = names.iter().enumerate().map(interrupt).collect();
        let nic = Nic {
            name: "eth0".to_owned(),
            rx: vec![Default::default(); queues],
            tx: vec![Default::default(); queues],
            ..Nic::default()
        };
        let facts = Facts { interrupts, ..Facts::default() };
        let said = |irq: &OfQueue| {
            let way = match irq.way {
                Way::Receives => "r",
                Way::Sends => "s",
                Way::Both => "",
            };
            let queue = irq.queue.map_or("-".to_owned(), |queue| queue.to_string());
            format!("{}:{queue}{way}", irq.interrupt.irq)
        };
        let found: Vec<String> = of_queues(&facts, &nic).iter().map(said).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn gve_sends_with_the_first_half_of_its_blocks_and_receives_with_the_second() {
        let blocks: Vec<String> =
            (0..8).map(|block| format!("gve-ntfy-blk{block}@pci:0000:00:04.0")).collect();
        let mut names: Vec<&str> = blocks.iter().map(String::as_str).collect();
        names.push("gve-mgmnt@pci:0000:00:04.0");
        check(&names, 4, "0:0s 4:0r 1:1s 5:1r 2:2s 6:2r 3:3s 7:3r");
        check(&names, 2, "0:0s 4:0r 1:1s 5:1r");
        let old = ["eth0-ntfy-block.0", "eth0-ntfy-block.1", "eth0-mgmnt"];
        check(&old, 1, "0:0s 1:0r");
    }

    #[test]
    fn virtio_keeps_interrupts_of_queues_that_are_out_of_use() {
        let names =
            ["virtio1-config", "virtio1-input.0", "virtio1-output.0", "virtio1-input.1", "virtio1-output.1"];
        check(&names, 2, "1:0r 2:0s 3:1r 4:1s");
        check(&names, 1, "1:0r 2:0s");
    }

    #[test]
    fn an_interrupt_without_a_number_beside_numbers_is_the_devices_own() {
        check(&["eth0", "eth0-TxRx-10", "eth0-TxRx-9"], 2, "2:9 1:10");
        check(&["eth0"], 1, "0:-");
        check(&["eth0-tx", "eth0-rx"], 1, "0:-s 1:-r");
    }
}
