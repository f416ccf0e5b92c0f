//! A my.cnf fragment for a host: each line with its reason and the source of that.
//!
//! Pure. Only values that follow from the host: memory, CPUs, disks, limits of the kernel. Durability, character sets
//! and all other options are the application's and stay as they are. Options that not every server knows have the
//! prefix `loose_`, at which MySQL and MariaDB warn instead of refusing to start.

use std::fmt::Write;

use crate::observe::facts::{BlockDevice, Facts, Service, ServiceKind};

/// The first line, which identifies a file as ours.
pub const HEAD: &str = "# Made by `evenkeel tune plan --profile mysql --my-cnf`";

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The default directory of data.
const DATA: &str = "/var/lib/mysql";

/// The buffer pool's unit: chunks of 128 MiB (innodb_buffer_pool_chunk_size) in 8 instances, to a multiple of which
/// MySQL rounds up.
const POOL_STEP: u64 = GIB;

/// Writes per second that flushing may count on. A disk without rotation does more, but a cloud volume may be limited
/// to 3,000 of them (the smallest of Amazon's gp3), of which reads need a share.
const WRITES_PER_S: u64 = 2000;
/// The same for a rotating disk; the default of both servers before SSDs.
const WRITES_PER_S_ROTATING: u64 = 200;

/// Of a huge page on x86 and, with pages of 4 KiB, on ARM.
const HUGE_PAGE_BYTES: u64 = 2 * MIB;

const BACKLOG: u64 = 4096;
const OPEN_TABLES: u64 = 4000;
const OPEN_FILES: u64 = 16_384;
const KEPT_THREADS: u64 = 256;

/// The whole fragment.
pub fn fragment(facts: &Facts) -> String {
    let mut text = String::new();
    let server = facts.services.iter().find(|service| service.kind == ServiceKind::Mysql);
    let _ = writeln!(text, "{HEAD}");
    let _ = writeln!(
        text,
        "# for {} CPUs and {} MiB of memory, Linux {}. Read it, put it last (conf.d), restart, measure.\n\n[mysqld]",
        facts.online().len(),
        facts.memory_bytes / MIB,
        facts.kernel.release
    );
    for part in [memory(facts, server), disk(facts), cpus(facts), connections(facts), allocator(server)] {
        text.push_str(&part);
    }
    text
}

/// A line after its reason.
fn line(name: &str, value: impl std::fmt::Display, why: &str) -> String {
    format!("{}{name} = {value}\n", remark(why))
}

/// The column where comments end.
const COLUMNS_MAX: usize = 90;

/// Comment above an option, or in its place; line breaks are kept.
fn remark(what: &str) -> String {
    let mut text = String::new();
    for paragraph in what.lines() {
        let mut len = COLUMNS_MAX;
        for word in paragraph.split(' ') {
            len += 1 + word.chars().count();
            if len > COLUMNS_MAX {
                text.push_str("\n#");
                len = 2 + word.chars().count();
            }
            text.push(' ');
            text.push_str(word);
        }
    }
    text + "\n"
}

fn memory(facts: &Facts, server: Option<&Service>) -> String {
    let (memory, whose) = share(facts, server);
    let pool = match memory {
        0 => return remark("innodb_buffer_pool_size: how much memory there is could not be read."),
        // MySQL's own rule for a machine of its own (manual: innodb_dedicated_server).
        small if small < GIB => 128 * MIB,
        middle if middle <= 4 * GIB => middle / 2,
        large => large / 4 * 3,
    };
    let pool = if pool >= POOL_STEP { pool / POOL_STEP * POOL_STEP } else { pool / MIB * MIB };
    let mut text = line(
        "innodb_buffer_pool_size",
        format_args!("{}M", pool / MIB),
        &format!(
            "The share that innodb_dedicated_server takes (MySQL manual) of {whose}, in whole gigabytes because MySQL \
             rounds up to chunks times instances. What connections use comes on top."
        ),
    );
    // The manual's table for innodb_dedicated_server: by the size of the buffer pool.
    let log = match pool / GIB {
        0..8 => 512,
        8..=128 => 1024,
        _ => 2048,
    };
    let why = "Enough that checkpoints do not press; by the size of the buffer pool (MySQL manual: innodb_dedicated_server).";
    text += &line("loose_innodb_log_file_size", format_args!("{log}M"), why);
    let why = "The same where it has replaced innodb_log_file_size, of which there were two (MySQL 8.0.30).";
    text += &line("loose_innodb_redo_log_capacity", format_args!("{}M", 2 * log), why);
    if facts.cpus.iter().any(|cpu| cpu.node > 0) {
        let why =
            "Several NUMA nodes: without it the buffer pool fills one node, which then swaps (MySQL manual).";
        text += &line("loose_innodb_numa_interleave", "ON", why);
    }
    // A fiftieth on top for what the server allocates besides the pool in huge pages.
    let pages = (pool + pool / 50).div_ceil(HUGE_PAGE_BYTES);
    text += &match facts.sysctl("vm.nr_hugepages") {
        Some(reserved) if reserved >= pages => line(
            "large_pages",
            "ON",
            &format!(
                "{reserved} huge pages are reserved (vm.nr_hugepages), and the buffer pool needs {pages}; the unit needs \
                 LimitMEMLOCK=infinity (MySQL manual: large page support)."
            ),
        ),
        reserved => remark(&format!(
            "large_pages stays off: vm.nr_hugepages is {}, and the buffer pool would need {pages}. Fewer misses of the \
             TLB, but memory that nothing else can use.",
            reserved.map_or("unknown".to_owned(), |reserved| reserved.to_string())
        )),
    };
    text
}

/// The available memory, and its source.
fn share(facts: &Facts, server: Option<&Service>) -> (u64, String) {
    let limit =
        server.and_then(|server| server.memory_limit_bytes).filter(|limit| *limit < facts.memory_bytes);
    if let (Some(limit), Some(server)) = (limit, server) {
        return (limit, format!("the {} MiB that its cgroup {} may use", limit / MIB, server.cgroup));
    }
    let others = facts.services.iter().filter(|service| service.kind != ServiceKind::Mysql);
    let used: u64 = others.map(|other| other.resident_bytes).sum();
    let rest = facts.memory_bytes.saturating_sub(used);
    match used {
        0 => (rest, "all memory".to_owned()),
        _ => (rest, format!("the memory less the {} MiB that other data servers hold", used / MIB)),
    }
}

fn disk(facts: &Facts) -> String {
    let Some(disk) = data_disk(facts) else {
        return remark(&format!(
            "innodb_io_capacity, innodb_flush_neighbors: no disk was found under {DATA}."
        ));
    };
    let why = "Pages are in the buffer pool already; the kernel's copy would cost the memory twice (MySQL manual: \
               optimizing InnoDB disk I/O).";
    let mut text = line("innodb_flush_method", "O_DIRECT", why);
    let (neighbours, writes, what) = match turns(disk) {
        true => (1, WRITES_PER_S_ROTATING, "turns: neighbouring pages are written in one movement"),
        false => (0, WRITES_PER_S, "does not turn: a neighbouring page is no cheaper than another"),
    };
    let why = format!("{} {what} (MySQL manual).", disk.name);
    text += &line("innodb_flush_neighbors", neighbours, &why);
    let why = match turns(disk) {
        true => format!("What {} can be expected to write in a second.", disk.name),
        false => format!(
            "Writes per second of {} that flushing may count on: less than the 3,000 of the smallest cloud volume. \
             Measure yours with fio, and take half of what it sustains.",
            disk.name
        ),
    };
    text += &line("innodb_io_capacity", writes, &why);
    let why = "Twice that when flushing has fallen behind (MySQL manual: its default).";
    text + &line("innodb_io_capacity_max", 2 * writes, why)
}

/// Whether it rotates, as far as known: virtio's and Xen's disks report that they do unless they are configured
/// otherwise.
fn turns(disk: &BlockDevice) -> bool {
    disk.rotational && !["vd", "xvd"].iter().any(|prefix| disk.name.starts_with(prefix))
}

/// The disk with the file system that holds the data.
fn data_disk(facts: &Facts) -> Option<&BlockDevice> {
    let holds = |path: &str| path == "/" || path == DATA || DATA.starts_with(&format!("{path}/"));
    let mount =
        facts.mounts.iter().filter(|mount| holds(&mount.path)).max_by_key(|mount| mount.path.len())?;
    let device = mount.device.strip_prefix("/dev/")?;
    // The longest name that it begins with: `nvme0n1p1` is a part of `nvme0n1`, and `sda10` of `sda`.
    let disks = facts.disks.iter().filter(|disk| device.starts_with(&disk.name));
    disks.max_by_key(|disk| disk.name.len())
}

fn cpus(facts: &Facts) -> String {
    let cpus = facts.online().len();
    let threads = (cpus / 2).clamp(4, 64);
    let why = format!("Half of the {cpus} CPUs, at least 4 (MySQL 8.4's own rule).");
    let mut text = line("innodb_read_io_threads", threads, &why);
    text += &line(
        "innodb_write_io_threads",
        4,
        "Writes are asynchronous; 4 keep any disk busy (both manuals' default).",
    );
    text + &remark(&format!(
        "With many more busy connections than {cpus} CPUs, MariaDB serves them with fewer \
         threads:\nthread_handling = pool-of-threads\nthread_pool_size = {cpus}"
    ))
}

fn connections(facts: &Facts) -> String {
    let now = facts.sysctl("net.core.somaxconn");
    let cut = match now {
        Some(now) if now < BACKLOG => {
            format!(
                " Until net.core.somaxconn is raised (`--profile mysql` does), the kernel cuts it to {now}."
            )
        }
        _ => String::new(),
    };
    let why = format!("Connections that may wait to be accepted (MySQL manual: back_log).{cut}");
    let mut text = line("back_log", BACKLOG, &why);
    let why = "A connection that comes gets the thread of one that went (MariaDB's default).";
    text += &line("thread_cache_size", KEPT_THREADS, why);
    let why = "Open tables of all connections together; Opened_tables that grows asks for more (MySQL manual: its default).";
    text += &line("table_open_cache", OPEN_TABLES, why);
    let files = facts.sysctl("fs.nr_open").map_or(OPEN_FILES, |most| OPEN_FILES.min(most));
    let why = "Two files for each open table, and one for each connection (MySQL manual); the unit needs the same \
               LimitNOFILE.";
    text + &line("open_files_limit", files, why)
}

fn allocator(server: Option<&Service>) -> String {
    match server.map(|server| server.allocator.as_str()) {
        Some(allocator @ ("jemalloc" | "tcmalloc" | "mimalloc")) => {
            remark(&format!("It uses {allocator} already, which many threads do not wait for."))
        }
        _ => remark(
            "The C library's allocator makes many threads wait and returns little memory: Pinterest (2015) went to \
             jemalloc. In a drop-in of the unit (path as on Debian, package libjemalloc2):\n\
             [Service]\nEnvironment=LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::facts::Mount;
    use crate::observe::shapes::{ENA, Shape};

    fn host(cpus: u32, nodes: u32, memory_gib: u64, disk: &str, rotational: bool) -> Facts {
        let mut facts = Shape { cpus, threads: 1, nodes, queues: 1, irqs: ENA }.facts();
        facts.memory_bytes = memory_gib * GIB;
        facts.disks = vec![BlockDevice { name: disk.into(), rotational, ..BlockDevice::default() }];
        facts.mounts = vec![Mount { device: format!("/dev/{disk}"), path: "/".into(), ..Mount::default() }];
        facts
    }

    fn with(mut facts: Facts, service: Service) -> Facts {
        facts.services.push(service);
        facts
    }

    fn server() -> Service {
        Service { pid: 8, name: "mariadbd".into(), kind: ServiceKind::Mysql, ..Service::default() }
    }

    /// Among the options are these, as they are written.
    #[track_caller]
    fn check(facts: &Facts, wanted: &[&str]) {
        let text = fragment(facts);
        for line in wanted {
            assert!(text.lines().any(|other| other == *line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn the_buffer_pool_is_a_share_of_what_there_is() {
        check(
            &host(2, 1, 0, "sda", false),
            &["# innodb_buffer_pool_size: how much memory there is could not be read."],
        );
        check(
            &host(2, 1, 2, "sda", false),
            &["innodb_buffer_pool_size = 1024M", "loose_innodb_log_file_size = 512M"],
        );
        check(
            &host(2, 1, 64, "sda", false),
            &["innodb_buffer_pool_size = 49152M", "loose_innodb_log_file_size = 1024M"],
        );
        check(
            &host(2, 1, 244, "sda", false),
            &["innodb_buffer_pool_size = 187392M", "loose_innodb_redo_log_capacity = 4096M"],
        );
        let small = Facts { memory_bytes: 600 * MIB, ..host(1, 1, 1, "sda", false) };
        check(&small, &["innodb_buffer_pool_size = 128M"]);
    }

    #[test]
    fn a_cgroups_limit_and_other_servers_count() {
        let limited = Service { memory_limit_bytes: Some(16 * GIB), cgroup: "/db".into(), ..server() };
        let facts = with(host(8, 1, 64, "sda", false), limited);
        check(&facts, &["innodb_buffer_pool_size = 12288M"]);
        assert!(fragment(&facts).replace("\n# ", " ").contains("the 16384 MiB that its cgroup /db may use"));
        let cache = Service { kind: ServiceKind::Memcached, resident_bytes: 32 * GIB, ..server() };
        let facts = with(with(host(8, 1, 64, "sda", false), server()), cache);
        check(&facts, &["innodb_buffer_pool_size = 24576M"]);
    }

    #[test]
    fn disks_that_turn_are_written_otherwise() {
        check(
            &host(2, 1, 8, "sda", true),
            &["innodb_flush_neighbors = 1", "innodb_io_capacity = 200", "innodb_io_capacity_max = 400"],
        );
        check(&host(2, 1, 8, "nvme0n1", false), &["innodb_flush_neighbors = 0", "innodb_io_capacity = 2000"]);
        check(&host(2, 1, 8, "vda", true), &["innodb_flush_neighbors = 0"]);
        let mut facts = host(2, 1, 8, "sda", true);
        facts.disks.push(BlockDevice { name: "nvme0n1".into(), ..BlockDevice::default() });
        facts.mounts.push(Mount { device: "/dev/nvme0n1p1".into(), path: DATA.into(), ..Mount::default() });
        check(&facts, &["innodb_flush_neighbors = 0"]);
        check(
            &Facts::default(),
            &["# innodb_io_capacity, innodb_flush_neighbors: no disk was found under /var/lib/mysql."],
        );
    }

    #[test]
    fn threads_follow_the_cpus_and_nodes_are_interleaved() {
        check(&host(2, 1, 8, "sda", false), &["innodb_read_io_threads = 4"]);
        check(
            &host(96, 2, 768, "sda", false),
            &["innodb_read_io_threads = 48", "loose_innodb_numa_interleave = ON"],
        );
        assert!(!fragment(&host(2, 1, 8, "sda", false)).contains("numa_interleave"));
    }

    #[test]
    fn limits_of_the_kernel_are_named() {
        let mut facts = host(2, 1, 8, "sda", false);
        let mut set = |name: &str, value: &str| facts.sysctls.insert(name.into(), value.into());
        set("net.core.somaxconn", "128");
        set("vm.nr_hugepages", "0");
        set("fs.nr_open", "8192");
        check(&facts, &["back_log = 4096", "open_files_limit = 8192"]);
        let text = fragment(&facts).replace("\n# ", " ");
        assert!(text.contains("the kernel cuts it to 128") && text.contains("would need 3134"), "{text}");
        facts.sysctls.insert("vm.nr_hugepages".into(), "4000".into());
        check(&facts, &["large_pages = ON"]);
    }

    #[test]
    fn every_option_has_its_reason_above_it_and_no_line_is_long() {
        let text = fragment(&host(96, 2, 768, "sda", false));
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[1].contains(" = ") && !pair[1].starts_with('#')) {
            assert!(pair[0].starts_with("# "), "{}", pair[1]);
        }
        assert!(lines[3..].iter().all(|line| line.chars().count() <= COLUMNS_MAX), "{text}");
        assert!(!text.contains("\n\n\n"), "{text}");
    }

    #[test]
    fn an_allocator_is_named_unless_it_is_used() {
        let facts = host(2, 1, 8, "sda", false);
        assert!(fragment(&facts).contains("LD_PRELOAD"));
        let facts = with(facts, Service { allocator: "jemalloc".into(), ..server() });
        assert!(fragment(&facts).contains("It uses jemalloc already"));
    }
}
