//! Kernel events: links that change (route netlink), devices and CPUs that come and go (kernel uevents).
//!
//! Bytes become events here; the sockets are elsewhere. Truncated or unknown messages give no event.

use serde::{Deserialize, Serialize};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelEvent {
    /// The state of a network interface.
    Link {
        /// `eth0`
        nic: String,
        /// The kernel's number for it; another number means another interface, even under the same name.
        index: u32,
        /// Whether it is up and has a link.
        up: bool,
    },
    /// A network interface is gone.
    LinkGone {
        /// `eth0`
        nic: String,
    },
    /// A CPU is in use now, or not any more.
    Cpu {
        /// Its number.
        cpu: u32,
        /// Whether it is in use.
        online: bool,
    },
    /// An interface, a queue or a disk was added, removed or renamed.
    Device {
        /// The interface, also of a queue, or the disk.
        name: String,
        /// What it is: `net`, `queues`, `block`.
        subsystem: String,
        /// `add`, `remove`, `move`, `change`…
        action: String,
    },
    /// More came than the sockets could buffer.
    Lost,
    /// A look was requested.
    Asked,
}

/// Lengths and numbers of netlink.h, rtnetlink.h and if.h.
const HEADER_LEN: usize = 16;
const LINK_LEN: usize = 16;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const IFLA_IFNAME: u16 = 3;
const IFF_UP: u32 = 1;
const IFF_RUNNING: u32 = 0x40;
/// Bridges send messages of their own about their ports, which are not about the link.
const AF_UNSPEC: u8 = 0;

impl KernelEvent {
    /// The links in a datagram of route netlink.
    pub fn of_route(mut bytes: &[u8]) -> Vec<KernelEvent> {
        let mut events = Vec::new();
        while let Some(len) = u32_at(bytes, 0).map(|len| len as usize) {
            let (Some(message), Some(kind)) = (bytes.get(HEADER_LEN..len), u16_at(bytes, 4)) else { break };
            events.extend(link(kind, message));
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        events
    }

    /// The event of a uevent, if it is about something that settings belong to.
    pub fn of_uevent(bytes: &[u8]) -> Option<KernelEvent> {
        let text = std::str::from_utf8(bytes).ok()?;
        let word = |key: &str| text.split('\0').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        let (action, path, subsystem) = (word("ACTION")?, word("DEVPATH")?, word("SUBSYSTEM")?);
        let last = |path: &str| path.rsplit('/').next().map(str::to_owned);
        let name = match (subsystem, action) {
            ("cpu", "online" | "offline") => {
                let cpu = last(path)?.strip_prefix("cpu")?.parse().ok()?;
                return Some(KernelEvent::Cpu { cpu, online: action == "online" });
            }
            ("net", _) => word("INTERFACE")?.to_owned(),
            // /devices/…/net/eth0/queues/rx-3
            ("queues", _) => last(path.rsplit_once("/queues/")?.0)?,
            ("block", _) => last(path)?,
            _ => return None,
        };
        Some(KernelEvent::Device { name, subsystem: subsystem.to_owned(), action: action.to_owned() })
    }
}

fn link(kind: u16, message: &[u8]) -> Option<KernelEvent> {
    if *message.first()? != AF_UNSPEC {
        return None;
    }
    let (index, flags) = (u32_at(message, 4)?, u32_at(message, 8)?);
    let mut attributes = message.get(LINK_LEN..)?;
    let nic = loop {
        let (len, kind) = (u16_at(attributes, 0)? as usize, u16_at(attributes, 2)?);
        let value = attributes.get(4..len)?;
        if kind == IFLA_IFNAME {
            let name = value.split(|byte| *byte == 0).next()?;
            break String::from_utf8_lossy(name).into_owned();
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    };
    match kind {
        RTM_NEWLINK => {
            Some(KernelEvent::Link { nic, index, up: flags & IFF_UP != 0 && flags & IFF_RUNNING != 0 })
        }
        RTM_DELLINK => Some(KernelEvent::LinkGone { nic }),
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message about a link: an attribute before the name, as the kernel may order them.
    fn message(kind: u16, family: u8, flags: u32, name: &str) -> Vec<u8> {
        let mut body = vec![family, 0, 1, 0];
        body.extend([7u32.to_ne_bytes(), flags.to_ne_bytes(), 0u32.to_ne_bytes()].concat());
        body.extend([&5u16.to_ne_bytes()[..], &13u16.to_ne_bytes(), &[1, 0, 0, 0]].concat());
        body.extend([(5 + name.len() as u16).to_ne_bytes(), IFLA_IFNAME.to_ne_bytes()].concat());
        body.extend(name.bytes().chain([0]));
        let mut bytes = ((HEADER_LEN + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_datagram_holds_several_links() {
        let mut bytes = message(RTM_NEWLINK, AF_UNSPEC, IFF_UP | IFF_RUNNING, "eth0");
        bytes.extend(message(RTM_NEWLINK, 7, IFF_UP, "port"));
        bytes.extend(message(RTM_NEWLINK, AF_UNSPEC, IFF_UP, "left"));
        bytes.extend(message(RTM_DELLINK, AF_UNSPEC, 0, "right"));
        let link = |nic: &str, up| KernelEvent::Link { nic: nic.into(), index: 7, up };
        let expected =
            [link("eth0", true), link("left", false), KernelEvent::LinkGone { nic: "right".into() }];
        assert_eq!(KernelEvent::of_route(&bytes), expected);
    }

    #[test]
    fn whatever_is_cut_off_says_nothing() {
        let bytes = message(RTM_NEWLINK, AF_UNSPEC, IFF_UP, "eth0");
        for len in 0..bytes.len() {
            assert!(KernelEvent::of_route(&bytes[..len]).len() <= 1, "{len}");
        }
        assert_eq!(KernelEvent::of_route(&bytes[..bytes.len() - 8]), []);
        let mut zero = bytes.clone();
        zero[..4].fill(0);
        assert_eq!(KernelEvent::of_route(&zero), [], "a length of nothing does not go on for ever");
    }

    #[track_caller]
    fn check_uevent(text: &str, expected: Option<KernelEvent>) {
        assert_eq!(KernelEvent::of_uevent(text.as_bytes()), expected, "{text:?}");
    }

    #[test]
    fn a_uevent_is_about_a_cpu_a_queue_an_interface_or_a_disk() {
        let device = |name: &str, subsystem: &str, action: &str| {
            let [name, subsystem, action] = [name, subsystem, action].map(str::to_owned);
            Some(KernelEvent::Device { name, subsystem, action })
        };
        check_uevent(
            "offline@/devices/system/cpu/cpu3\0ACTION=offline\0DEVPATH=/devices/system/cpu/cpu3\0SUBSYSTEM=cpu\0SEQNUM=9\0",
            Some(KernelEvent::Cpu { cpu: 3, online: false }),
        );
        check_uevent(
            "x\0ACTION=add\0DEVPATH=/devices/virtual/net/left/queues/rx-0\0SUBSYSTEM=queues\0",
            device("left", "queues", "add"),
        );
        check_uevent(
            "x\0ACTION=remove\0DEVPATH=/devices/virtual/net/left\0SUBSYSTEM=net\0INTERFACE=left\0IFINDEX=4\0",
            device("left", "net", "remove"),
        );
        check_uevent(
            "x\0ACTION=change\0DEVPATH=/devices/pci0/block/vda\0SUBSYSTEM=block\0",
            device("vda", "block", "change"),
        );
        check_uevent("x\0ACTION=add\0DEVPATH=/devices/pci0/usb1\0SUBSYSTEM=usb\0", None);
        check_uevent("libudev", None);
    }
}
