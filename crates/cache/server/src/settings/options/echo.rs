//! Settings of memcached subsystems that Evenkeel does not have, as given on the command line and by commands.

use std::path::PathBuf;

use super::ExtstoreSettings;

/// Values without effect here: `stats settings` returns them as given, because monitoring compares them with
/// the configured values.
#[derive(Clone, Debug, PartialEq)]
pub struct Echo {
    /// `-p` as typed, or its default.
    pub tcp_port: i32,
    /// `-U`
    pub udp_port: i32,
    /// `-l` as typed, joined by commas.
    pub interfaces: Option<String>,
    /// `-s` as typed.
    pub unix_socket: Option<PathBuf>,
    /// `-a`, as a number.
    pub unix_mask: u32,
    /// `-f`
    pub growth_factor: f64,
    /// `-n`
    pub chunk_size: u32,
    /// `-N`
    pub napi_ids: u32,
    /// `-o hashpower`
    pub hashpower: u32,
    /// `-o hash_algorithm`
    pub hash_algorithm: &'static str,
    /// `-o slab_reassign`
    pub slab_reassign: bool,
    /// `-o slab_automove`
    pub slab_automove: u32,
    /// `-o slab_automove_ratio`
    pub slab_automove_ratio: f64,
    /// `-o slab_automove_window`
    pub slab_automove_window: u32,
    /// `-o slab_automove_freeratio`
    pub slab_automove_freeratio: f64,
    /// `-o ext_…` and `extstore`
    pub extstore: ExtstoreSettings,
    /// `-o slab_chunk_max`, in bytes
    pub slab_chunk_max_bytes: u32,
    /// `-o lru_crawler`
    pub lru_crawler: bool,
    /// `-o lru_crawler_sleep`
    pub lru_crawler_sleep_us: u32,
    /// `-o lru_crawler_tocrawl`
    pub lru_crawler_tocrawl: u32,
    /// `-o tail_repair_time`
    pub tail_repair_time_s: u32,
    /// `-o lru_maintainer`
    pub lru_maintainer: bool,
    /// `lru mode`
    pub lru_segmented: bool,
    /// `-o hot_lru_pct`
    pub hot_lru_pct: u32,
    /// `-o warm_lru_pct`
    pub warm_lru_pct: u32,
    /// `-o hot_max_factor`
    pub hot_max_factor: f64,
    /// `-o warm_max_factor`
    pub warm_max_factor: f64,
    /// Whether `-o temporary_ttl` was typed
    pub temp_lru: bool,
    /// `-o temporary_ttl`
    pub temporary_ttl_s: u32,
    /// `-o read_buf_mem_limit`, in bytes
    pub read_buffer_bytes: u64,
}

impl Default for Echo {
    fn default() -> Self {
        Self {
            tcp_port: 11211,
            udp_port: 0,
            interfaces: None,
            unix_socket: None,
            unix_mask: 0o700,
            growth_factor: 1.25,
            chunk_size: 48,
            napi_ids: 0,
            hashpower: 0,
            hash_algorithm: "murmur3",
            slab_reassign: true,
            slab_automove: 1,
            slab_automove_ratio: 0.8,
            slab_automove_window: 10,
            slab_automove_freeratio: 0.01,
            extstore: ExtstoreSettings::default(),
            slab_chunk_max_bytes: 512 * 1024,
            lru_crawler: true,
            lru_crawler_sleep_us: 100,
            lru_crawler_tocrawl: 0,
            tail_repair_time_s: 0,
            lru_maintainer: true,
            lru_segmented: true,
            hot_lru_pct: 20,
            warm_lru_pct: 40,
            hot_max_factor: 0.2,
            warm_max_factor: 2.0,
            temp_lru: false,
            temporary_ttl_s: 61,
            read_buffer_bytes: 0,
        }
    }
}
