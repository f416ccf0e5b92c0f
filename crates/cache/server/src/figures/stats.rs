//! `stats` and its sub-commands, under memcached's names, so that existing exporters work.
//!
//! Every value is computed on demand from per-worker counters. Names of memcached subsystems that do not
//! exist here (slab rebalancing, the LRU crawler, …) are printed with the value that means "nothing
//! happened", because exporters look them up.

use protocol::discovery::DiscoveryState;
use protocol::reply::line;
use protocol::request::{DetailCommand, StatsTopic};
use stdx::clock::Now;

use crate::connection::output::Output;
use crate::shared::{EVENKEEL_VERSION, Figures, Shared, VERSION};
use crate::worker::Worker;
use ::hot_keys::HotKeys;

mod connections;
mod extstore;
mod hot_keys;
mod items;
mod list;
mod prefixes;
mod sizes;
mod times;
mod tls;

pub(crate) use connections::Connections;
pub(crate) use extstore::FlashPages;
pub(crate) use list::StatForm;
pub(crate) use prefixes::PrefixDump;
pub(crate) use sizes::Sizes;
pub(crate) use tls::is_about_tls;

use list::{StatList, stat};

impl Worker {
    /// Replies in one step.
    pub(crate) fn statistics(&mut self, topic: StatsTopic, form: StatForm, output: &mut Output) {
        reply(&self.shared, topic, self.now, form.list(output.copied()));
        // The next request may be served in the same turn.
        self.detail = self.shared.prefixes.enabled();
    }
}

/// A reply that takes one step.
fn reply(shared: &Shared, topic: StatsTopic, now: Now, mut list: StatList<'_>) {
    let dumping = shared.options.dumping;
    let out = &mut list;
    match topic {
        StatsTopic::General => general(shared, &shared.figures(), now, out),
        StatsTopic::Settings => settings(shared, out),
        StatsTopic::Connections => unreachable!("connections are listed in steps"),
        StatsTopic::Items => items::items(&shared.figures(), now, out),
        StatsTopic::Slabs => items::slabs(&shared.figures(), out),
        StatsTopic::Sizes => stat(out, "sizes_status", "disabled"),
        // Without a tier there are no pages.
        StatsTopic::Extstore => {}
        // As of a memcached that is built with the proxy and does not run as one.
        StatsTopic::Proxy => {}
        StatsTopic::Reset => {
            shared.reset();
            return list.end_with(line::RESET);
        }
        StatsTopic::Detail(_) if !dumping => return list.end_with(line::STATS_DETAIL_NOT_ALLOWED),
        StatsTopic::Detail(Ok(command)) => {
            shared.prefixes.enable(command == DetailCommand::On);
            return list.end_with(line::OK);
        }
        StatsTopic::HotKeys if !dumping => return list.end_with(line::STATS_HOT_NOT_ALLOWED),
        StatsTopic::HotKeys => hot_keys::hot_keys(&HotKeys::read(&shared.hot_tables, now), out),
        StatsTopic::Times => times::times(shared, out),
        StatsTopic::Cachedump(_) if !dumping => return list.end_with(line::STATS_CACHEDUMP_NOT_ALLOWED),
        StatsTopic::Detail(Err(error)) | StatsTopic::Cachedump(Err(error)) => return list.end_with(error),
        // A class without items.
        StatsTopic::Cachedump(Ok(_)) => {}
        StatsTopic::Other => return list.end_with(line::ERROR),
    }
    list.end();
}

/// The replies to `stats`, `stats items` and `stats slabs` in text, one after the other, with these figures.
pub(crate) fn all_counts(shared: &Shared, figures: &Figures, now: Now) -> Vec<u8> {
    let mut text = Vec::new();
    let out = &mut StatForm::Text.list(&mut text);
    general(shared, figures, now, out);
    items::items(figures, now, out);
    items::slabs(figures, out);
    text
}

/// The reply to `stats settings` in text.
pub(crate) fn all_settings(shared: &Shared) -> Vec<u8> {
    let mut text = Vec::new();
    settings(shared, &mut StatForm::Text.list(&mut text));
    text
}

fn settings(shared: &Shared, out: &mut StatList<'_>) {
    let flash_free_min = shared.store.flash_statistics().map_or(0, |flash| flash.segments_free_min);
    for (name, value) in shared.options.settings(&shared.echo()) {
        match name {
            // These can change while the server runs.
            "maxbytes" => stat(out, name, shared.store.statistics().limit_bytes),
            "verbosity" => stat(out, name, shared.verbosity()),
            "oldest" => stat(out, name, shared.oldest()),
            // What is in force where nothing is given.
            "ext_compact_under" | "ext_drop_under" if value == "0" => stat(out, name, flash_free_min),
            "detail_enabled" => stat(out, name, if shared.prefixes.enabled() { "yes" } else { "no" }),
            _ => stat(out, name, value),
        }
    }
}

fn general(shared: &Shared, figures: &Figures, now: Now, out: &mut StatList<'_>) {
    let Figures { totals, network, store, log, .. } = *figures;
    process(shared, now, out);
    stat(out, "max_connections", shared.options.connection_limit);
    stat(out, "curr_connections", network.connections);
    stat(out, "total_connections", network.accepted);
    stat(out, "rejected_connections", network.rejected);
    stat(out, "connection_structures", network.connection_structures);
    for name in ["response_obj_oom", "response_obj_count", "response_obj_bytes", "read_buf_count"] {
        stat(out, name, 0);
    }
    for name in ["read_buf_bytes", "read_buf_bytes_free", "read_buf_oom"] {
        stat(out, name, 0);
    }
    stat(out, "reserved_fds", RESERVED_FDS);
    commands(figures, out);
    if shared.options.idle_timeout_s.is_some() {
        stat(out, "idle_kicks", network.idle_kicks);
    }
    stat(out, "bytes_read", network.bytes_read);
    stat(out, "bytes_written", network.bytes_written);
    stat(out, "limit_maxbytes", store.limit_bytes);
    stat(out, "accepting_conns", u8::from(network.accepting));
    stat(out, "listen_disabled_num", network.listen_disabled_num);
    stat(out, "time_in_listen_disabled_us", network.time_in_listen_disabled_us);
    stat(out, "threads", shared.options.threads);
    stat(out, "conn_yields", network.yields);
    items::memory(&store, totals.lru_crawler_starts, out);
    stat(out, "log_worker_dropped", log.worker_dropped);
    stat(out, "log_worker_written", log.worker_written);
    stat(out, "log_watcher_skipped", log.watcher_skipped);
    stat(out, "log_watcher_sent", log.watcher_sent);
    stat(out, "log_watchers", shared.log.watchers());
    extstore::general(figures, out);
    tls::general(shared, network.sessions_failed, now, out);
    stat(out, "unexpected_napi_ids", network.unexpected_napi_ids);
    stat(out, "round_robin_fallback", network.round_robin_fallback);
    items::general(&store, out);
    items::ours(&store, out);
    stat(out, "evenkeel_version", EVENKEEL_VERSION);
    stat(out, "evenkeel_binary_refused", totals.binary_refused);
    if shared.options.has_udp() {
        stat(out, "evenkeel_udp_requests", totals.udp_requests);
        stat(out, "evenkeel_udp_refused", totals.udp_refused);
        stat(out, "evenkeel_udp_malformed", totals.udp_malformed);
        stat(out, "evenkeel_udp_limited", totals.udp_limited);
        stat(out, "evenkeel_udp_dropped", network.datagrams_dropped + totals.udp_dropped);
        stat(out, "evenkeel_udp_lost", network.datagrams_overflowed);
    }
    if let Some(frames) = network.frames {
        stat(out, "evenkeel_udp_xdp_queues", frames.queues);
        stat(out, "evenkeel_udp_xdp_zerocopy_queues", frames.copying_nothing);
        stat(out, "evenkeel_udp_xdp_received", frames.received);
        stat(out, "evenkeel_udp_xdp_sent", frames.sent);
        stat(out, "evenkeel_udp_xdp_refused", frames.refused);
        stat(out, "evenkeel_udp_xdp_by_socket", frames.by_socket);
    }
    tls::ours(shared, out);
    for (name, value) in shared.discovery().iter().flat_map(DiscoveryState::statistics) {
        stat(out, name, value);
    }
}

/// Descriptors that are neither clients nor files: listeners, event descriptors and the like.
const RESERVED_FDS: u32 = 32;

fn process(shared: &Shared, now: Now, out: &mut StatList<'_>) {
    stat(out, "pid", std::process::id());
    stat(out, "uptime", shared.uptime(now).ms() / 1000 + 1);
    stat(out, "time", shared.unix_ms(now) / 1000);
    stat(out, "version", VERSION);
    stat(out, "libevent", "none");
    stat(out, "pointer_size", usize::BITS);
    let usage = os::cpu_time::CpuTime::of_this_process();
    stat(out, "rusage_user", format_args!("{:.6}", usage.user.as_secs_f64()));
    stat(out, "rusage_system", format_args!("{:.6}", usage.system.as_secs_f64()));
}

fn commands(figures: &Figures, out: &mut StatList<'_>) {
    let Figures { totals, store, .. } = figures;
    for (name, value) in [
        ("cmd_get", totals.cmd_get),
        ("cmd_set", totals.cmd_set),
        ("cmd_flush", totals.cmd_flush),
        ("cmd_touch", totals.cmd_touch),
        ("cmd_meta", totals.cmd_meta),
        ("get_hits", totals.get_hits),
        ("get_misses", totals.get_misses),
        ("get_expired", store.counts.found_expired),
        ("get_flushed", store.counts.found_flushed),
    ] {
        stat(out, name, value);
    }
    extstore::commands(figures, out);
    for (name, value) in [
        ("delete_misses", totals.delete_misses),
        ("delete_hits", totals.delete_hits),
        ("incr_misses", totals.incr_misses),
        ("incr_hits", totals.incr_hits),
        ("decr_misses", totals.decr_misses),
        ("decr_hits", totals.decr_hits),
        ("cas_misses", totals.cas_misses),
        ("cas_hits", totals.cas_hits),
        ("cas_badval", totals.cas_badval),
        ("touch_hits", totals.touch_hits),
        ("touch_misses", totals.touch_misses),
        ("store_too_large", totals.store_too_large),
        ("store_no_memory", totals.store_no_memory),
        ("auth_cmds", totals.auth_cmds),
        ("auth_errors", totals.auth_errors),
    ] {
        stat(out, name, value);
    }
}
