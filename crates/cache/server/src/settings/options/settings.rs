//! The reply to `stats settings`: memcached's names, in memcached's order.
//!
//! The names are those of a memcached built with TLS, the proxy and extstore, because monitoring may look any
//! of them up. What is missing or off is answered as by a memcached where it is off.

use std::path::Path;

use super::{Echo, Options, Protocol};

impl Options {
    /// All lines, as name and value. `echo` has the values that commands have set since the start. The caller
    /// replaces values that change otherwise: `maxbytes`, `verbosity`, `detail_enabled`, and `oldest`, the
    /// second of the last `flush_all`.
    pub fn settings(&self, echo: &Echo) -> Vec<(&'static str, String)> {
        let mut lines = self.general();
        lines.extend(self.memory(echo));
        lines.extend(self.log_and_buffers());
        lines.extend(self.extstore(echo));
        lines.extend(self.tls_given.settings());
        lines.extend(PROXY.iter().map(|&(name, value)| (name, value.to_owned())));
        lines.push(("num_napi_ids", self.echo.napi_ids.to_string()));
        lines.push(("memory_file", path_or(self.memory_file.as_deref(), "(null)")));
        lines.push(("client_flags_size", size_of::<u32>().to_string()));
        lines.extend(self.backlog_granted.map(|granted| ("evenkeel_tcp_backlog", granted.to_string())));
        lines
    }

    fn extstore(&self, echo: &Echo) -> Vec<(&'static str, String)> {
        let given = &echo.extstore;
        let own = self.flash.is_on().then(|| ("ext_write_rate", format!("{:.3}", given.write_rate_mb_s)));
        let memcacheds = [
            ("ext_item_size", given.item_size.to_string()),
            ("ext_item_age", given.item_age_s.to_string()),
            ("ext_low_ttl", given.low_ttl_s.to_string()),
            ("ext_recache_rate", given.recache_rate.to_string()),
            ("ext_wbuf_size", self.flash.piece_bytes.to_string()),
            ("ext_compact_under", given.compact_under.to_string()),
            ("ext_drop_under", given.drop_under.to_string()),
            ("ext_max_sleep", given.max_sleep_us.to_string()),
            ("ext_max_frag", format!("{:.2}", given.max_frag(self.flash.is_on()))),
            ("slab_automove_freeratio", format!("{:.3}", echo.slab_automove_freeratio)),
            ("ext_drop_unread", yes(given.drop_unread)),
        ];
        memcacheds.into_iter().chain(own).collect()
    }

    fn general(&self) -> Vec<(&'static str, String)> {
        let echo = &self.echo;
        let protocol = match self.protocol {
            // Login exists only in the text protocol, so memcached then accepts no other.
            Protocol::Auto if self.auth.is_none() => "auto-negotiate",
            Protocol::Auto | Protocol::Ascii => "ascii",
            Protocol::Binary => "binary",
        };
        vec![
            ("maxbytes", self.memory_limit_bytes.to_string()),
            ("maxconns", self.connection_limit.to_string()),
            ("tcpport", echo.tcp_port.to_string()),
            ("udpport", echo.udp_port.to_string()),
            ("inter", echo.interfaces.clone().unwrap_or("NULL".to_owned())),
            ("verbosity", self.verbosity.to_string()),
            ("oldest", "0".to_owned()),
            ("evictions", if self.evictions { "on" } else { "off" }.to_owned()),
            ("domain_socket", path_or(echo.unix_socket.as_deref(), "NULL")),
            ("umask", format!("{:o}", echo.unix_mask)),
            ("shutdown_command", yes(self.shutdown)),
            ("growth_factor", format!("{:.2}", echo.growth_factor)),
            ("chunk_size", echo.chunk_size.to_string()),
            ("num_threads", self.threads.to_string()),
            ("num_threads_per_udp", self.threads.to_string()),
            ("stat_key_prefix", char::from(self.prefix_delimiter).to_string()),
            ("detail_enabled", yes(self.detail)),
            ("reqs_per_event", self.requests_per_turn.to_string()),
            ("cas_enabled", yes(self.cas)),
            ("tcp_backlog", self.backlog.unwrap_or(BACKLOG_DEFAULT).to_string()),
            ("binding_protocol", protocol.to_owned()),
            ("auth_enabled_sasl", yes(self.sasl)),
            (
                "auth_enabled_ascii",
                path_or(self.auth.as_ref().filter(|_| !self.sasl).map(|auth| &*auth.file), "no"),
            ),
            ("item_size_max", self.item_size_max_bytes.to_string()),
            ("maxconns_fast", yes(self.maxconns_fast)),
        ]
    }

    fn memory(&self, echo: &Echo) -> Vec<(&'static str, String)> {
        vec![
            ("hashpower_init", echo.hashpower.to_string()),
            ("slab_reassign", yes(echo.slab_reassign)),
            ("slab_automove", echo.slab_automove.to_string()),
            ("slab_automove_ratio", format!("{:.2}", echo.slab_automove_ratio)),
            ("slab_automove_window", echo.slab_automove_window.to_string()),
            ("slab_chunk_max", echo.slab_chunk_max_bytes.to_string()),
            ("lru_crawler", yes(echo.lru_crawler)),
            ("lru_crawler_sleep", echo.lru_crawler_sleep_us.to_string()),
            ("lru_crawler_tocrawl", echo.lru_crawler_tocrawl.to_string()),
            ("tail_repair_time", echo.tail_repair_time_s.to_string()),
            ("flush_enabled", yes(self.flush_all)),
            ("dump_enabled", yes(self.dumping)),
            ("hash_algorithm", echo.hash_algorithm.to_owned()),
            ("lru_maintainer_thread", yes(echo.lru_maintainer)),
            ("lru_segmented", yes(echo.lru_segmented)),
            ("hot_lru_pct", echo.hot_lru_pct.to_string()),
            ("warm_lru_pct", echo.warm_lru_pct.to_string()),
            ("hot_max_factor", format!("{:.2}", echo.hot_max_factor)),
            ("warm_max_factor", format!("{:.2}", echo.warm_max_factor)),
            ("temp_lru", yes(echo.temp_lru)),
            ("temporary_ttl", echo.temporary_ttl_s.to_string()),
        ]
    }

    fn log_and_buffers(&self) -> Vec<(&'static str, String)> {
        vec![
            ("idle_timeout", self.idle_timeout_s.unwrap_or(0).to_string()),
            ("watcher_logbuf_size", self.watcher_log_bytes.to_string()),
            ("worker_logbuf_size", self.worker_log_bytes.to_string()),
            ("read_buf_mem_limit", self.echo.read_buffer_bytes.to_string()),
            ("track_sizes", yes(self.track_sizes)),
            ("inline_ascii_response", yes(false)),
        ]
    }
}

/// Where no number is given and none is known, as in memcached.
const BACKLOG_DEFAULT: u32 = 1024;

/// The proxy, off.
const PROXY: &[(&str, &str)] = &[("proxy_enabled", "no"), ("proxy_uring_enabled", "no")];

pub(super) fn yes(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}

fn path_or(path: Option<&Path>, absent: &str) -> String {
    path.map_or(absent.to_owned(), |path| path.display().to_string())
}
