//! Demand of a workload on all hosts together, and the limits of one host of a shape.

use super::assumptions::{DISK_PAGE_BYTES, FLASH_INDEX_SHARE_MAX, REAL_TIME_CEILING_MAX, SEGMENT_BYTES};
use super::ceiling::{WorkerQueue, lognormal_variation};
use super::{AdviceInputs, HostShape};

/// Where the items of a cluster are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemsPlace {
    /// All in memory.
    Memory,
    /// Hot ones in memory, the others on local disks.
    Flash,
}

/// What a workload asks of all hosts together, each second unless said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// CPU time at the clock of the costs, in µs.
    pub(super) cpu_us: f64,
    /// In and out.
    pub(super) packets: f64,
    /// The larger of in and out.
    pub(super) wire_bytes: f64,
    /// Bytes of memory, with the index of items on flash; no rate.
    pub(super) memory_bytes: f64,
    /// Of these the index of items on flash; no rate.
    pub(super) flash_index_bytes: f64,
    /// Bytes on disks; no rate.
    pub(super) disk_bytes: f64,
    pub(super) disk_reads: f64,
    pub(super) disk_writes: f64,
    pub(super) disk_read_and_written_bytes: f64,
    /// The share of requests that wait for a disk.
    pub(super) flash_hit_share: f64,
    /// The squared coefficient of variation of the times of requests.
    pub(super) variation: f64,
    /// Requests.
    pub(super) requests: f64,
}

impl Demand {
    /// Of these inputs.
    pub(super) fn of(inputs: &AdviceInputs, place: ItemsPlace) -> Demand {
        let AdviceInputs { workload, costs, assumptions } = inputs;
        let (key, value) = (workload.key_bytes.value, workload.value_bytes.value);
        let (keys_read, sets) = (workload.keys_read(), workload.set.value);
        let hits = keys_read * workload.hit_ratio.value;
        let is_on_flash = place == ItemsPlace::Flash;
        let share =
            |of: &Option<super::InputFigure>, or: &super::InputFigure| of.as_ref().unwrap_or(or).value;
        let hot_items = if is_on_flash { share(&workload.hot_items, &assumptions.hot_items) } else { 1.0 };
        let hot_hits = if is_on_flash { share(&workload.hot_hits, &assumptions.hot_hits) } else { 1.0 };
        let flash_hits = hits * (1.0 - hot_hits);

        let record = rounded(costs.record_bytes.value + key + value, RECORD_ALIGN);
        let in_memory = workload.items.value * hot_items;
        let on_flash = workload.items.value - in_memory;
        let flash_index_bytes = on_flash * costs.flash_item_bytes.value;
        let item_on_flash = key + value + costs.record_bytes.value;

        let requests = workload.requests();
        let (bytes_in, bytes_out, packets) = traffic(inputs, hits);
        // Reads of whole pages; an item begins anywhere within one: on average these are a page more than its bytes.
        let page_bytes = item_on_flash + DISK_PAGE_BYTES;
        // What is set leaves memory one day, and goes to flash unless it was overwritten; what is missed is set again by `set`.
        let written =
            if is_on_flash { sets * item_on_flash * costs.flash_write_amplification.value } else { 0.0 };
        let header = assumptions.packet_header_bytes.value;
        Demand {
            cpu_us: cpu_us(inputs, flash_hits),
            packets: packets.0 + packets.1,
            wire_bytes: (bytes_in + packets.0 * header).max(bytes_out + packets.1 * header),
            memory_bytes: in_memory * (record + costs.index_bytes.value) + flash_index_bytes,
            flash_index_bytes,
            disk_bytes: on_flash * item_on_flash,
            disk_reads: flash_hits * costs.disk_reads_per_read.value,
            disk_writes: sets * costs.disk_writes_per_set.value,
            disk_read_and_written_bytes: flash_hits * costs.disk_reads_per_read.value * page_bytes + written,
            flash_hit_share: flash_hits / requests,
            variation: variation(inputs),
            requests,
        }
    }
}

/// Records begin at multiples of this many bytes.
const RECORD_ALIGN: f64 = 4.0;

fn rounded(bytes: f64, to: f64) -> f64 {
    (bytes / to).ceil() * to
}

/// Requests of one class.
pub(super) struct ClassDemand {
    /// Per second.
    pub(super) per_s: f64,
    /// CPU time of each, in µs.
    pub(super) us: f64,
}

/// The classes of a workload whose items are in memory.
pub(super) fn classes(inputs: &AdviceInputs) -> Vec<ClassDemand> {
    let AdviceInputs { workload, costs, .. } = inputs;
    let (value, together) = (workload.value_bytes.value, workload.pipeline.value);
    let (hit, tls) = (workload.hit_ratio.value, workload.tls_share.value);
    let gets = workload.get.value;
    let udp_gets = gets * workload.udp_share.value;
    let keys = workload.multiget_keys.value;
    // A miss has no value to send.
    let get = |together| hit * costs.get(value, together) + (1.0 - hit) * costs.get(0.0, together);
    let encrypted = |bytes, together| tls * costs.tls(bytes, together);
    vec![
        ClassDemand { per_s: gets - udp_gets, us: get(together) + encrypted(value * hit, together) },
        ClassDemand {
            per_s: udp_gets,
            us: (get(1.0) + costs.udp()).max(0.0) + encrypted(value * hit, together),
        },
        ClassDemand {
            per_s: workload.set.value,
            us: costs.set(value, together) + encrypted(value, together),
        },
        ClassDemand { per_s: workload.delete.value, us: costs.delete(together) + encrypted(0.0, together) },
        ClassDemand {
            per_s: workload.multiget.value,
            us: costs.multiget(keys, value * hit) + encrypted(keys * value * hit, together),
        },
    ]
}

/// CPU time of all requests.
fn cpu_us(inputs: &AdviceInputs, flash_hits: f64) -> f64 {
    let in_memory: f64 = classes(inputs).iter().map(|class| class.per_s * class.us).sum();
    in_memory + flash_hits * inputs.costs.flash()
}

/// Bytes in and out, and packets in and out.
fn traffic(inputs: &AdviceInputs, hits: f64) -> (f64, f64, (f64, f64)) {
    let AdviceInputs { workload, assumptions, .. } = inputs;
    let (key, value) = (workload.key_bytes.value, workload.value_bytes.value);
    let around = assumptions.reply_bytes.value;
    let requests = workload.requests();
    let sets = workload.set.value;
    let bytes_in =
        workload.keys_read() * key + sets * (key + value) + workload.delete.value * key + requests * around;
    let bytes_out = hits * (key + value + around) + requests * around;
    // What comes together shares packets; what is longer than one takes several, and the other side acknowledges every second.
    let batches = requests / workload.pipeline.value;
    let (full_in, full_out) = (bytes_in / SEGMENT_BYTES, bytes_out / SEGMENT_BYTES);
    let acknowledged = |full: f64| ((full - batches) / 2.0).max(0.0);
    let packets_in = batches.max(full_in) + acknowledged(full_out);
    let packets_out = batches.max(full_out) + acknowledged(full_in);
    (bytes_in, bytes_out, (packets_in, packets_out))
}

/// Bytes on the wire in and out together, headers included.
#[cfg(test)]
pub(super) fn wire_bytes_both_ways(inputs: &AdviceInputs) -> f64 {
    let hits = inputs.workload.keys_read() * inputs.workload.hit_ratio.value;
    let (bytes_in, bytes_out, packets) = traffic(inputs, hits);
    bytes_in + bytes_out + (packets.0 + packets.1) * inputs.assumptions.packet_header_bytes.value
}

/// Times of requests vary as exponential ones at least, since each class has its own, and with the sizes of values beyond that.
fn variation(inputs: &AdviceInputs) -> f64 {
    let AdviceInputs { workload, costs, .. } = inputs;
    let value = workload.value_bytes.value;
    let Some(p99) = workload.value_p99_bytes else { return 1.0 };
    let of_bytes = costs.get(value, 1.0) - costs.get(0.0, 1.0);
    let share = of_bytes / costs.get(value, 1.0);
    1.0 + share * share * lognormal_variation(value, p99)
}

/// What one host of a shape has.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostLimits {
    /// CPU time per second at the clock of the costs that may be used, in µs.
    pub(super) cpu_us: f64,
    /// The share of the CPUs' time that this is.
    pub(super) ceiling: f64,
    /// Bytes for items and index.
    pub(super) memory_bytes: f64,
    pub(super) flash_index_bytes: f64,
    pub(super) disk_bytes: Option<f64>,
}

impl HostLimits {
    /// Of a host of this shape under this demand.
    pub(super) fn of(shape: &HostShape, inputs: &AdviceInputs, demand: &Demand) -> HostLimits {
        let AdviceInputs { workload, costs, assumptions } = inputs;
        let clock = shape.clock_ghz.unwrap_or(assumptions.unknown_clock_ghz.value);
        let per_clock = match shape.architecture == costs.architecture {
            true => assumptions.work_per_clock.value,
            false => assumptions.work_per_clock_across.value,
        };
        let speed = (clock / costs.clock_ghz.value).powf(assumptions.clock_exponent.value) * per_clock;
        let ceiling = ceiling(shape, inputs, demand, speed);
        let host_bytes = shape.memory_bytes() * (1.0 - assumptions.host_memory_share.value)
            - assumptions.host_memory_gib.value * (1_u64 << 30) as f64;
        let connection = assumptions.connection_bytes.value
            + workload.tls_share.value * assumptions.tls_connection_bytes.value;
        let cache_bytes = (host_bytes - workload.connections.value * connection).max(0.0);
        HostLimits {
            cpu_us: f64::from(shape.vcpus) * 1e6 * speed * ceiling,
            ceiling,
            memory_bytes: cache_bytes * assumptions.memory_fill.value,
            flash_index_bytes: cache_bytes * FLASH_INDEX_SHARE_MAX,
            disk_bytes: shape.disk_bytes().map(|bytes| bytes * assumptions.disk_fill.value),
        }
    }
}

/// The share of the CPUs' time that may be used at the latency target.
fn ceiling(shape: &HostShape, inputs: &AdviceInputs, demand: &Demand, speed: f64) -> f64 {
    let AdviceInputs { workload, costs, assumptions } = inputs;
    let request_us = demand.cpu_us / demand.requests / speed;
    let queue = WorkerQueue {
        request_us,
        // What comes in one pipeline comes at once.
        burst: assumptions.burst_requests.value.max(workload.pipeline.value),
        variation: demand.variation,
        // What a CPU stops for is in `cpu_ceiling`.
        stopped: 0.0,
    };
    // One in a hundred requests decides: if as many wait for a disk, the queue has what the disk leaves of the time.
    let disk_us = match demand.flash_hit_share > 0.01 {
        true => shape.disk_read_p99_us.unwrap_or(costs.flash_p99_us.value),
        false => 0.0,
    };
    let wait_us = workload.p99_ms.value * 1e3 - disk_us - request_us;
    let used = queue.use_max(wait_us).min(assumptions.cpu_ceiling.value);
    match workload.is_real_time {
        true => (used * assumptions.real_time_gain.value).min(REAL_TIME_CEILING_MAX),
        false => used,
    }
}
