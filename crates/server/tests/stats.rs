//! The shape of `stats items` and `stats slabs`; `stats` and `stats settings` are in `stats_names.txt`.

use server::options::Options;

/// As memcached 1.6.45 prints them, in its order.
const ITEMS: &str = "number number_hot number_warm number_cold age_hot age_warm age mem_requested evicted \
    evicted_nonzero evicted_time outofmemory tailrepairs reclaimed expired_unfetched evicted_unfetched evicted_active \
    crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru \
    direct_reclaims hits_to_hot hits_to_warm hits_to_cold hits_to_temp";

const SLABS: &str = "chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks free_chunks_end \
    get_hits cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits";

/// The names that `request` is answered with, up to `END`.
fn names(request: &str) -> String {
    let mut host = server::sim::host(&Options::default(), 1_800_000_000_000, 1);
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
fn items_have_memcacheds_names_in_its_order() {
    assert_eq!(names("stats items"), prefixed("items:1:", ITEMS));
}

#[test]
fn slabs_have_memcacheds_names_in_its_order() {
    assert_eq!(names("stats slabs"), prefixed("1:", SLABS) + " active_slabs total_malloced");
}
