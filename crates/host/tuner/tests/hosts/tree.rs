//! Builds the files of a host in a temporary directory, which is gone when the value is.

use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use os::CpuSet;
use tuner::Root;

/// A directory that looks like a host's root.
pub(crate) struct Tree {
    path: PathBuf,
}

/// CPUs of a machine as Linux on x86 numbers them: first one thread of each core, socket by socket, then the other.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) sockets: u32,
    pub(crate) cores_per_socket: u32,
    pub(crate) threads_per_core: u32,
    /// Neighbouring cores that share a last-level cache.
    pub(crate) cores_per_cache: u32,
}

impl Shape {
    pub(crate) fn cores(self) -> u32 {
        self.sockets * self.cores_per_socket
    }

    pub(crate) fn cpus(self) -> u32 {
        self.cores() * self.threads_per_core
    }

    /// CPUs whose core passes.
    fn of_cores(self, passes: impl Fn(u32) -> bool) -> CpuSet {
        (0..self.cpus()).filter(|cpu| passes(cpu % self.cores())).collect()
    }
}

impl Tree {
    pub(crate) fn new() -> Tree {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tuner-host-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // In memory where that is possible: thousands of small files take seconds on a busy disk.
        let memory = Some(PathBuf::from("/dev/shm")).filter(|memory| memory.is_dir());
        let path = memory.unwrap_or_else(std::env::temp_dir).join(name);
        std::fs::create_dir_all(path.join("proc")).expect("make a temporary directory");
        Tree { path }
    }

    pub(crate) fn root(&self) -> Root {
        Root::new(&self.path)
    }

    /// A file with this text and a line end.
    pub(crate) fn file(self, path: &str, text: &str) -> Tree {
        let here = self.path.join(path);
        // Most directories are there already, and hosts have thousands of files.
        let text = format!("{text}\n");
        if std::fs::write(&here, &text).is_err() {
            std::fs::create_dir_all(here.parent().expect("a directory")).expect("make directories");
            std::fs::write(&here, text).expect("write a file");
        }
        self
    }

    pub(crate) fn link(self, path: &str, target: &str) -> Tree {
        let here = self.path.join(path);
        std::fs::create_dir_all(here.parent().expect("a directory")).expect("make directories");
        symlink(target, here).expect("make a link");
        self
    }

    pub(crate) fn kernel(self, release: &str) -> Tree {
        self.file("proc/sys/kernel/osrelease", release)
            .file("proc/sys/kernel/random/boot_id", "3b1f4a3e-7f0c-4a52-9d1e-6b7a2c9d0e11")
            .file("proc/mounts", "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0")
    }

    pub(crate) fn firmware(self, vendor: &str, product: &str, is_guest: bool) -> Tree {
        let flag = if is_guest { " hypervisor" } else { "" };
        self.file("sys/class/dmi/id/sys_vendor", vendor)
            .file("sys/class/dmi/id/product_name", product)
            .file("proc/cpuinfo", &format!("processor\t: 0\nflags\t\t: fpu sse2{flag} lahf_lm"))
    }

    pub(crate) fn cpus(self, shape: Shape) -> Tree {
        let all = CpuSet::first(shape.cpus()).to_string();
        let mut tree = self;
        for file in ["possible", "present", "online"] {
            tree = tree.file(&format!("sys/devices/system/cpu/{file}"), &all);
        }
        for socket in 0..shape.sockets {
            let cpus = shape.of_cores(|core| core / shape.cores_per_socket == socket);
            tree = tree.file(&format!("sys/devices/system/node/node{socket}/cpulist"), &cpus.to_string());
        }
        (0..shape.cpus()).fold(tree, |tree, cpu| tree.cpu(shape, cpu))
    }

    fn cpu(self, shape: Shape, cpu: u32) -> Tree {
        let here = format!("sys/devices/system/cpu/cpu{cpu}");
        let core = cpu % shape.cores();
        let siblings = shape.of_cores(|other| other == core).to_string();
        let cache = shape.of_cores(|other| other / shape.cores_per_cache == core / shape.cores_per_cache);
        self.file(&format!("{here}/topology/thread_siblings_list"), &siblings)
            .file(
                &format!("{here}/topology/physical_package_id"),
                &(core / shape.cores_per_socket).to_string(),
            )
            .file(&format!("{here}/cache/index0/level"), "1")
            .file(&format!("{here}/cache/index0/shared_cpu_list"), &siblings)
            .file(&format!("{here}/cache/index3/level"), "3")
            .file(&format!("{here}/cache/index3/shared_cpu_list"), &cache.to_string())
    }

    /// An interface on a device at this path under /sys/devices.
    pub(crate) fn nic(self, name: &str, device: &str, driver: &str, rx: u32, tx: u32) -> Tree {
        let address = device.rsplit('/').next().expect("an address");
        let here = format!("sys/devices/{device}/net/{name}");
        self.link(&format!("sys/class/net/{name}"), &format!("../../devices/{device}/net/{name}"))
            .link(&format!("{here}/device"), &format!("../../../{address}"))
            .link(&format!("sys/devices/{device}/driver"), &format!("../../bus/drivers/{driver}"))
            .interface(&here, rx, tx)
    }

    /// An interface without a device: a bond, a VLAN.
    pub(crate) fn virtual_nic(self, name: &str, kind: &str, lower: &[&str]) -> Tree {
        let here = format!("sys/devices/virtual/net/{name}");
        let tree = self
            .link(&format!("sys/class/net/{name}"), &format!("../../devices/virtual/net/{name}"))
            .file(&format!("{here}/uevent"), &format!("DEVTYPE={kind}\nINTERFACE={name}"))
            .interface(&here, 1, 1);
        lower
            .iter()
            .fold(tree, |tree, lower| tree.link(&format!("{here}/lower_{lower}"), &format!("../{lower}")))
    }

    fn interface(self, here: &str, rx: u32, tx: u32) -> Tree {
        let mut tree = self
            .file(&format!("{here}/type"), "1")
            .file(&format!("{here}/operstate"), "up")
            .file(&format!("{here}/flags"), "0x1003")
            .file(&format!("{here}/speed"), "-1")
            .file(&format!("{here}/statistics/rx_packets"), "1000")
            .file(&format!("{here}/statistics/rx_dropped"), "0");
        for queue in 0..rx {
            tree = tree
                .file(&format!("{here}/queues/rx-{queue}/rps_cpus"), "0")
                .file(&format!("{here}/queues/rx-{queue}/rps_flow_cnt"), "0");
        }
        for queue in 0..tx {
            let path = format!("{here}/queues/tx-{queue}");
            // With one queue, reading xps_cpus fails with ENOENT.
            tree = match tx {
                1 => tree.file(&format!("{path}/tx_timeout"), "0"),
                _ => tree.file(&format!("{path}/xps_cpus"), &CpuSet::from_iter([queue]).mask()),
            };
        }
        tree
    }

    /// An NVMe disk whose queues have these interrupts, the first of them for administration.
    pub(crate) fn nvme(self, number: u32, first_irq: u32, queues: u32) -> Tree {
        let block = format!("sys/block/nvme{number}n1/queue");
        let mut tree = self
            .file(&format!("{block}/rotational"), "0")
            .file(&format!("{block}/scheduler"), "[none] mq-deadline kyber")
            .file(&format!("{block}/nomerges"), "0")
            .file(&format!("{block}/read_ahead_kb"), "128")
            .file(&format!("{block}/nr_requests"), "1023")
            .file(&format!("{block}/rq_affinity"), "1")
            .file(&format!("{block}/io_poll"), "0")
            .file(&format!("{block}/write_cache"), "write through")
            .file(&format!("sys/block/nvme{number}n1/nvme{number}n1p1/partition"), "1");
        for queue in 0..=queues {
            let irq = first_irq + queue;
            let cpu = CpuSet::from_iter([queue.saturating_sub(1)]);
            tree = tree
                .file(&format!("sys/class/nvme/nvme{number}/device/msi_irqs/{irq}"), "msix")
                .interrupt(irq, &format!("nvme{number}q{queue}"), &cpu.to_string(), &[]);
        }
        tree
    }

    /// An interrupt of a device at this path under /sys/devices, which one CPU takes.
    pub(crate) fn message_interrupt(self, device: &str, irq: u32, handler: &str, cpu: u32) -> Tree {
        self.file(&format!("sys/devices/{device}/msi_irqs/{irq}"), "msix").interrupt(
            irq,
            handler,
            &cpu.to_string(),
            &[],
        )
    }

    /// Takes away what is at this path.
    pub(crate) fn without(self, path: &str) -> Tree {
        std::fs::remove_dir_all(self.path.join(path)).expect("remove a directory");
        self
    }

    /// An interrupt as /sys and /proc show it since 4.9.
    pub(crate) fn interrupt(self, irq: u32, handler: &str, affinity: &str, counts: &[u64]) -> Tree {
        let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
        let mask = CpuSet::parse_list(affinity).expect("a list of CPUs").mask();
        self.file(&format!("sys/kernel/irq/{irq}/actions"), handler)
            .file(&format!("sys/kernel/irq/{irq}/per_cpu_count"), &counts.join(","))
            .file(&format!("proc/irq/{irq}/smp_affinity"), &mask)
            .file(&format!("proc/irq/{irq}/smp_affinity_list"), affinity)
            .file(&format!("proc/irq/{irq}/effective_affinity_list"), affinity)
    }

    /// softnet_stat with this many columns: `processed` of each of these CPUs is 0x100 plus its number.
    pub(crate) fn softnet(self, cpus: &CpuSet, columns: usize) -> Tree {
        let mut text = String::new();
        for cpu in cpus.iter() {
            let mut row = [0; 15];
            row[0] = 0x100 + cpu;
            row[12] = cpu;
            let words: Vec<String> = row[..columns].iter().map(|word| format!("{word:08x}")).collect();
            writeln!(text, "{}", words.join(" ")).expect("write to a string");
        }
        self.file("proc/net/softnet_stat", text.trim_end())
    }

    /// A process of one thread, which may run on these CPUs.
    pub(crate) fn process(self, pid: u32, name: &str, cgroup: &str, cpus: &str) -> Tree {
        let task = format!("proc/{pid}/task/{pid}");
        // The kernel keeps 15 bytes of a name.
        let name = &name[..name.len().min(15)];
        self.file(&format!("proc/{pid}/comm"), name)
            .file(&format!("proc/{pid}/cgroup"), cgroup)
            .file(&format!("proc/{pid}/maps"), "7f00-7f01 r-xp 0 08:01 9 /usr/lib/libjemalloc.so.2")
            .file(
                &format!("proc/{pid}/smaps_rollup"),
                "00-ff ---p 0 00:00 0 [rollup]\nRss: 2048 kB\nAnonHugePages: 1024 kB\nSwap: 0 kB\nSwapPss: 9 kB",
            )
            .file(&format!("{task}/comm"), name)
            .file(&format!("{task}/stat"), &stat(pid, name, 0, 0))
            .file(&format!("{task}/status"), &format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}"))
            .file(&format!("{task}/schedstat"), "5000 700 60")
    }

    /// Such a process with SCHED_FIFO, of which a page is in swap.
    pub(crate) fn realtime_and_swapped(self, pid: u32, name: &str) -> Tree {
        self.file(&format!("proc/{pid}/task/{pid}/stat"), &stat(pid, name, 5, 1)).file(
            &format!("proc/{pid}/smaps_rollup"),
            "00-ff ---p 0 00:00 0 [rollup]\nRss: 2048 kB\nAnonHugePages: 1024 kB\nSwap: 4 kB\nSwapPss: 9 kB",
        )
    }
}

/// /proc/PID/stat with a real-time priority and a policy, and zeros.
fn stat(pid: u32, name: &str, priority: u32, policy: u32) -> String {
    let fields = (3..=52).map(|field| match field {
        3 => "S".to_owned(),
        40 => priority.to_string(),
        41 => policy.to_string(),
        _ => "0".to_owned(),
    });
    format!("{pid} ({name}) {}", fields.collect::<Vec<_>>().join(" "))
}

impl Drop for Tree {
    fn drop(&mut self) {
        // What is left behind in a temporary directory is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
