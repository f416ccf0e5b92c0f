//! Interrupts and their devices: from a device's list of message interrupts where it has one, from the names of the
//! handlers otherwise (Xen names its event channels after the interface, `eth0`, or its device, `vif0-q0-rx`).
//!
//! Numbers alone are not enough: they change with every change of the channels, and drivers list interrupts that they
//! have reserved and not requested. Names alone are not enough either: `virtio1` is the beginning of
//! `virtio10-input.0`.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use super::view::ProbeView;
use crate::observe::facts::{BlockDevice, Interrupt, Nic};

/// Handlers by interrupt, for those that have one.
type Handlers = BTreeMap<u32, String>;

pub(super) fn interrupts(view: &ProbeView, nics: &[Nic], disks: &[BlockDevice]) -> Vec<Interrupt> {
    let handlers = handlers(view);
    let mut owners: BTreeMap<u32, String> = BTreeMap::new();
    for nic in nics.iter().filter(|nic| nic.physical) {
        for irq in interrupts_of_nic(view, &handlers, &nic.name) {
            owners.entry(irq).or_insert_with(|| nic.name.clone());
        }
    }
    for disk in disks.iter().map(|disk| &disk.name) {
        for irq in interrupts_of_disk(view, disk) {
            owners.entry(irq).or_insert_with(|| disk.clone());
        }
    }
    let known = owners.into_iter().filter_map(|(irq, device)| Some((irq, device, handlers.get(&irq)?)));
    known.map(|(irq, device, name)| interrupt(view, irq, device, name)).collect()
}

/// The interrupts of an interface that have a handler and can be moved.
pub(super) fn handlers_of(view: &ProbeView, nic: &str) -> Vec<(u32, String)> {
    let handlers = handlers(view);
    let irqs = interrupts_of_nic(view, &handlers, nic).into_iter();
    let known = irqs.filter_map(|irq| Some((irq, handlers.get(&irq)?.clone())));
    known.filter(|(irq, name)| !is_managed(view, *irq, name)).collect()
}

fn interrupt(view: &ProbeView, irq: u32, device: String, name: &str) -> Interrupt {
    let affinity = view.list(&format!("/proc/irq/{irq}/smp_affinity_list")).unwrap_or_default();
    // Kernels without effective affinities use the first allowed CPU.
    let effective = view.list(&format!("/proc/irq/{irq}/effective_affinity_list"));
    Interrupt {
        irq,
        name: name.to_owned(),
        device: Some(device),
        effective: effective.unwrap_or_else(|| affinity.clone()),
        affinity,
        managed: is_managed(view, irq, name),
    }
}

/// Handlers' names by interrupt; since 4.9 from /sys/kernel/irq, before that from /proc/interrupts.
fn handlers(view: &ProbeView) -> Handlers {
    let action = |irq: &u32| view.text(&format!("/sys/kernel/irq/{irq}/actions"));
    let listed: Handlers = view
        .numbers("/sys/kernel/irq")
        .into_iter()
        .filter_map(|irq| Some((irq, action(&irq).filter(|name| !name.is_empty())?)))
        .collect();
    if !listed.is_empty() {
        return listed;
    }
    view.lines("/proc/interrupts").iter().filter_map(|line| handler_of_row(line)).collect()
}

/// ` 38:  0  9258  PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0`: 38 and the last column.
fn handler_of_row(line: &str) -> Option<(u32, String)> {
    let (irq, rest) = line.split_once(':')?;
    let (_, handler) = rest.trim_end().rsplit_once("  ")?;
    Some((irq.trim().parse().ok()?, handler.trim().to_owned()))
}

fn interrupts_of_nic(view: &ProbeView, handlers: &Handlers, nic: &str) -> Vec<u32> {
    let device = format!("/sys/class/net/{nic}/device");
    let listed = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")]
        .iter()
        .map(|directory| view.numbers(directory))
        .find(|irqs| !irqs.is_empty());
    // Since 4.16 xen-netfront names the two interrupts of a queue after the device, `vif-0`, and not the interface.
    let vif =
        view.link_name(&device).and_then(|device| Some(format!("vif{}-q", device.strip_prefix("vif-")?)));
    let named = || {
        let is_of_vif = |handler: &str| vif.as_ref().is_some_and(|vif| handler.starts_with(vif.as_str()));
        let is_of_nic = |handler: &str| is_named_after(handler, nic) || is_of_vif(handler);
        let of_nic = handlers.iter().filter(|(_, handler)| is_of_nic(handler));
        of_nic.map(|(irq, _)| *irq).collect()
    };
    listed.unwrap_or_else(named)
}

/// `eth1`, `eth1-q0-rx` and `i40e, eth1-TxRx-0` are eth1's; `eth10` is not.
fn is_named_after(handler: &str, nic: &str) -> bool {
    handler.split(',').any(|name| {
        name.trim().strip_prefix(nic).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
    })
}

fn interrupts_of_disk(view: &ProbeView, disk: &str) -> Vec<u32> {
    // With native multipathing a namespace belongs to a subsystem; its name still contains the controller.
    let controller = disk
        .strip_prefix("nvme")
        .and_then(|rest| rest.split_once('n'))
        .map(|(number, _)| format!("/sys/class/nvme/nvme{number}/device/msi_irqs"));
    let parent = || format!("/sys/block/{disk}/device/../msi_irqs");
    view.numbers(&controller.unwrap_or_else(parent))
}

/// Whether the kernel manages the affinity itself. Since 6.10 the file's mode shows it; before that, the handlers'
/// names: queues of NVMe but for the first (administration), and of virtio-blk.
fn is_managed(view: &ProbeView, irq: u32, name: &str) -> bool {
    if view.root.is_live() {
        let file = view.root.path(&format!("/proc/irq/{irq}/smp_affinity"));
        let mode = std::fs::metadata(file).map(|metadata| metadata.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o200 == 0) {
            return true;
        }
    }
    let nvme_queue = name.strip_prefix("nvme").and_then(|rest| rest.split_once('q'));
    let is_nvme = nvme_queue.is_some_and(|(controller, queue)| {
        controller.parse::<u32>().is_ok() && queue.parse::<u32>().is_ok_and(|queue| queue > 0)
    });
    let is_virtio_block = name.starts_with("virtio") && name.contains("-req.");
    is_nvme || is_virtio_block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_proc_interrupts_ends_with_its_handler() {
        let check = |row: &str, expected: Option<(u32, &str)>| {
            let expected = expected.map(|(irq, name)| (irq, name.to_owned()));
            assert_eq!(handler_of_row(row), expected, "{row}");
        };
        check(" 70:   123  0   xen-dyn-event     eth0", Some((70, "eth0")));
        check(
            " 38:  0  9 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0",
            Some((38, "virtio2-input.0")),
        );
        check(" 16:  5  0   IO-APIC  16-fasteoi   ehci_hcd:usb1, eth1", Some((16, "ehci_hcd:usb1, eth1")));
        check("NMI:  0  0   Non-maskable interrupts", None);
        check("           CPU0       CPU1       ", None);
    }

    #[test]
    fn a_handler_is_named_after_an_interface_as_a_whole() {
        for (handler, nic, expected) in [
            ("eth1", "eth1", true),
            ("eth1-q0-rx", "eth1", true),
            ("ehci_hcd:usb1, eth1", "eth1", true),
            ("eth10", "eth1", false),
            ("eth10-TxRx-0", "eth1", false),
            ("veth1", "eth1", false),
        ] {
            assert_eq!(is_named_after(handler, nic), expected, "{handler} {nic}");
        }
    }
}
