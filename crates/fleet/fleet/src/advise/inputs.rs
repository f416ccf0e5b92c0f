//! Everything that advice is computed from, but the shapes: and a list of it, so that each figure can be changed alone.

use super::workload::SPARE_SHARE_MAX;
use super::{AdviceAssumptions, CacheWorkload, InputFigure, RequestCosts};

/// Workload, costs and assumptions.
#[derive(Clone, Debug, PartialEq)]
pub struct AdviceInputs {
    /// What is asked for.
    pub workload: CacheWorkload,
    /// What it costs.
    pub costs: RequestCosts,
    /// What is assumed where nothing is measured.
    pub assumptions: AdviceAssumptions,
}

/// One figure among them.
pub struct NamedInput<'a> {
    /// As files spell it.
    pub name: &'static str,
    /// How to know it better.
    pub measure: &'static str,
    /// The least that it can be: 1 for what comes together.
    pub least: f64,
    /// The most that it can be: 1 for shares.
    pub most: f64,
    /// The figure.
    pub figure: &'a mut InputFigure,
}

const OF_WORKLOAD: &str = "ask a running server: `evenkeel advise --server`";
const OF_COSTS: &str = "`evenkeel lab run experiments/costs.toml` on a host of this shape";
const OF_SERVE: &str = "`evenkeel lab run experiments/serve.toml` on a host of this shape";
const OF_NETWORK: &str = "`evenkeel lab run experiments/network.toml` on a host of this shape";
const OF_FLASH: &str = "`evenkeel lab run experiments/flash-vs-extstore.toml` on a host of this shape";
const OF_MEMORY: &str = "`evenkeel lab run experiments/memory-per-item.toml`";
const OF_FLASH_MEMORY: &str = "`evenkeel lab run experiments/flash-memory.toml`";
const OF_LOAD: &str = "`evenkeel load --search` with the workload on a host of this shape";
const BY_CHOICE: &str = "it is a choice: what is lost if it is wrong?";

impl AdviceInputs {
    /// All figures, in the order of their files.
    pub fn figures(&mut self) -> Vec<NamedInput<'_>> {
        let Self { workload, costs, assumptions } = self;
        let mut all = of_workload(workload);
        all.extend(of_costs(costs));
        all.extend(of_assumptions(assumptions));
        all
    }

    /// Those that are no workload's.
    pub fn costs_and_assumptions(&mut self) -> Vec<NamedInput<'_>> {
        let mut all = of_costs(&mut self.costs);
        all.extend(of_assumptions(&mut self.assumptions));
        all
    }
}

fn input<'a>(
    name: &'static str,
    measure: &'static str,
    most: f64,
    figure: &'a mut InputFigure,
) -> NamedInput<'a> {
    let least = if matches!(name, "pipeline" | "multiget_keys" | "spike") { 1.0 } else { 0.0 };
    NamedInput { name, measure, least, most, figure }
}

fn of_workload(workload: &mut CacheWorkload) -> Vec<NamedInput<'_>> {
    const ANY: f64 = f64::INFINITY;
    let mut all = vec![
        input("get", OF_WORKLOAD, ANY, &mut workload.get),
        input("set", OF_WORKLOAD, ANY, &mut workload.set),
        input("delete", OF_WORKLOAD, ANY, &mut workload.delete),
        input("multiget", OF_WORKLOAD, ANY, &mut workload.multiget),
        input("multiget_keys", OF_WORKLOAD, ANY, &mut workload.multiget_keys),
        input(
            "pipeline",
            "packets in of a busy server's network card for each of its requests",
            ANY,
            &mut workload.pipeline,
        ),
        input("hit_ratio", OF_WORKLOAD, 1.0, &mut workload.hit_ratio),
        input("key_bytes", OF_WORKLOAD, ANY, &mut workload.key_bytes),
        input("value_bytes", OF_WORKLOAD, ANY, &mut workload.value_bytes),
        input("count", OF_WORKLOAD, ANY, &mut workload.items),
        input("p99_ms", BY_CHOICE, ANY, &mut workload.p99_ms),
        input("tls_share", OF_WORKLOAD, 1.0, &mut workload.tls_share),
        input("udp_share", OF_WORKLOAD, 1.0, &mut workload.udp_share),
        input("clients", OF_WORKLOAD, ANY, &mut workload.connections),
        input("largest_zone_share", BY_CHOICE, SPARE_SHARE_MAX, &mut workload.spare_share),
        input("headroom", BY_CHOICE, 1.0, &mut workload.headroom),
        input(
            "spike",
            "seconds of the busiest minute: `evenkeel top` of a running server",
            ANY,
            &mut workload.spike,
        ),
    ];
    const TRACE: &str = "`evenkeel lab run experiments/trace.toml` with a trace of the workload";
    all.extend(workload.hot_items.as_mut().map(|hot| input("hot_items", TRACE, 1.0, hot)));
    all.extend(workload.hot_hits.as_mut().map(|hot| input("hot_hits", TRACE, 1.0, hot)));
    let backend = workload.backend_usd_per_million.as_mut();
    all.extend(backend.map(|usd| input("usd_per_million_misses", "the backend's bill", ANY, usd)));
    all
}

fn of_costs(costs: &mut RequestCosts) -> Vec<NamedInput<'_>> {
    const ANY: f64 = f64::INFINITY;
    vec![
        input("clock_ghz", OF_COSTS, ANY, &mut costs.clock_ghz),
        input("get_us", OF_COSTS, ANY, &mut costs.get_us),
        input("get_of_16_us", OF_COSTS, ANY, &mut costs.get_of_16_us),
        input("get_4k_us", OF_COSTS, ANY, &mut costs.get_4k_us),
        input("get_64k_us", OF_COSTS, ANY, &mut costs.get_64k_us),
        input("set_us", OF_COSTS, ANY, &mut costs.set_us),
        input("set_of_16_us", OF_COSTS, ANY, &mut costs.set_of_16_us),
        input("set_4k_us", OF_COSTS, ANY, &mut costs.set_4k_us),
        input("set_64k_us", OF_COSTS, ANY, &mut costs.set_64k_us),
        input("delete_us", OF_COSTS, ANY, &mut costs.delete_us),
        input("multiget_16_us", OF_COSTS, ANY, &mut costs.multiget_16_us),
        input("multiget_100_us", OF_COSTS, ANY, &mut costs.multiget_100_us),
        input("tls_get_us", OF_COSTS, ANY, &mut costs.tls_get_us),
        input("tls_get_of_16_us", OF_COSTS, ANY, &mut costs.tls_get_of_16_us),
        input("tls_get_4k_us", OF_COSTS, ANY, &mut costs.tls_get_4k_us),
        input("tls_get_64k_us", OF_COSTS, ANY, &mut costs.tls_get_64k_us),
        input("udp_get_us", OF_COSTS, ANY, &mut costs.udp_get_us),
        input("flash_get_us", OF_COSTS, ANY, &mut costs.flash_get_us),
        input("record_bytes", OF_MEMORY, ANY, &mut costs.record_bytes),
        input("index_bytes", OF_MEMORY, ANY, &mut costs.index_bytes),
        input("flash_item_bytes", OF_FLASH_MEMORY, ANY, &mut costs.flash_item_bytes),
        input(
            "flash_write_amplification",
            "`evenkeel lab run experiments/flash-amplification.toml`",
            ANY,
            &mut costs.flash_write_amplification,
        ),
        input("disk_reads_per_read", OF_FLASH, ANY, &mut costs.disk_reads_per_read),
        input("disk_writes_per_set", OF_FLASH, ANY, &mut costs.disk_writes_per_set),
        input(
            "flash_p99_us",
            "`evenkeel lab run experiments/flash-mix.toml` on a host of this shape",
            ANY,
            &mut costs.flash_p99_us,
        ),
    ]
}

fn of_assumptions(assumptions: &mut AdviceAssumptions) -> Vec<NamedInput<'_>> {
    const ANY: f64 = f64::INFINITY;
    vec![
        input("clock_exponent", OF_SERVE, ANY, &mut assumptions.clock_exponent),
        input("work_per_clock", OF_SERVE, ANY, &mut assumptions.work_per_clock),
        input("work_per_clock_across", OF_SERVE, ANY, &mut assumptions.work_per_clock_across),
        input(
            "unknown_clock_ghz",
            "the vendor's page, for the user's own catalogue",
            ANY,
            &mut assumptions.unknown_clock_ghz,
        ),
        input("burst_requests", OF_LOAD, ANY, &mut assumptions.burst_requests),
        input("cpu_ceiling", OF_LOAD, 1.0, &mut assumptions.cpu_ceiling),
        input(
            "queue_cpu_share",
            "`evenkeel tune check` of a busy host: CPU 0 against the others",
            1.0,
            &mut assumptions.queue_cpu_share,
        ),
        input(
            "real_time_gain",
            "`evenkeel lab run experiments/sched-fifo.toml`",
            ANY,
            &mut assumptions.real_time_gain,
        ),
        input(
            "host_memory_gib",
            "`MemAvailable` of an idle host of this shape",
            ANY,
            &mut assumptions.host_memory_gib,
        ),
        input(
            "host_memory_share",
            "`MemAvailable` of an idle host of this shape",
            0.9,
            &mut assumptions.host_memory_share,
        ),
        input(
            "connection_bytes",
            "`evenkeel lab run experiments/idle.toml`",
            ANY,
            &mut assumptions.connection_bytes,
        ),
        input(
            "tls_connection_bytes",
            "`evenkeel lab run experiments/idle.toml`",
            ANY,
            &mut assumptions.tls_connection_bytes,
        ),
        input(
            "memory_fill",
            "`evenkeel lab run experiments/density.toml`",
            1.0,
            &mut assumptions.memory_fill,
        ),
        input("disk_fill", BY_CHOICE, 1.0, &mut assumptions.disk_fill),
        input("usual_hot_items", "`hot_items` of the workload", 1.0, &mut assumptions.hot_items),
        input("usual_hot_hits", "`hot_hits` of the workload", 1.0, &mut assumptions.hot_hits),
        input("packet_header_bytes", OF_NETWORK, ANY, &mut assumptions.packet_header_bytes),
        input("reply_bytes", OF_NETWORK, ANY, &mut assumptions.reply_bytes),
    ]
}
