//! Names of drivers' counters of packets by queue, which differ from driver to driver.

/// A direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketDirection {
    /// From the network.
    Receive,
    /// To the network.
    Transmit,
}

/// `queue_3_rx_cnt` (ena), `rx_queue_3_packets` (virtio, ixgbe), `rx3_packets` (mlx5, virtio since 6.10), `rx-3.packets`
/// (i40e), `rx_3_packets` (mana), `rx_completed_desc[3]` (gve), and the same of `tx`.
const NAMES: [(PacketDirection, &str, &str); 12] = [
    (PacketDirection::Receive, "queue_", "_rx_cnt"),
    (PacketDirection::Receive, "rx_queue_", "_packets"),
    (PacketDirection::Receive, "rx-", ".packets"),
    (PacketDirection::Receive, "rx_", "_packets"),
    (PacketDirection::Receive, "rx", "_packets"),
    (PacketDirection::Receive, "rx_completed_desc[", "]"),
    (PacketDirection::Transmit, "queue_", "_tx_cnt"),
    (PacketDirection::Transmit, "tx_queue_", "_packets"),
    (PacketDirection::Transmit, "tx-", ".packets"),
    (PacketDirection::Transmit, "tx_", "_packets"),
    (PacketDirection::Transmit, "tx", "_packets"),
    (PacketDirection::Transmit, "tx_completed_desc[", "]"),
];

/// The name of such a counter that the kernel has, and the driver's own counters do not (virtio since Linux 6.10).
pub(crate) fn name(direction: PacketDirection, queue: u32) -> String {
    match direction {
        PacketDirection::Receive => format!("rx_queue_{queue}_packets"),
        PacketDirection::Transmit => format!("tx_queue_{queue}_packets"),
    }
}

/// The queue that a counter of packets is about.
pub(crate) fn queue_of(counter: &str) -> Option<(PacketDirection, u32)> {
    let queue = |(direction, prefix, suffix): &(PacketDirection, &str, &str)| {
        let number = counter.strip_prefix(prefix)?.strip_suffix(suffix)?.parse().ok()?;
        Some((*direction, number))
    };
    NAMES.iter().find_map(queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_queues_are_known_by_their_names() {
        let names = [
            "queue_3_rx_cnt",
            "rx_queue_3_packets",
            "rx3_packets",
            "rx-3.packets",
            "rx_3_packets",
            "rx_completed_desc[3]",
        ];
        for name in names {
            assert_eq!(queue_of(name), Some((PacketDirection::Receive, 3)), "{name}");
            assert_eq!(queue_of(&name.replace("rx", "tx")), Some((PacketDirection::Transmit, 3)), "{name}");
        }
        for other in ["rx_packets", "rx_queue_3_bytes", "rx_queue_x_packets", "queue_3_rx_cnts", ""] {
            assert_eq!(queue_of(other), None, "{other}");
        }
    }
}
