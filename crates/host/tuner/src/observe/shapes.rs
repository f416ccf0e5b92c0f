//! Hosts for tests, made up from documentation and driver sources: none was captured.

use crate::observe::facts::{Cpu, Facts, Interrupt, Nic, RxQueue, TxQueue};
use os::CpuSet;

/// The shape of a host with one interface, `eth0`.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// CPUs (hardware threads). As on most servers the second threads of all cores come after the first ones.
    pub(crate) cpus: u32,
    /// Hardware threads of a core.
    pub(crate) threads: u32,
    /// NUMA nodes, one package and one last-level cache each.
    pub(crate) nodes: u32,
    /// Queue pairs of the interface.
    pub(crate) queues: u32,
    /// The names of its interrupts: `#` stands for the number of the queue; several for several a queue.
    pub(crate) irqs: &'static [&'static str],
}

pub(crate) const ENA: &[&str] = &["eth0-Tx-Rx-#"];
pub(crate) const VIRTIO: &[&str] = &["virtio0-input.#", "virtio0-output.#"];
pub(crate) const XEN: &[&str] = &["eth0"];

/// The number of the first interrupt.
pub(crate) const IRQ_FIRST: u32 = 40;

impl Shape {
    /// The host, its interface on node 0 with all interrupts on CPU 0.
    pub(crate) fn facts(self) -> Facts {
        let cores = self.cpus / self.threads;
        let cores_per_node = cores / self.nodes;
        let node = |cpu: u32| (cpu % cores) / cores_per_node;
        let cpu = |id: u32| Cpu {
            id,
            online: true,
            node: node(id),
            package: node(id),
            siblings: (0..self.threads).map(|thread| id % cores + thread * cores).collect(),
            cache: (0..self.cpus).filter(|other| node(*other) == node(id)).collect(),
            governor: None,
        };
        let nic = Nic {
            name: "eth0".into(),
            node: (self.nodes > 1).then_some(0),
            up: true,
            physical: true,
            rx: vec![RxQueue::default(); self.queues as usize],
            tx: vec![TxQueue { xps: Some(CpuSet::new()), ..TxQueue::default() }; self.queues as usize],
            ..Nic::default()
        };
        let names = self
            .irqs
            .iter()
            .flat_map(|name| (0..self.queues).map(|queue| name.replace('#', &queue.to_string())));
        let interrupts = names.enumerate().map(|(index, name)| Interrupt {
            irq: IRQ_FIRST + index as u32,
            name,
            device: Some("eth0".into()),
            affinity: CpuSet::first(self.cpus),
            effective: CpuSet::first(1),
            managed: false,
        });
        Facts {
            cpus: (0..self.cpus).map(cpu).collect(),
            nics: vec![nic],
            interrupts: interrupts.collect(),
            ..Facts::default()
        }
    }
}

/// A directory for one test.
pub(crate) struct Scratch(std::path::PathBuf);

impl Scratch {
    /// An empty one, named after the test.
    pub(crate) fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("evenkeel-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// Its path.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Remains are removed with the directory of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
