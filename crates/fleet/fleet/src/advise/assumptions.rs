//! Assumptions of the model where nothing is measured: each figure with its range and its reason. docs/advise/model.md has them, too.

use super::InputFigure;

/// Assumptions.
#[derive(Clone, Debug, PartialEq)]
pub struct AdviceAssumptions {
    /// How CPU time follows the clock: 1, a CPU with twice the clock takes half the time; 0, the same time.
    pub clock_exponent: InputFigure,
    /// Work that a CPU of a shape does per clock, as a multiple of that of the machine whose costs are used.
    pub work_per_clock: InputFigure,
    /// The same, of the other instruction set.
    pub work_per_clock_across: InputFigure,
    /// The clock of a shape whose clock is not known, in GHz.
    pub unknown_clock_ghz: InputFigure,
    /// Requests that arrive at one worker at once.
    pub burst_requests: InputFigure,
    /// The share of a CPU that a server may use, however relaxed the target.
    pub cpu_ceiling: InputFigure,
    /// The share of a request's CPU time on the CPU of the queue, where packets are not spread.
    pub queue_cpu_share: InputFigure,
    /// What real-time priority does to the share of a CPU that may be used.
    pub real_time_gain: InputFigure,
    /// Memory of a host that is not for the cache, in GiB.
    pub host_memory_gib: InputFigure,
    /// The share of a host's memory that is not for the cache besides.
    pub host_memory_share: InputFigure,
    /// Bytes of memory of a connection, the kernel's for it included.
    pub connection_bytes: InputFigure,
    /// The same, in addition, of one over TLS.
    pub tls_connection_bytes: InputFigure,
    /// The share of a cache's memory that live items and the index take.
    pub memory_fill: InputFigure,
    /// The share of a disk that is used.
    pub disk_fill: InputFigure,
    /// Bytes of headers that a packet has on the wire.
    pub packet_header_bytes: InputFigure,
    /// The share of the items that memory serves beside flash, where a workload does not say it.
    pub hot_items: InputFigure,
    /// The share of hits that these take.
    pub hot_hits: InputFigure,
    /// Bytes of a value's line, of an END and the like, beside key and value.
    pub reply_bytes: InputFigure,
}

/// Linear. A request is system calls and the kernel's network stack for nine tenths (ARCHITECTURE.md), whose instructions and data are
/// in the CPU's own caches, which follow its clock. What waits for memory does not: at most the difference between a get among a
/// million keys and one among four (docs/lab/experiments/serve.md: 7.4 and 7.8 µs), and some misses of the kernel's; hence 0.7.
const CLOCK_EXPONENT: (f64, f64, f64) = (1.0, 0.7, 1.0);

/// The same. The costs are of an AMD EPYC of 2024 (family 26): CPUs that are seven years older did a third less per clock in public
/// benchmarks; newer ones do no more than a tenth more. Nothing of that is measured here, so the middle stays at 1.
const WORK_PER_CLOCK: (f64, f64, f64) = (1.0, 0.65, 1.1);

/// The same, and less sure: no cost was measured on another instruction set, and a vCPU of Arm is a whole core.
const WORK_PER_CLOCK_ACROSS: (f64, f64, f64) = (1.0, 0.6, 1.5);

/// Between the lowest (2.0) and the highest (3.9) sustained clocks that clouds publish for servers.
const UNKNOWN_CLOCK_GHZ: (f64, f64, f64) = (2.6, 2.0, 3.9);

/// A page of a web site asks for some tens of keys at once, and a router sends what is for one server together. Facebook's web servers
/// asked for 24 keys at the median and 95 at the 95th percentile (2013), which spread over servers, and over their workers: 16 of
/// several pages at once. As much as a connection that batches, and no more than the turn of one (256).
const BURST_REQUESTS: (f64, f64, f64) = (16.0, 4.0, 64.0);

/// A fifth of a CPU is left to what is no request: the agents of the host, logs, the interrupts of others, what the hypervisor takes, and
/// seconds that are busier than their minute. Operators set alarms from 70 to 85 %.
pub(super) const CPU_CEILING: (f64, f64, f64) = (0.8, 0.7, 0.85);

/// Pinterest, 2013: with one queue and 50,000 packets a second CPU 0 was full, and the other three together used 0.37 of one: 0.73 of
/// the work was where packets arrive, since a program is woken there.
const QUEUE_CPU_SHARE: (f64, f64, f64) = (0.73, 0.5, 0.9);

/// Pinterest, 2022: with SCHED_FIFO the ceiling of CPU use could be raised by a fifth.
const REAL_TIME_GAIN: (f64, f64, f64) = (1.2, 1.1, 1.25);

/// The kernel leaves a twentieth of each CPU to others than real-time threads (sched_rt_runtime_us of 950,000).
pub(super) const REAL_TIME_CEILING_MAX: f64 = 0.95;

/// Kernel, agents, logs, and the buffers of the workers: half a GiB on a small host that does nothing else, two with many agents.
const HOST_MEMORY_GIB: (f64, f64, f64) = (1.0, 0.5, 2.0);

/// Page tables, the kernel's own tables and its reserves grow with memory: 1.6 % for its array of pages alone (64 bytes for 4 KiB), and
/// what it keeps free. `-m auto` leaves about a tenth of a small group (docs/serve/guide.md).
const HOST_MEMORY_SHARE: (f64, f64, f64) = (0.05, 0.03, 0.1);

/// 250 to 400 bytes in the server (docs/serve/guide.md), and a socket with its file and timers in the kernel, whose buffers are empty
/// most of the time: some 4 KB; one of ten has a packet in it.
const CONNECTION_BYTES: (f64, f64, f64) = (5_000.0, 3_000.0, 20_000.0);

/// Keys, the state of a session and its pieces of a record.
const TLS_CONNECTION_BYTES: (f64, f64, f64) = (10_000.0, 5_000.0, 40_000.0);

/// Three segments of 1,024 are free, records of evicted keys take 1/256 (decision 0001), and the rest of what is lost is overwritten or
/// expired, and not reclaimed yet.
const MEMORY_FILL: (f64, f64, f64) = (0.95, 0.85, 0.99);

/// A tenth is left to the disk, as docs/serve/flash.md advises.
const DISK_FILL: (f64, f64, f64) = (0.9, 0.8, 0.95);

/// 20 for IPv4, 32 for TCP with time stamps, 14 for Ethernet.
const PACKET_HEADER_BYTES: (f64, f64, f64) = (66.0, 54.0, 86.0);

/// Four fifths of the uses are of one fifth of the items: the usual rule, between the published caches (Twitter's of 2020 have Zipf
/// exponents from 0.6 to 1.8).
const HOT: [(f64, f64, f64); 2] = [(0.2, 0.05, 0.4), (0.8, 0.6, 0.95)];

/// `VALUE`, flags, a length, line ends, `END`.
const REPLY_BYTES: (f64, f64, f64) = (30.0, 8.0, 40.0);

/// Bytes of a segment of TCP on a path with 1,500 bytes a packet, which is what leaves a cloud's network; within one, up to 9,001 are
/// possible, and packets are fewer.
pub(super) const SEGMENT_BYTES: f64 = 1448.0;

/// Bytes that a disk reads at least.
pub(super) const DISK_PAGE_BYTES: f64 = 4096.0;

/// The share of a cache's memory that the index of items on flash and the write buffers may have (docs/serve/flash.md).
pub(super) const FLASH_INDEX_SHARE_MAX: f64 = 0.89;

/// Hours of a month: 8,760 of a year ÷ 12.
pub const MONTH_HOURS: f64 = 730.0;

impl Default for AdviceAssumptions {
    fn default() -> Self {
        let assumed = |(value, low, high): (f64, f64, f64)| {
            InputFigure::assumed(value, low, high, "assumed: docs/advise/model.md")
        };
        Self {
            clock_exponent: assumed(CLOCK_EXPONENT),
            work_per_clock: assumed(WORK_PER_CLOCK),
            work_per_clock_across: assumed(WORK_PER_CLOCK_ACROSS),
            unknown_clock_ghz: assumed(UNKNOWN_CLOCK_GHZ),
            burst_requests: assumed(BURST_REQUESTS),
            cpu_ceiling: assumed(CPU_CEILING),
            queue_cpu_share: assumed(QUEUE_CPU_SHARE),
            real_time_gain: assumed(REAL_TIME_GAIN),
            host_memory_gib: assumed(HOST_MEMORY_GIB),
            host_memory_share: assumed(HOST_MEMORY_SHARE),
            connection_bytes: assumed(CONNECTION_BYTES),
            tls_connection_bytes: assumed(TLS_CONNECTION_BYTES),
            memory_fill: assumed(MEMORY_FILL),
            disk_fill: assumed(DISK_FILL),
            packet_header_bytes: assumed(PACKET_HEADER_BYTES),
            hot_items: assumed(HOT[0]),
            hot_hits: assumed(HOT[1]),
            reply_bytes: assumed(REPLY_BYTES),
        }
    }
}
