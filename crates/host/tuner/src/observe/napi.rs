//! NAPI instances of receive queues, and when each may interrupt: the kernel's netdev family of generic netlink.
//!
//! The family came with Linux 6.7, these values with 6.13. The kernel's number of a NAPI changes when its interface is taken
//! down. Here it has that of the receive queue that it serves or, where the driver does not tell (veth), its place among the
//! NAPIs of its interface.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink as protocol;
use serde::{Deserialize, Serialize};

use crate::observe::netlink::{
    FLAGS_ACK, FLAGS_DUMP, FLAGS_ONE, ask, attribute, number, open, push, request,
};
use crate::observe::queue_counter::PacketDirection;
use crate::observe::root::Root;

/// When a NAPI instance interrupts, in nanoseconds and numbers of polls; 0 is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct InterruptDeferral {
    /// Polls without packets after which interrupts are enabled again.
    pub defer_hard_irqs: u32,
    /// The time after which packets are looked for although no interrupt came.
    pub gro_flush_timeout_ns: u64,
    /// The time for which a program that polls keeps interrupts off; since Linux 6.13.
    pub irq_suspend_timeout_ns: u64,
}

/// Of `enum` in linux/netdev.h: commands.
const QUEUE_GET: u8 = 10;
const NAPI_GET: u8 = 11;
const QSTATS_GET: u8 = 12;
const NAPI_SET: u8 = 14;
/// Attributes of a NAPI.
const NAPI_IFINDEX: u16 = 1;
const NAPI_ID: u16 = 2;
const NAPI_DEFER_HARD_IRQS: u16 = 5;
const NAPI_GRO_FLUSH_TIMEOUT: u16 = 6;
const NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;
/// Attributes of a queue, and the kind that receives.
const QUEUE_ID: u16 = 1;
const QUEUE_IFINDEX: u16 = 2;
const QUEUE_TYPE: u16 = 3;
const QUEUE_NAPI_ID: u16 = 4;
const TYPE_RX: u64 = 0;
/// Attributes of statistics, and the scope of queues.
const QSTATS_IFINDEX: u16 = 1;
const QSTATS_TYPE: u16 = 2;
const QSTATS_QUEUE: u16 = 3;
const QSTATS_SCOPE: u16 = 4;
const QSTATS_RX_PACKETS: u16 = 8;
const QSTATS_TX_PACKETS: u16 = 10;
const SCOPE_QUEUE: u32 = 1;
/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, its attributes, and `struct genlmsghdr`.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GENERIC_LEN: usize = 4;
const VERSION: u8 = 1;
/// Queues of an interface that are looked at: more than any device has.
const QUEUES_MAX: usize = 4096;

/// By number, with the present values; empty where the driver shows none, and on kernels that cannot set them.
pub(crate) fn napis(root: &Root, nic: &str) -> BTreeMap<u32, InterruptDeferral> {
    if !root.is_live() {
        return BTreeMap::new();
    }
    Netdev::of(root, nic).and_then(|netdev| netdev.napis()).unwrap_or_default()
}

/// Packets by direction and queue, where the driver counts them for the kernel (since Linux 6.10).
pub(crate) fn queue_packets(root: &Root, nic: &str) -> BTreeMap<(PacketDirection, u32), u64> {
    if !root.is_live() {
        return BTreeMap::new();
    }
    Netdev::of(root, nic).and_then(|netdev| netdev.queue_packets()).unwrap_or_default()
}

/// The present values of a NAPI.
pub(crate) fn read(root: &Root, nic: &str, number: u32) -> io::Result<InterruptDeferral> {
    let all = Netdev::of(root, nic)?.napis()?;
    all.get(&number).copied().ok_or_else(|| Errno::NOENT.into())
}

/// Sets all of them.
pub(crate) fn write(root: &Root, nic: &str, number: u32, wanted: InterruptDeferral) -> io::Result<()> {
    let netdev = Netdev::of(root, nic)?;
    let found = netdev.numbered()?.into_iter().find(|napi| napi.number == number).ok_or(Errno::NOENT)?;
    Ok(netdev.set(found.id, wanted)?)
}

/// A NAPI instance.
struct Napi {
    /// Ours.
    number: u32,
    /// The kernel's.
    id: u32,
    deferral: InterruptDeferral,
}

/// The family, and an interface.
struct Netdev {
    socket: OwnedFd,
    family: u16,
    ifindex: u32,
}

impl Netdev {
    fn of(root: &Root, nic: &str) -> Result<Netdev, Errno> {
        let ifindex = root.value(&format!("/sys/class/net/{nic}/ifindex"), "a number").ok().flatten();
        let ifindex = ifindex.ok_or(Errno::NODEV)?;
        let socket = open(Some(protocol::GENERIC))?;
        let family = family(&socket)?;
        Ok(Netdev { socket, family, ifindex })
    }

    fn dump(&self, command: u8, attributes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), Errno> {
        let message = request(self.family, FLAGS_DUMP, &generic(command, attributes));
        ask(&self.socket, &message, |body| each(body.get(GENERIC_LEN..).unwrap_or(&[])))
    }

    /// Receive queues and the numbers of their NAPIs.
    fn queues(&self) -> Result<Vec<(u32, u32)>, Errno> {
        let (mut of_nic, mut queues) = (Vec::new(), Vec::new());
        push(&mut of_nic, QUEUE_IFINDEX, &self.ifindex.to_ne_bytes());
        self.dump(QUEUE_GET, &of_nic, |queue| {
            let receives = number(queue, QUEUE_TYPE) == Some(TYPE_RX);
            if let (true, Some(id), Some(napi)) =
                (receives, number(queue, QUEUE_ID), number(queue, QUEUE_NAPI_ID))
                && queues.len() < QUEUES_MAX
            {
                queues.push((id as u32, napi as u32));
            }
        })?;
        Ok(queues)
    }

    fn napis(&self) -> Result<BTreeMap<u32, InterruptDeferral>, Errno> {
        Ok(self.numbered()?.into_iter().map(|napi| (napi.number, napi.deferral)).collect())
    }

    fn numbered(&self) -> Result<Vec<Napi>, Errno> {
        let (mut of_nic, mut found) = (Vec::new(), BTreeMap::new());
        push(&mut of_nic, NAPI_IFINDEX, &self.ifindex.to_ne_bytes());
        self.dump(NAPI_GET, &of_nic, |napi| {
            if let (Some(id), Some(deferral)) = (number(napi, NAPI_ID), deferral(napi))
                && found.len() < QUEUES_MAX
            {
                found.insert(id as u32, deferral);
            }
        })?;
        Ok(numbered(&self.queues()?, &found))
    }

    fn queue_packets(&self) -> Result<BTreeMap<(PacketDirection, u32), u64>, Errno> {
        let (mut wanted, mut packets) = (Vec::new(), BTreeMap::new());
        push(&mut wanted, QSTATS_IFINDEX, &self.ifindex.to_ne_bytes());
        push(&mut wanted, QSTATS_SCOPE, &SCOPE_QUEUE.to_ne_bytes());
        self.dump(QSTATS_GET, &wanted, |queue| {
            let (direction, counter) = match number(queue, QSTATS_TYPE) {
                Some(TYPE_RX) => (PacketDirection::Receive, QSTATS_RX_PACKETS),
                _ => (PacketDirection::Transmit, QSTATS_TX_PACKETS),
            };
            if let (Some(id), Some(count)) = (number(queue, QSTATS_QUEUE), number(queue, counter))
                && packets.len() < QUEUES_MAX
            {
                packets.insert((direction, id as u32), count);
            }
        })?;
        Ok(packets)
    }

    fn set(&self, napi: u32, wanted: InterruptDeferral) -> Result<(), Errno> {
        let mut attributes = Vec::new();
        push(&mut attributes, NAPI_ID, &napi.to_ne_bytes());
        push(&mut attributes, NAPI_DEFER_HARD_IRQS, &wanted.defer_hard_irqs.to_ne_bytes());
        push(&mut attributes, NAPI_GRO_FLUSH_TIMEOUT, &wanted.gro_flush_timeout_ns.to_ne_bytes());
        push(&mut attributes, NAPI_IRQ_SUSPEND_TIMEOUT, &wanted.irq_suspend_timeout_ns.to_ne_bytes());
        ask(&self.socket, &request(self.family, FLAGS_ACK, &generic(NAPI_SET, &attributes)), |_| {})
    }
}

/// NAPIs of receive queues, by queue; those of an interface whose queues have none known, in the order in which they were made.
fn numbered(queues: &[(u32, u32)], found: &BTreeMap<u32, InterruptDeferral>) -> Vec<Napi> {
    if queues.is_empty() {
        let all = (0..).zip(found);
        return all.map(|(number, (id, deferral))| Napi { number, id: *id, deferral: *deferral }).collect();
    }
    let of_queue = |(number, id): &(u32, u32)| {
        found.get(id).map(|deferral| Napi { number: *number, id: *id, deferral: *deferral })
    };
    queues.iter().filter_map(of_queue).collect()
}

/// `None` where the kernel does not report all three: it cannot set them either.
fn deferral(napi: &[u8]) -> Option<InterruptDeferral> {
    Some(InterruptDeferral {
        defer_hard_irqs: number(napi, NAPI_DEFER_HARD_IRQS)? as u32,
        gro_flush_timeout_ns: number(napi, NAPI_GRO_FLUSH_TIMEOUT)?,
        irq_suspend_timeout_ns: number(napi, NAPI_IRQ_SUSPEND_TIMEOUT)?,
    })
}

/// The number of the family on this boot.
fn family(socket: &OwnedFd) -> Result<u16, Errno> {
    let (mut named, mut id) = (Vec::new(), None);
    push(&mut named, FAMILY_NAME, b"netdev\0");
    ask(socket, &request(CONTROL, FLAGS_ONE, &generic(GET_FAMILY, &named)), |body| {
        let attributes = body.get(GENERIC_LEN..).unwrap_or(&[]);
        id = attribute(attributes, FAMILY_ID).and_then(|id| Some(u16::from_ne_bytes(id.try_into().ok()?)));
    })?;
    id.ok_or(Errno::BADMSG)
}

fn generic(command: u8, attributes: &[u8]) -> Vec<u8> {
    let mut body = vec![command, VERSION, 0, 0];
    body.extend(attributes);
    body
}

/// The names, as in `ynl --family netdev`.
const NAMES: [&str; 3] = ["defer-hard-irqs", "gro-flush-timeout", "irq-suspend-timeout"];

/// What a text has to be.
pub(crate) const EXPECTED: &str =
    "defer-hard-irqs=N gro-flush-timeout=NANOSECONDS irq-suspend-timeout=NANOSECONDS";

impl fmt::Display for InterruptDeferral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [defer, flush, suspend] = NAMES;
        let InterruptDeferral { defer_hard_irqs, gro_flush_timeout_ns, irq_suspend_timeout_ns } = self;
        write!(
            f,
            "{defer}={defer_hard_irqs} {flush}={gro_flush_timeout_ns} {suspend}={irq_suspend_timeout_ns}"
        )
    }
}

impl FromStr for InterruptDeferral {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<InterruptDeferral, &'static str> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [defer, flush, suspend] = words[..] else { return Err(EXPECTED) };
        let value = |word: &str, name: &str| -> Result<u64, &'static str> {
            let digits = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')).ok_or(EXPECTED)?;
            digits.parse().map_err(|_| EXPECTED)
        };
        Ok(InterruptDeferral {
            defer_hard_irqs: value(defer, NAMES[0])?.try_into().map_err(|_| EXPECTED)?,
            gro_flush_timeout_ns: value(flush, NAMES[1])?,
            irq_suspend_timeout_ns: value(suspend, NAMES[2])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_texts_and_back() {
        let text = "defer-hard-irqs=100 gro-flush-timeout=20000 irq-suspend-timeout=20000000";
        let deferral: InterruptDeferral = text.parse().expect("values");
        assert_eq!((deferral.defer_hard_irqs, deferral.irq_suspend_timeout_ns), (100, 20_000_000));
        assert_eq!(deferral.to_string(), text);
        let too_much = text.replace("=100", "=4294967296");
        for wrong in ["", "defer-hard-irqs=100", "100 20000 20000000", &too_much, &format!("{text} x=1")] {
            assert_eq!(wrong.parse::<InterruptDeferral>(), Err(EXPECTED), "{wrong}");
        }
    }

    #[test]
    fn a_kernel_that_cannot_suspend_shows_no_values() {
        let mut napi = Vec::new();
        push(&mut napi, NAPI_DEFER_HARD_IRQS, &3_u32.to_ne_bytes());
        push(&mut napi, NAPI_GRO_FLUSH_TIMEOUT, &5_u32.to_ne_bytes());
        assert_eq!(deferral(&napi), None);
        push(&mut napi, NAPI_IRQ_SUSPEND_TIMEOUT, &7_u64.to_ne_bytes());
        let values =
            InterruptDeferral { defer_hard_irqs: 3, gro_flush_timeout_ns: 5, irq_suspend_timeout_ns: 7 };
        assert_eq!(deferral(&napi), Some(values));
    }

    #[test]
    fn a_napi_has_the_number_of_its_queue_or_else_its_place() {
        let found = BTreeMap::from([70, 64, 9].map(|id| (id, InterruptDeferral::default())));
        let pairs = |queues: &[(u32, u32)]| -> Vec<(u32, u32)> {
            numbered(queues, &found).into_iter().map(|napi| (napi.number, napi.id)).collect()
        };
        assert_eq!(pairs(&[(0, 70), (1, 64), (2, 5)]), [(0, 70), (1, 64)], "one has gone meanwhile");
        assert_eq!(pairs(&[]), [(0, 9), (1, 64), (2, 70)]);
    }

    #[test]
    fn interfaces_without_napi_have_none() {
        let live = Root::new("/");
        assert!(napis(&live, "lo").is_empty() && queue_packets(&live, "lo").is_empty());
        assert!(napis(&live, "nosuchnic").is_empty());
        assert!(read(&live, "nosuchnic", 0).is_err());
    }
}
