//! The format of `stats`, `stats items` and `stats slabs`, and their values when memory is full.

use server::options::Options;

/// The names of memcached 1.6.45, in its order, with `-o idle_timeout`.
const GENERAL: &str = "pid uptime time version libevent pointer_size rusage_user rusage_system max_connections \
    curr_connections total_connections rejected_connections connection_structures response_obj_oom \
    response_obj_count response_obj_bytes read_buf_count read_buf_bytes read_buf_bytes_free read_buf_oom \
    reserved_fds cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses get_expired get_flushed \
    delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval \
    touch_hits touch_misses store_too_large store_no_memory auth_cmds auth_errors idle_kicks bytes_read \
    bytes_written limit_maxbytes accepting_conns listen_disabled_num time_in_listen_disabled_us threads \
    conn_yields hash_power_level hash_bytes hash_is_expanding slab_reassign_rescues slab_reassign_chunk_rescues \
    slab_reassign_inline_reclaim slab_reassign_busy_items slab_reassign_busy_deletes slab_reassign_busy_nomem \
    slab_reassign_last_busy_status slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts \
    lru_maintainer_juggles malloc_fails log_worker_dropped log_worker_written log_watcher_skipped \
    log_watcher_sent log_watchers unexpected_napi_ids round_robin_fallback bytes curr_items total_items \
    slab_global_page_pool expired_unfetched evicted_unfetched evicted_active evictions reclaimed \
    crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru \
    direct_reclaims lru_bumps_dropped";

const ITEMS: &str = "number number_hot number_warm number_cold age_hot age_warm age mem_requested evicted \
    evicted_nonzero evicted_time outofmemory tailrepairs reclaimed expired_unfetched evicted_unfetched evicted_active \
    crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru \
    direct_reclaims hits_to_hot hits_to_warm hits_to_cold hits_to_temp";

const SLABS: &str = "chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks free_chunks_end \
    get_hits cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits";

use crate::simulated::Server;

/// The names in the reply to `request`, up to `END`.
fn names(request: &str) -> String {
    names_of(&Options { idle_timeout_s: Some(9), ..Options::default() }, request)
}

fn names_of(options: &Options, request: &str) -> String {
    let mut host = Server::new(options).host;
    let peer = host.connect();
    host.send(peer, format!("set a 0 0 5\r\nhello\r\n{request}\r\n").as_bytes());
    let output = String::from_utf8(host.take_output(peer)).expect("text");
    let lines =
        output.strip_prefix("STORED\r\n").and_then(|rest| rest.strip_suffix("END\r\n")).expect("an answer");
    let name = |line: &str| line.split(' ').nth(1).expect("a name").to_owned();
    lines.lines().map(name).collect::<Vec<_>>().join(" ")
}

fn prefixed(prefix: &str, names: &str) -> String {
    names.split(' ').map(|name| format!("{prefix}{name}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_general_statistics_have_memcacheds_names_in_its_order_and_then_ours() {
    let all = names("stats");
    let (theirs, ours) = all.split_once(" evenkeel_").expect("some of our own");
    assert_eq!(theirs, GENERAL.split_whitespace().collect::<Vec<_>>().join(" "));
    assert!(ours.split(' ').skip(1).all(|name| name.starts_with("evenkeel_")), "{ours}");
}

/// Maximum length of the reply: the buffer of collectd's memcached plugin, which ignores the rest silently.
const GENERAL_LEN_MAX: usize = 4000;

/// Maximum number of digits of a 64-bit counter.
const DIGITS_MAX: usize = 20;

/// Statistics with a constant value: nothing to count (docs/serve/compatibility.md), or a fact.
const CONSTANT: &str = "response_obj_oom response_obj_count response_obj_bytes read_buf_count read_buf_bytes \
    read_buf_bytes_free read_buf_oom reserved_fds hash_is_expanding slab_reassign_rescues \
    slab_reassign_chunk_rescues slab_reassign_inline_reclaim slab_reassign_busy_items slab_reassign_busy_deletes \
    slab_reassign_busy_nomem slab_reassign_last_busy_status slab_reassign_running lru_crawler_running \
    lru_maintainer_juggles malloc_fails lrutail_reflocked moves_to_warm moves_within_lru direct_reclaims \
    lru_bumps_dropped pointer_size accepting_conns version libevent";

#[test]
fn the_general_statistics_fit_into_collectds_buffer_with_the_largest_counters() {
    let options = Options { idle_timeout_s: Some(9), ..Options::default() };
    let mut server = Server::new(&options);
    let peer = server.host.connect();
    let reply = server.ask(peer, "stats\r\n");
    let constant: Vec<&str> = CONSTANT.split_whitespace().collect();
    let longest = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        ["STAT", name, _] if !constant.contains(&name) => {
            line.len().max("STAT  ".len() + name.len() + DIGITS_MAX)
        }
        _ => line.len(),
    };
    let len: usize = reply.split("\r\n").map(|line| longest(line) + "\r\n".len()).sum();
    assert!(len < GENERAL_LEN_MAX, "{len} bytes");
}

#[test]
fn items_have_memcacheds_names_in_its_order() {
    assert_eq!(names("stats items"), prefixed("items:1:", ITEMS));
}

#[test]
fn slabs_have_memcacheds_names_in_its_order() {
    assert_eq!(names("stats slabs"), prefixed("1:", SLABS) + " active_slabs total_malloced");
}

#[test]
fn evictions_are_counted_by_kind_of_item() {
    let mut server = Server::new(&Options { memory_limit_bytes: 4 << 20, ..Options::default() });
    let peer = server.host.connect();
    let value = "v".repeat(1000);
    for number in 0..1000 {
        server.ask(peer, &format!("set mortal-{number} 0 5000 1000\r\n{value}\r\n"));
    }
    (0..8000).for_each(|number| server.set(peer, &format!("key-{number}"), &value));
    server.host.advance(30_000);
    (0..200).for_each(|number| server.set(peer, &format!("late-{number}"), &value));
    let mut statistic = |name: &str| {
        let all = server.ask(peer, "stats items\r\nstats\r\n");
        let value =
            all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")).map(str::to_owned));
        value.expect(name).parse::<u64>().expect("a number")
    };
    assert_eq!(statistic("items:1:evicted"), statistic("evictions"));
    assert_eq!(statistic("items:1:evicted_nonzero"), 1000, "those with a time to live went first");
    assert_eq!(statistic("items:1:evicted_time"), 30, "the last one had been there before");
    assert!(statistic("evictions") > 4000);
}

#[test]
fn expired_items_are_reclaimed_and_not_evicted_when_memory_is_full() {
    let mut server = Server::new(&Options { memory_limit_bytes: 4 << 20, ..Options::default() });
    let peer = server.host.connect();
    let value = "v".repeat(1000);
    for number in 0..1000 {
        server.ask(peer, &format!("set mortal-{number} 0 2 1000\r\n{value}\r\n"));
    }
    let statistic = |server: &mut Server, name: &str| {
        let all = server.ask(peer, "stats items\r\nstats\r\n");
        let value =
            all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")).map(str::to_owned));
        value.expect(name).parse::<u64>().expect("a number")
    };
    assert_eq!(statistic(&mut server, "reclaimed"), 0);
    server.host.advance(5000);
    (0..8000).for_each(|number| server.set(peer, &format!("key-{number}"), &value));
    assert_eq!(statistic(&mut server, "reclaimed"), 1000);
    assert_eq!(statistic(&mut server, "items:1:reclaimed"), 1000);
    assert_eq!(statistic(&mut server, "evicted_unfetched"), statistic(&mut server, "evictions"));
    assert_eq!(statistic(&mut server, "items:1:evicted_nonzero"), 0, "none that had expired was evicted");
}

#[test]
fn a_memory_limit_below_the_minimum_is_refused_with_the_minimum() {
    let mut server = Server::new(&Options { memory_limit_bytes: 1 << 30, ..Options::default() });
    let peer = server.host.connect();
    server.set(peer, "kept", "value");
    let reply = server.ask(peer, "cache_memlimit 8\r\n");
    assert_eq!(reply, "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 23m\r\n");
    assert_eq!(
        server.ask(peer, "cache_memlimit 8 noreply\r\nget kept\r\n"),
        "VALUE kept 0 5\r\nvalue\r\nEND\r\n"
    );
    assert_eq!(server.ask(peer, "cache_memlimit 23\r\n"), "OK\r\n");
}

#[test]
fn a_crawl_removes_expired_items_only() {
    let mut server = Server::new(&Options::default());
    let peer = server.host.connect();
    for number in 0..3000 {
        let exptime = if number % 3 == 0 { 0 } else { 2 };
        server.ask(peer, &format!("set key-{number} 0 {exptime} 1\r\nx\r\n"));
    }
    server.host.advance(5000);
    let mut statistic = |request: &str, name: &str| {
        let reply = server.ask(peer, request);
        let value =
            reply.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")).map(str::to_owned));
        value.expect(name).parse::<u64>().expect("a number")
    };
    assert_eq!(statistic("stats\r\n", "curr_items"), 3000);
    assert_eq!(statistic("lru_crawler crawl 5\r\nstats\r\n", "curr_items"), 3000, "nothing is in class 5");
    assert_eq!(statistic("lru_crawler crawl all\r\nstats\r\n", "curr_items"), 1000);
    assert_eq!(statistic("stats\r\n", "crawler_reclaimed"), 2000);
    assert_eq!(statistic("stats\r\n", "crawler_items_checked"), 3000);
    assert_eq!(statistic("stats\r\n", "lru_crawler_starts"), 1);
    assert_eq!(statistic("lru_crawler crawl 1,2 noreply\r\nstats\r\n", "crawler_reclaimed"), 2000);
}

/// A server with a flash tier, of which nothing can be read back here.
fn with_flash() -> Options {
    let mut options = Options { memory_limit_bytes: 16 << 20, idle_timeout_s: Some(9), ..Options::default() };
    options.flash.paths = vec!["/x:64m".parse().expect("a path"), "/y:24m:lowttl".parse().expect("a path")];
    (options.flash.segment_bytes, options.flash.piece_bytes) = (8 << 20, 1 << 20);
    options
}

/// Behind `get_flushed` and `log_watchers`.
const EXTSTORE_COMMANDS: &str = "get_extstore get_aborted_extstore get_oom_extstore recache_from_extstore \
    miss_from_extstore badcrc_from_extstore";
const EXTSTORE: &str = "memory_pressure compact_lost compact_rescues compact_resc_cold compact_resc_old \
    compact_skipped page_allocs page_evictions page_reclaims pages_free pages_used objects_evicted objects_read \
    objects_written objects_used bytes_evicted bytes_written bytes_read bytes_used bytes_fragmented limit_maxbytes io_queue";

#[test]
fn with_flash_the_names_of_extstore_are_where_memcached_has_them() {
    let commands = format!("get_flushed {EXTSTORE_COMMANDS} delete_misses");
    let tier = format!("log_watchers {} unexpected_napi_ids", prefixed("extstore_", EXTSTORE));
    let expected = GENERAL.replace("get_flushed delete_misses", &commands);
    let expected = expected.replace("log_watchers unexpected_napi_ids", &tier);
    let all = names_of(&with_flash(), "stats");
    assert_eq!(all.split_once(" evenkeel_").expect("some of our own").0, expected);
    assert!(!names("stats").contains("extstore"), "without it there are none");
}

/// Stores more than fits into memory.
fn fill(server: &mut Server) -> net::sim::PeerId {
    let client = server.host.connect();
    let value = "v".repeat(4000);
    for number in 0..6000 {
        server.ask(client, &format!("set key{number} 0 0 4000 noreply\r\n{value}\r\n"));
    }
    client
}

#[test]
fn pages_of_flash_are_listed_with_their_buckets() {
    let mut server = Server::new(&with_flash());
    let client = fill(&mut server);
    let pages = server.ask(client, "stats extstore\r\n");
    let first: Vec<&str> = pages.lines().take(4).collect();
    assert!(
        matches!(first[..], ["STAT 0:version 1", bytes, "STAT 0:bucket 0", "STAT 0:free_bucket 0"]
            if bytes.starts_with("STAT 0:bytes ") && !bytes.ends_with(" 0")),
        "{first:?}"
    );
    // Eleven pages; those of the second path are free, and for what expires soon.
    let last = "STAT 10:version 0\r\nSTAT 10:bytes 0\r\nSTAT 10:bucket 0\r\nSTAT 10:free_bucket 3\r\nEND\r\n";
    assert!(pages.ends_with(last), "{pages}");
    assert_eq!(pages.lines().count(), 4 * 11 + 1);
}

#[test]
fn a_reset_sets_what_memcached_sets_of_flash() {
    let mut server = Server::new(&with_flash());
    let client = fill(&mut server);
    let written = value(&server.ask(client, "stats\r\n"), "extstore_objects_written");
    assert!(written > 100, "{written}");
    server.ask(client, "stats reset\r\n");
    let after = server.ask(client, "stats\r\n");
    assert_eq!(value(&after, "extstore_objects_written"), written);
    assert_eq!(value(&after, "get_extstore"), 0);
    assert_eq!(value(&after, "extstore_limit_maxbytes"), 88 << 20);
    assert_eq!(value(&after, "extstore_pages_free") + value(&after, "extstore_pages_used"), 11);
    assert_eq!(value(&server.ask(client, "stats settings\r\n"), "ext_compact_under"), 2);
}

#[test]
fn commands_of_extstore_decide_what_goes_to_flash() {
    let mut server = Server::new(&with_flash());
    let client = server.host.connect();
    assert_eq!(server.ask(client, "extstore item_size 5000\r\n"), "OK\r\n");
    assert_eq!(server.ask(client, "extstore compact_under 4\r\n"), "OK\r\n");
    let settings = server.ask(client, "stats settings\r\n");
    assert_eq!((value(&settings, "ext_item_size"), value(&settings, "ext_compact_under")), (5000, 4));
    fill(&mut server);
    let stats = server.ask(client, "stats\r\n");
    assert_eq!(value(&stats, "extstore_objects_written"), 0);
    assert!(value(&stats, "evictions") > 100);
}

/// A number in a reply.
#[track_caller]
fn value(reply: &str, name: &str) -> u64 {
    let line = |line: &str| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    reply.lines().find_map(line).unwrap_or_else(|| panic!("{name} is missing"))
}
