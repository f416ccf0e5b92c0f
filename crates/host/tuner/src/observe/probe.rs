//! Host probe: reads [`Facts`] from a file system root.
//!
//! ```text
//! Root ─► View (texts, numbers, sets; notes unreadable ones)
//!           ├─ host              kernel, guest, memory, sysctls, huge pages, clock
//!           ├─ cpu               CPUs, caches, nodes, isolation
//!           ├─ nic               interfaces and their queues
//!           ├─ interrupt         interrupts and the devices that they belong to
//!           ├─ disk              disks, arrays, mounts
//!           ├─ process           data servers and their threads
//!           ├─ cgroup_limits     limits of a service's cgroup, cpusets included
//!           ├─ listener          sockets that take connections, and the processes that hold them
//!           ├─ datagram          sockets that take datagrams
//!           ├─ agent             other programs that set the same settings
//!           ├─ obsolete_sysctls  settings that no kernel of today reads
//!           └─ per_packet_costs  costs of every packet
//! ```
//!
//! Nothing here changes anything, and nothing here judges. Facts that cannot be read become a line of `Facts::gaps`;
//! files that do not exist are left out.

mod agent;
mod cgroup_limits;
pub(crate) mod cpu;
pub(crate) mod datagram;
pub(crate) mod disk;
pub(crate) mod host;
mod interrupt;
pub(crate) mod listener;
pub(crate) mod nic;
mod obsolete_sysctls;
mod per_packet_costs;
pub(crate) mod process;
pub(crate) mod view;

use std::io;
use std::path::PathBuf;

use crate::observe::facts::{Agent, Facts, Interrupt, Nic};
use crate::observe::root::{Error, Root};
use os::CpuSet;
pub use process::pids_of_unit;
use view::ProbeView;

/// Probes a host, and these processes even if they are no known data servers.
///
/// Fails only if `root` holds no host.
pub fn probe(root: &Root, pids: &[u32]) -> Result<Facts, Error> {
    host_is_there(root)?;
    let view = ProbeView::new(root);
    let nics = nic::nics(&view);
    let disks = disk::disks(&view);
    let processes = process::processes(&view);
    let owners = listener::Owners::of(&view, &processes);
    let mut services = process::services(&view, &processes, pids);
    for service in &mut services {
        if let Some((descriptors, sockets)) = owners.descriptors(service.pid) {
            (service.descriptors, service.sockets) = (Some(descriptors), Some(sockets));
        }
    }
    listener::note_strangers(&view, &services);
    let agents = agent::agents(&view, &processes);
    host::note_pressure(&view);
    let cpus = cpu::cpus(&view);
    let mut facts = Facts {
        kernel: host::kernel(&view),
        guest: host::guest(&view),
        memory_bytes: host::memory(&view, "MemTotal").unwrap_or(0),
        swap_bytes: host::memory(&view, "SwapTotal"),
        slower: cpu::slower(&view, &cpus),
        cpus,
        isolated: cpu::isolated(&view),
        nohz_full: cpu::nohz_full(&view),
        interrupts: interrupt::interrupts(&view, &nics, &disks),
        nics,
        disks,
        mounts: disk::mounts(&view),
        read_only: disk::read_only(&view),
        sysctls: host::sysctls(&view),
        huge_pages: host::huge_pages(&view),
        clock_source: host::clock_source(&view),
        listeners: listener::listeners(&view, &services, &owners),
        datagrams: datagram::sockets(&view, &owners),
        services,
        realtime_threads: process::realtime(&view, &processes),
        irqbalance: agent::irqbalance(&view, &agents),
        agents,
        per_packet_costs: per_packet_costs::per_packet_costs(&view, &processes),
        sched_ext: host::sched_ext(&view),
        realtime: host::realtime(&view),
        obsolete_sysctls: obsolete_sysctls::obsolete_sysctls(&view),
        gaps: Vec::new(),
    };
    if facts.nics.iter().any(|nic| nic.up) && !facts.nics.iter().any(Nic::is_wire) {
        view.note(format!("queues and interrupts of network devices: {}", facts.why_no_device()));
    }
    facts.gaps = view.into_gaps();
    Ok(facts)
}

/// The interrupts of an interface that have a handler: their numbers now, and the handlers' names. Those with an
/// affinity that the kernel manages are not among them.
pub(crate) fn handlers_of(root: &Root, nic: &str) -> Vec<(u32, String)> {
    interrupt::handlers_of(&ProbeView::new(root), nic)
}

/// CPUs that the kernel takes out of RPS masks (since Linux 5.9).
pub(crate) fn isolated_cpus(root: &Root) -> CpuSet {
    let view = ProbeView::new(root);
    cpu::isolated(&view).or(&cpu::nohz_full(&view))
}

/// Interrupts of interfaces and disks alone.
pub(crate) fn interrupts(root: &Root) -> Vec<Interrupt> {
    let view = ProbeView::new(root);
    interrupt::interrupts(&view, &nic::nics(&view), &disk::disks(&view))
}

/// Only the programs and files that set the same settings.
pub(crate) fn agents(root: &Root) -> Vec<Agent> {
    let view = ProbeView::new(root);
    agent::agents(&view, &process::processes(&view))
}

/// A host without /proc cannot be probed.
pub(crate) fn host_is_there(root: &Root) -> Result<(), Error> {
    if root.exists("/proc") {
        return Ok(());
    }
    let source = io::Error::new(io::ErrorKind::NotFound, "no host is mounted or captured there");
    Err(Error::Read { path: PathBuf::from("/proc"), source })
}
