//! Families that memcached_exporter does not have, under `evenkeel_`.

use std::ops::RangeInclusive;

use net::{Address, DriverChoice};
use protocol::discovery::DiscoveryList;
use stdx::clock::Now;
use stdx::exposition::{Exposition, Family, FamilyKind};
use store::FlashStatistics;

use crate::figures::histogram::TimeHistogram;
use crate::figures::service_times::{CommandClass, ServiceTimes};
use crate::shared::{EVENKEEL_VERSION, Figures, Shared};
use crate::watch::ReadableKey;
use ::hot_keys::HotKeys;

use FamilyKind::{Counter, Gauge, Histogram};

pub(super) fn write(shared: &Shared, figures: &Figures, now: Now, text: &mut Exposition) {
    text.family("evenkeel_build_info", Gauge, "The version, as a label.")
        .sample(&[("version", EVENKEEL_VERSION)], 1);
    memory(figures, text);
    if let Some(items) = shared.restored_items {
        let help = "Items that this server had when it started, of the one before it (-e, --takeover).";
        text.single("evenkeel_restored_items", Gauge, help, items);
    }
    requests(figures, text);
    evictions(shared, text);
    if let Some(flash) = &figures.flash {
        flash_tier(flash, figures.flash_reads, text);
    }
    listeners(shared, text);
    prefixes(shared, text);
    if shared.tls.is_some() {
        tls(shared, figures, text);
    }
    discovery(shared, text);
    service_times(shared, text);
    wait_times(shared, text);
    if shared.options.dumping {
        hot_keys(&HotKeys::read(&shared.hot_tables, now), text);
    }
    workers(shared, text);
    threads(text);
}

/// Bounds of the exported buckets: powers of two of a microsecond, from 4 µs to 4 s.
const TIME_BOUNDS_LOG2_US: RangeInclusive<u32> = 2..=22;

/// With `--cluster-file`.
fn discovery(shared: &Shared, text: &mut Exposition) {
    let Some(state) = shared.discovery() else { return };
    let list = state.list.as_deref();
    let revision = list.map_or(0, DiscoveryList::revision);
    let help = "Revision of the members that clients with auto-discovery are told; 0 before the first.";
    text.single("evenkeel_cluster_revision", Gauge, help, revision);
    let members = list.map_or(0, DiscoveryList::members);
    text.single(
        "evenkeel_cluster_members",
        Gauge,
        "Members that clients with auto-discovery are told.",
        members,
    );
    let help = "1 if these are what the file says, 0 if it cannot be used.";
    text.single("evenkeel_cluster_file_current", Gauge, help, u8::from(state.is_current));
    let help = "Contents of the file that could not be used.";
    text.single("evenkeel_cluster_file_refused_total", Counter, help, state.refusals);
}

fn service_times(shared: &Shared, text: &mut Exposition) {
    let help = "From the beginning of a worker's turn until its replies were given to the kernel; a command on several \
        keys counts for each.";
    let mut family = text.family("evenkeel_service_seconds", Histogram, help);
    for class in CommandClass::ALL {
        let histogram = ServiceTimes::histogram(&shared.service_times, class);
        write_histogram(&mut family, &[("class", class.name())], &histogram);
    }
}

fn wait_times(shared: &Shared, text: &mut Exposition) {
    let help = "From the arrival of input at this host, by the kernel's receive stamp, to the beginning of the worker's \
        turn, on one connection in 256.";
    write_histogram(&mut text.family("evenkeel_wait_seconds", Histogram, help), &[], &shared.waits());
}

fn write_histogram(family: &mut Family<'_>, labels: &[(&str, &str)], histogram: &TimeHistogram) {
    let bound = |log2: u32| (f64::from(1 << log2) / 1e6, histogram.below(1 << log2));
    let sum = histogram.sum_us as f64 / 1e6;
    family.histogram(labels, TIME_BOUNDS_LOG2_US.map(bound), sum, histogram.count());
}

fn memory(figures: &Figures, text: &mut Exposition) {
    let store = &figures.store;
    let segments = store
        .charged_bytes
        .saturating_sub(store.index_bytes + store.large_bytes + store.ghost_bytes + store.sample_bytes);
    let mut family =
        text.family("evenkeel_memory_bytes", Gauge, "Memory charged to the limit (-m), by its use.");
    family.sample(&[("use", "segments")], segments);
    family.sample(&[("use", "index")], store.index_bytes);
    family.sample(&[("use", "large")], store.large_bytes);
    family.sample(&[("use", "ghosts")], store.ghost_bytes);
    family.sample(&[("use", "sample")], store.sample_bytes);
    let help = "Bytes of segments that are garbage: of items that were deleted, replaced or copied.";
    text.single("evenkeel_dead_bytes", Gauge, help, store.segments.dead_bytes);
    let help = "Stored keys that had been evicted shortly before: more memory would have kept some of them.";
    text.single("evenkeel_ghost_hits_total", Counter, help, store.counts.ghost_hits);
    let help = "Values that were written over older ones of the same size.";
    text.single("evenkeel_overwritten_in_place_total", Counter, help, store.counts.overwritten_in_place);
    let policy = store.policy.policy.to_string();
    let mut family =
        text.family("evenkeel_policy_info", Gauge, "1, with how items are evicted (-o policy) as a label.");
    family.sample(&[("policy", &policy)], 1);
    let help = "How often a sample of the keys showed another policy to be better.";
    text.single("evenkeel_policy_changes_total", Counter, help, store.policy.changes);
    let help = "One key in so many is sampled for that; 0: none is.";
    text.single("evenkeel_sampled_one_in", Gauge, help, store.policy.sampled_one_in);
    let help = "Uses of sampled keys that the workers had no time for.";
    text.single("evenkeel_samples_lost_total", Counter, help, store.policy.lost);
    let help = "Segments that were emptied to make room.";
    text.single("evenkeel_segments_reclaimed_total", Counter, help, store.counts.segments_reclaimed);
    let help = "Evicted items that had been read lately: memory is short.";
    text.single("evenkeel_evicted_active_total", Counter, help, store.counts.evicted_active);
}

fn requests(figures: &Figures, text: &mut Exposition) {
    let Figures { totals, network, store, .. } = figures;
    let help = "Keys of gets that found an item which had expired or was flushed; they count as misses.";
    let mut family = text.family("evenkeel_stale_gets_total", Counter, help);
    family.sample(&[("reason", "expired")], store.counts.found_expired);
    family.sample(&[("reason", "flushed")], store.counts.found_flushed);
    text.single("evenkeel_meta_commands_total", Counter, "Meta commands of any kind.", totals.cmd_meta);
    text.single("evenkeel_auth_total", Counter, "Attempts to log in.", totals.auth_cmds);
    text.single("evenkeel_auth_errors_total", Counter, "Attempts to log in that failed.", totals.auth_errors);
    let help = "Connections closed because they were idle (-o idle_timeout).";
    text.single("evenkeel_idle_closed_total", Counter, help, network.idle_kicks);
    let mut family = text.family("evenkeel_datagrams_total", Counter, "Datagrams by what became of them.");
    family.sample(&[("outcome", "served")], totals.udp_requests);
    family.sample(&[("outcome", "refused")], totals.udp_refused);
    family.sample(&[("outcome", "malformed")], totals.udp_malformed);
    family.sample(&[("outcome", "limited")], totals.udp_limited);
    family.sample(&[("outcome", "dropped")], network.datagrams_dropped + totals.udp_dropped);
    // Requests: nobody has seen them but the kernel, which counts them in Udp.RcvbufErrors, too.
    family.sample(&[("outcome", "lost")], network.datagrams_overflowed);
    if let Some(frames) = &network.frames {
        let help = "Queues whose datagrams are taken below the sockets (--udp-xdp), by whether their frames are copied.";
        let mut family = text.family("evenkeel_udp_xdp_queues", Gauge, help);
        family.sample(&[("mode", "copy")], frames.queues - frames.copying_nothing);
        family.sample(&[("mode", "zerocopy")], frames.copying_nothing);
        let help = "Datagrams below the sockets; by_socket: replies that a socket had to send.";
        let mut family = text.family("evenkeel_udp_xdp_datagrams_total", Counter, help);
        family.sample(&[("outcome", "received")], frames.received);
        family.sample(&[("outcome", "sent")], frames.sent);
        family.sample(&[("outcome", "refused")], frames.refused);
        family.sample(&[("outcome", "by_socket")], frames.by_socket);
    }
}

fn evictions(shared: &Shared, text: &mut Exposition) {
    let idle = shared.store.evicted_idle();
    let help =
        "Evicted live items by the time since their last use: how long what is not used stays in the memory.";
    let mut below = 0;
    let bounded = &idle.counts[..idle.counts.len() - 1];
    let buckets = bounded.iter().enumerate().map(|(log2_s, count)| {
        below += count;
        (f64::from(1 << log2_s), below)
    });
    let buckets: Vec<(f64, u64)> = buckets.collect();
    let mut family = text.family("evenkeel_evicted_idle_seconds", Histogram, help);
    family.histogram(&[], buckets, idle.sum_s as f64, idle.counts.iter().sum());
}

/// What memcached's extstore does not count.
fn flash_tier(flash: &FlashStatistics, reads: u64, text: &mut Exposition) {
    let counts = &flash.counts;
    let help = "Items that were not written to flash: the settings exclude them, no write buffer or page was free, or the budget was spent.";
    let mut family = text.family("evenkeel_flash_not_written_total", Counter, help);
    family.sample(&[("reason", "not_admitted")], counts.not_admitted);
    family.sample(&[("reason", "no_room")], counts.refused);
    family.sample(&[("reason", "budget")], counts.over_budget);
    let help = "Items on flash that became misses: damaged, not readable or not writable, or a read that took too long.";
    let mut family = text.family("evenkeel_flash_lost_total", Counter, help);
    family.sample(&[("reason", "damaged")], counts.damaged);
    family.sample(&[("reason", "failed")], counts.lost.saturating_sub(counts.damaged));
    family.sample(&[("reason", "aborted")], counts.aborted);
    let help = "Reads and writes of write buffers and whole pages that the device refused.";
    let mut family = text.family("evenkeel_flash_errors_total", Counter, help);
    family.sample(&[("direction", "read")], counts.read_errors);
    family.sample(&[("direction", "write")], counts.write_errors);
    let help = "Bytes written to devices: of items, of items that are kept, and of the room between them.";
    text.single("evenkeel_flash_device_written_bytes_total", Counter, help, counts.device_bytes_written);
    let help = "Bytes of items that were written again because they had been used.";
    text.single("evenkeel_flash_rescued_bytes_total", Counter, help, counts.bytes_rescued);
    let help = "Items brought back to memory because they were used often.";
    text.single("evenkeel_flash_recached_total", Counter, help, counts.recached);
    let help = "Dropped items that had been used on flash: more flash would have kept them.";
    text.single("evenkeel_flash_evicted_used_total", Counter, help, counts.evicted_used);
    let help = "Write buffers that wait for their device.";
    text.single("evenkeel_flash_buffers_waiting", Gauge, help, flash.pieces_waiting);
    let help = "Reads under way.";
    text.single("evenkeel_flash_reads", Gauge, help, reads);
    let help = "Times that a device was left alone for seconds, after many failures.";
    text.single("evenkeel_flash_turned_off_total", Counter, help, counts.turned_off);
    let help = "Bytes of flash that dumps left out because a read failed or took too long, or the device was left alone.";
    text.single("evenkeel_flash_dump_skipped_bytes_total", Counter, help, counts.dump_bytes_skipped);
    let help = "The share of the memory limit that the index and the write buffers have, from 0 to 1: from 0.9 on pages are emptied for it.";
    text.single("evenkeel_flash_index_share", Gauge, help, flash.index_percent as f64 / 100.0);
}

/// The number tells listeners without a name apart.
fn listeners(shared: &Shared, text: &mut Exposition) {
    let streams = || {
        let streams = shared.listeners.iter().enumerate();
        let streams = streams.filter(|(_, (_, address))| !matches!(address, Address::Udp(_)));
        streams.map(|(number, (_, address))| (number, number.to_string(), address.to_string()))
    };
    let mut write = |name: &str, kind, help: &str, of: fn((u64, u64)) -> u64| {
        let mut family = text.family(name, kind, help);
        for (number, label, address) in streams() {
            family.sample(
                &[("listener", &label), ("address", &address)],
                of(shared.network.of_listener(number)),
            );
        }
    };
    let help = "Connections that a worker has now, by the address at which they were accepted.";
    write("evenkeel_listener_connections", Gauge, help, |(present, _)| present);
    let help = "Connections given to a worker, by the address at which they were accepted.";
    write("evenkeel_listener_connections_total", Counter, help, |(_, all)| all);
}

/// Prefixes with the most uses, so that the number of series is bounded whatever keys clients have.
const PREFIXES_SHOWN_MAX: usize = 50;

/// Nothing with -X, which forbids all lists of keys, and nothing unless they have been counted (`stats detail`).
fn prefixes(shared: &Shared, text: &mut Exposition) {
    if !shared.options.dumping || !shared.prefixes.have_been_counted() {
        return;
    }
    let summary = shared.prefixes.summary(PREFIXES_SHOWN_MAX);
    let help = "Prefixes of keys that are counted (stats detail); those with the most uses are shown.";
    text.single("evenkeel_prefixes", Gauge, help, summary.prefixes);
    let help = "Uses of keys whose prefixes are not counted, because there are too many.";
    text.single("evenkeel_prefix_uncounted_total", Counter, help, summary.uncounted);
    let help = "Commands by the prefix of their key.";
    let mut family = text.family("evenkeel_prefix_commands_total", Counter, help);
    for (prefix, uses) in &summary.most_used {
        let prefix = ReadableKey(prefix).to_string();
        let mut sample = |command, status, count| {
            family.sample(&[("prefix", &prefix), ("command", command), ("status", status)], count);
        };
        sample("get", "hit", uses.hit);
        sample("get", "miss", uses.get.saturating_sub(uses.hit));
        sample("set", "any", uses.set);
        sample("delete", "any", uses.del);
    }
}

fn tls(shared: &Shared, figures: &Figures, text: &mut Exposition) {
    let handshakes = shared.network.handshakes();
    let help = "TLS handshakes by their outcome; a resumed one needs no signature.";
    let mut family = text.family("evenkeel_tls_handshakes_total", Counter, help);
    family.sample(&[("outcome", "full")], handshakes.full.sum());
    family.sample(&[("outcome", "resumed")], handshakes.resumed.sum());
    family.sample(&[("outcome", "failed")], handshakes.failed);
    family.sample(&[("outcome", "expired")], handshakes.expired);
    family.sample(&[("outcome", "displaced")], handshakes.displaced);
    let help =
        "TLS sessions established, by version, and whether a ticket took the place of a full handshake.";
    let mut family = text.family("evenkeel_tls_sessions_total", Counter, help);
    for (resumed, counts) in [("no", handshakes.full), ("yes", handshakes.resumed)] {
        family.sample(&[("version", "TLSv1.2"), ("resumed", resumed)], counts.v1_2);
        family.sample(&[("version", "TLSv1.3"), ("resumed", resumed)], counts.v1_3);
    }
    let help = "TLS handshakes now, those that wait for their beginning included.";
    text.single("evenkeel_tls_handshaking", Gauge, help, handshakes.in_progress);
    let help = "TLS sessions that ended with a damaged record.";
    text.single("evenkeel_tls_sessions_failed_total", Counter, help, figures.network.sessions_failed);
    let ends = shared.tls.as_ref().map(|files| files.certificate_ends()).unwrap_or_default();
    let help = "When each certificate of the server ends, in seconds since 1970.";
    let mut family = text.family("evenkeel_certificate_end_seconds", Gauge, help);
    for end in ends {
        family.sample(&[("file", &end.file.to_string_lossy())], end.end_s);
    }
    let help = "Requests that a client's role does not allow, by its name in the certificate.";
    let mut family = text.family("evenkeel_tls_refused_requests_total", Counter, help);
    for (name, count) in shared.refusals.by_name() {
        family.sample(&[("identity", &name)], count);
    }
}

/// At most 20 keys by each measure, so that Prometheus keeps few series of keys that come and go.
fn hot_keys(hot: &HotKeys, text: &mut Exposition) {
    let help =
        "Share of the last five to ten seconds' requests, bytes of values, or misses, of the hottest keys.";
    let mut family = text.family("evenkeel_hot_key_share", Gauge, help);
    for (by, keys) in hot.rankings() {
        for hot in keys {
            family.sample(&[("by", by), ("key", &ReadableKey(&hot.key).to_string())], hot.share);
        }
    }
}

/// One worker that has more to do than the others limits the server.
fn workers(shared: &Shared, text: &mut Exposition) {
    let numbers: Vec<String> = (0..shared.counters.len()).map(|number| number.to_string()).collect();
    let mut family = text.family("evenkeel_worker_info", Gauge, "The socket driver of a worker, as a label.");
    for (number, label) in numbers.iter().enumerate() {
        let driver = match shared.network.driver(number) {
            DriverChoice::Auto => "none",
            DriverChoice::Epoll => "epoll",
            DriverChoice::Uring => "io_uring",
        };
        family.sample(&[("worker", label), ("driver", driver)], 1);
    }
    let help = "Keys of gets, and stores, by worker.";
    let mut family = text.family("evenkeel_worker_commands_total", Counter, help);
    for (counters, label) in shared.counters.iter().zip(&numbers) {
        family.sample(&[("worker", label), ("command", "get")], counters.cmd_get.value());
        family.sample(&[("worker", label), ("command", "set")], counters.cmd_set.value());
    }
}

/// From /proc, read at each scrape: 10 µs for a thread.
fn threads(text: &mut Exposition) {
    let threads = os::cpu_time::of_own_threads();
    let help = "CPU time of the threads of this name.";
    let mut family = text.family("evenkeel_thread_cpu_seconds_total", Counter, help);
    for (name, times) in &threads {
        family.sample(&[("thread", name)], seconds(times.run_ns));
    }
    let help = "Time that the threads of this name were ready to run and had no CPU.";
    let mut family = text.family("evenkeel_thread_wait_seconds_total", Counter, help);
    for (name, times) in &threads {
        family.sample(&[("thread", name)], seconds(times.wait_ns));
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
