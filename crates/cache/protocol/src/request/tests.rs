//! Request lines and their parsed form. The expectations were taken from a running memcached 1.6.45.

use super::*;
use crate::meta::MetaFlags;

/// Parses `input`, which must start with a whole line, and compares the terse form of the request.
#[track_caller]
fn check(input: &str, expected: &str) {
    let line = format!("{input}\r\n");
    assert_eq!(terse(line.as_bytes()), expected, "of {input:?}");
}

fn terse(input: &[u8]) -> String {
    let Parsed::Head { request, consumed } = parse(input) else { return "Incomplete".to_owned() };
    assert_eq!(consumed, input.len(), "the line is the head");
    match request {
        Request::Get(get) => format!("Get cas={} exptime={:?} {:?}", get.with_cas, get.exptime, get.keys),
        Request::Store(store) => {
            let Store { verb, key, flags, exptime, len, noreply } = store;
            format!("{verb:?} {key:?} flags={flags} exptime={exptime} len={len}{}", quietly(noreply))
        }
        Request::MetaGet { key, flags } => format!("mg {key:?} {}", values(&flags)),
        Request::MetaSet { key, flags, len, mode } => {
            format!("ms {key:?} len={len} {mode:?} {}", values(&flags))
        }
        Request::MetaDelete { key, flags } => format!("md {key:?} {}", values(&flags)),
        Request::MetaArithmetic { key, flags, mode } => format!("ma {key:?} {mode:?} {}", values(&flags)),
        Request::Refused(refused) => format!("{refused:?}"),
        Request::FlushAll { delay: Err(line), .. } => format!("FlushAll or {:?}", Refused::line(line)),
        Request::Shutdown { mode: Err(line), .. } => format!("Shutdown or {:?}", Refused::line(line)),
        Request::Watch { streams: Err(line) } => format!("Watch or {:?}", Refused::line(line)),
        other => format!("{other:?}"),
    }
}

fn quietly(noreply: bool) -> &'static str {
    if noreply { " noreply" } else { "" }
}

/// The arguments that were given.
fn values(flags: &MetaFlags<'_>) -> String {
    let mut values = vec![format!("{flags:?}")];
    values.extend(flags.exptime().map(|exptime| format!("T={exptime}")));
    values.extend(flags.vivify().map(|exptime| format!("N={exptime}")));
    values.extend(flags.recache().map(|exptime| format!("R={exptime}")));
    values.extend(flags.compare_cas().map(|cas| format!("C={cas}")));
    values.extend(flags.new_cas().map(|cas| format!("E={cas}")));
    values.extend((flags.delta() != 1).then(|| format!("D={}", flags.delta())));
    values.extend((flags.initial() != 0).then(|| format!("J={}", flags.initial())));
    values.extend((flags.client_flags() != 0).then(|| format!("F={}", flags.client_flags())));
    values.extend(flags.opaque().map(|opaque| opaque.escape_ascii().to_string()));
    values.join(" ")
}

const BAD_FORMAT: &str = "\"CLIENT_ERROR bad command line format\"";

#[test]
fn a_line_without_its_end_is_incomplete() {
    for input in ["", "g", "get", "get a", "get a\r", "set k 0 0 5\r", "mg foo v", "unknown"] {
        assert_eq!(parse(input.as_bytes()), Parsed::Incomplete);
    }
}

#[test]
fn a_line_may_end_without_a_carriage_return() {
    assert_eq!(terse(b"get a b\n"), r#"Get cas=false exptime=None ["a", "b"]"#);
    assert_eq!(terse(b"set k 1 2 3\n"), "Set k flags=1 exptime=2 len=3");
    assert_eq!(terse(b"mnx\n"), "\"ERROR\"");
}

#[test]
fn a_line_of_less_than_four_bytes_is_malformed() {
    for input in ["\n", "\r\n", "a\r\n", "mn\n"] {
        assert_eq!(terse(input.as_bytes()), BAD_FORMAT);
    }
    check("ab", "\"ERROR\"");
}

#[test]
fn retrieval_takes_any_number_of_keys() {
    check("get a", r#"Get cas=false exptime=None ["a"]"#);
    check("gets  a   bb ", r#"Get cas=true exptime=None ["a", "bb"]"#);
    check("gat 10 a b", r#"Get cas=false exptime=Some(10) ["a", "b"]"#);
    check("gats -1 a", r#"Get cas=true exptime=Some(-1) ["a"]"#);
    check("get noreply", r#"Get cas=false exptime=None ["noreply"]"#);
    check("get a\rb \t\0", r#"Get cas=false exptime=None ["a\\rb", "\\t\\x00"]"#);
    let many = format!("get{}\r\n", " key".repeat(5000));
    let Parsed::Head { request: Request::Get(get), .. } = parse(many.as_bytes()) else { panic!("a get") };
    assert_eq!(get.keys.count(), 5000);
}

#[test]
fn retrieval_needs_a_key() {
    for input in ["get", "get ", "gets   ", "gat", "gat 10", "gat x", "gats 10 "] {
        check(input, BAD_FORMAT);
    }
    check("gat x a", "\"CLIENT_ERROR invalid exptime argument\"");
    check("gat 2147483648 a", "\"CLIENT_ERROR invalid exptime argument\"");
}

#[test]
fn an_overlong_key_of_a_get_is_an_error_at_its_place() {
    check(&format!("get a {} b", "k".repeat(251)), r#"Get cas=false exptime=None ["a", "TooLong", "b"]"#);
    let line = format!("get {}\r\n", "k".repeat(250));
    let Parsed::Head { request: Request::Get(get), .. } = parse(line.as_bytes()) else { panic!("a get") };
    assert_eq!(get.keys.only().unwrap().unwrap().as_bytes().len(), 250);
}

#[test]
fn storage_commands_have_five_words_or_more() {
    check("set k 1 2 3", "Set k flags=1 exptime=2 len=3");
    check("add k 1 2 3 noreply", "Add k flags=1 exptime=2 len=3 noreply");
    check("replace k 4294967295 -1 0", "Replace k flags=4294967295 exptime=-1 len=0");
    check("append  k  1  2  3 ", "Append k flags=1 exptime=2 len=3");
    check("prepend k 1 1893456000 3", "Prepend k flags=1 exptime=1893456000 len=3");
    check("cas k 1 2 3 4", "Cas(4) k flags=1 exptime=2 len=3");
    check(
        "cas k 1 2 3 18446744073709551615 noreply",
        "Cas(18446744073709551615) k flags=1 exptime=2 len=3 noreply",
    );
    check("set k 1 2 3 what ever", "Set k flags=1 exptime=2 len=3");
    check("set k 1 2 3 what noreply", "Set k flags=1 exptime=2 len=3 noreply");
    check("set k 1 2 3 noreply what", "Set k flags=1 exptime=2 len=3");
    check("set k 1 2", BAD_FORMAT);
    check("set k 1 2 noreply", BAD_FORMAT);
}

#[test]
fn flags_and_exptime_of_storage_commands_are_parsed_as_in_c() {
    check("set k 4294967296 0 1", "Set k flags=0 exptime=0 len=1");
    check("set k +7 0\t9 1", "Set k flags=7 exptime=0 len=1");
    check("set k \t 3 1", "Set k flags=3 exptime=3 len=1");
    check("set k 0 99999999999 1", "Set k flags=0 exptime=1215752191 len=1");
    check("set k -18446744073709551615 0 1", "Set k flags=1 exptime=0 len=1");
    check("set k -1 0 1", &format!("{BAD_FORMAT} swallow 3"));
    check("set k 18446744073709551616 0 1", &format!("{BAD_FORMAT} swallow 3"));
    check("set k 0x1 0 1", &format!("{BAD_FORMAT} swallow 3"));
}

#[test]
fn the_value_of_a_refused_storage_command_is_discarded() {
    let long = "k".repeat(251);
    check(&format!("set {long} 0 0 10"), &format!("{BAD_FORMAT} swallow 12"));
    check(&format!("set {long} 0 0 10 noreply"), "\"\" swallow 12");
    check("cas k 0 0 1", &format!("{BAD_FORMAT} swallow 3"));
    check("cas k 0 0 1 noreply", "\"\" swallow 3");
    check("cas k 0 0 1 -1", &format!("{BAD_FORMAT} swallow 3"));
}

#[test]
fn after_a_malformed_length_nothing_is_discarded() {
    for len in ["-1", "2147483646", "99999999999", "000000000001", "x", "1x", "+1"] {
        check(&format!("set k 0 0 {len} noreply"), BAD_FORMAT);
    }
    check("set k 0 0 2147483645", "Set k flags=0 exptime=0 len=2147483645");
    check("set k 0 0 -", "Set k flags=0 exptime=0 len=0");
    check("set k 0 0 -0", "Set k flags=0 exptime=0 len=0");
}

#[test]
fn noreply_counts_only_as_the_last_word_but_there_always() {
    check("delete k noreply", "Delete { key: k, noreply: true }");
    check("delete k 0 noreply", "Delete { key: k, noreply: true }");
    check("delete k noreply 0", "Delete { key: k, noreply: false }");
    check("delete k 0", "Delete { key: k, noreply: false }");
    check("delete noreply", "Delete { key: noreply, noreply: true }");
    check("incr k noreply", "\"\"");
    check("noreply", "\"\"");
    check("unknown noreply", "\"\"");
    check("version noreply", "Version");
    check("delete", BAD_FORMAT);
    check("touch noreply", BAD_FORMAT);
}

#[test]
fn arithmetic_and_touch_check_their_number() {
    check("incr k 5", "Arithmetic { mode: Increment, key: k, delta: 5, noreply: false }");
    check(
        "decr k 18446744073709551615 noreply",
        "Arithmetic { mode: Decrement, key: k, delta: 18446744073709551615, noreply: true }",
    );
    check("incr k -1", "\"CLIENT_ERROR invalid numeric delta argument\"");
    check("incr k", BAD_FORMAT);
    check(&format!("incr {} x", "k".repeat(251)), BAD_FORMAT);
    check("touch k -1", "Touch { key: k, exptime: -1, noreply: false }");
    check("touch k x", "\"CLIENT_ERROR invalid exptime argument\"");
    check("touch k", BAD_FORMAT);
}

#[test]
fn only_administrative_commands_may_be_indented() {
    check(" get a", "\"ERROR\"");
    check("  mn", "\"ERROR\"");
    check("    ", "\"ERROR\"");
    check("  flush_all", "FlushAll { delay: Ok(0), noreply: false }");
}

#[test]
fn commands_are_lower_case_and_whole_words() {
    for input in
        ["GET a", "getx a", "mnx", "mx foo", "se k 0 0 1", "sets k 0 0 1", "misbehave", "debugtime 1"]
    {
        check(input, "\"ERROR\"");
    }
    check("mn ever", "MetaNoop");
    check("quit it", "Quit");
}

#[test]
fn auto_discovery_has_one_spelling() {
    check("config get cluster", "Discover");
    check("  config  get  cluster ", "Discover");
    for input in
        ["config", "config get", "config get clusters", "config set cluster 0 1", "config get cluster x"]
    {
        check(input, "\"ERROR\"");
    }
    check("config get noreply", "\"\"");
    check("config get HTTP/1.1", "\"\" close");
}

#[test]
fn an_http_request_closes_the_connection() {
    check("GET / HTTP/1.1", "\"\" close");
    check("unknown HTTP/", "\"\" close");
    check("GET /", "\"\" close");
    check("POST /cache?x=1 noreply", "\"\" close");
    check("GET k", "\"ERROR\"");
    check("FETCH /", "\"ERROR\"");
    check("HTTP/1.1 200", "\"ERROR\"");
    check("HTTP/1.1", "\"ERROR\"");
    check("flush_all HTTP/1.1", "FlushAll or \"CLIENT_ERROR invalid exptime argument\"");
}

#[test]
fn meta_get_reads_every_flag() {
    check("mg foo", "mg foo []");
    check("mg foo v f c k t s h l q u", r#"mg foo ["v", "f", "c", "k", "t", "s", "h", "l", "q", "u"]"#);
    check("mg foo Oab T30 N-1 R5", r#"mg foo ["Oab", "T30", "N-1", "R5"] T=30 N=-1 R=5 Oab"#);
    check("mg foo C7 E8 P1 Lx", r#"mg foo ["C7", "E8", "P1", "Lx"] C=7 E=8"#);
    check("mg foo T-", r#"mg foo ["T-"] T=0"#);
    check("mg Zm9v b k", r#"mg base64:Zm9v ["b", "k"]"#);
    check("mg", BAD_FORMAT);
    check("mg ", BAD_FORMAT);
}

#[test]
fn meta_errors_come_in_memcacheds_order() {
    let error = |text: &str| format!("\"CLIENT_ERROR {text}\"");
    let long = "k".repeat(251);
    check("mg foo ~ v v", BAD_FORMAT);
    check(&format!("mg {long} v v"), BAD_FORMAT);
    check(&format!("mg foo{}", " v".repeat(19)), &error("options flags are too long"));
    check(&format!("mg foo{} ~", " v".repeat(21)), &error("options flags are too long"));
    check(&format!("mg foo{} ~", " v".repeat(20)), BAD_FORMAT);
    check("mg foo v v", &error("duplicate flag"));
    check("mg foo Tx v v", &error("duplicate flag"));
    check("mg foo S", &error("invalid flag"));
    check("mg foo 1 v v", &error("invalid flag"));
    check("mg foo [", &error("invalid flag"));
    check("mg foo T", &error("bad token in command line format"));
    check("mg foo Tx F", &error("bad token in command line format"));
    check("mg foo F Tx", &error("bad token in command line format"));
    check("mg foo F", BAD_FORMAT);
    check("mg !!!! b", &error("error decoding key"));
    check("mg !!!! b Tx", &error("bad token in command line format"));
    check("mg !!!! Tx b", &error("error decoding key"));
    check("mg foo J", &error("invalid numeric initial value"));
    check("mg foo Dx", &error("invalid numeric delta value"));
    check(&format!("mg foo O{} Tx", "o".repeat(32)), &error("bad token in command line format"));
    check(&format!("mg foo O{}", "o".repeat(32)), &error("opaque token too long"));
    check(&format!("mg foo O{}", "o".repeat(31)), &format!("mg foo [\"O{0}\"] O{0}", "o".repeat(31)));
}

#[test]
fn the_value_of_a_refused_meta_set_is_discarded_if_its_length_is_known() {
    check("ms foo 5 F9 T0 c", r#"ms foo len=5 Set ["F9", "T0", "c"] T=0 F=9"#);
    check("ms foo 0 ME", r#"ms foo len=0 Add ["ME"]"#);
    check("ms foo 0 MA N60", r#"ms foo len=0 Append ["MA", "N60"] N=60"#);
    check("ms foo 0 MP", r#"ms foo len=0 Prepend ["MP"]"#);
    check("ms foo 0 MReplace", r#"ms foo len=0 Replace ["MReplace"]"#);
    check("ms foo 0 M\0", r#"ms foo len=0 Set ["M\\x00"]"#);
    check("ms foo 1 M", "\"CLIENT_ERROR invalid mode for ms M token\" swallow 3");
    check("ms foo 1 Me", "\"CLIENT_ERROR invalid mode for ms M token\" swallow 3");
    check("ms foo 1 S", "\"CLIENT_ERROR invalid flag\" swallow 3");
    check(&format!("ms {} 1", "k".repeat(251)), &format!("{BAD_FORMAT} swallow 3"));
    for input in ["ms foo", "ms foo S1", "ms foo -1", "ms foo 2147483646", "ms foo 1 -"] {
        check(input, BAD_FORMAT);
    }
}

#[test]
fn meta_arithmetic_has_one_name_for_every_error() {
    check("ma foo", "ma foo Increment []");
    check("ma foo MD D5 J9 N0", r#"ma foo Decrement ["MD", "D5", "J9", "N0"] N=0 D=5 J=9"#);
    check("ma foo M- v t", r#"ma foo Decrement ["M-", "v", "t"]"#);
    check("ma foo M+", r#"ma foo Increment ["M+"]"#);
    check("ma foo MX", "\"CLIENT_ERROR invalid mode for ma M token\"");
    for input in ["ma foo S", "ma foo Dx", "ma foo v v", &format!("ma {}", "k".repeat(251))] {
        check(input, "\"CLIENT_ERROR invalid or duplicate flag\"");
    }
    check("ma foo ~", BAD_FORMAT);
    check("md foo q I T30 x", r#"md foo ["q", "I", "T30", "x"] T=30"#);
}

#[test]
fn meta_debug_decodes_a_key_only_if_another_word_follows() {
    check("me foo", "MetaDebug { key: foo }");
    check("me Zm9v b", "MetaDebug { key: Zm9v }");
    check("me Zm9v b x", "MetaDebug { key: base64:Zm9v }");
    check("me !!!! b x", BAD_FORMAT);
    check("me", BAD_FORMAT);
}

#[test]
fn a_prefix_of_a_statistics_topic_is_accepted() {
    let topic = |input: &str, expected: &str| {
        let line = format!("stats{input}\r\n");
        let Parsed::Head { request: Request::Stats { topic, .. }, .. } = parse(line.as_bytes()) else {
            panic!("stats");
        };
        assert_eq!(format!("{topic:?}"), expected, "of {input:?}");
    };
    topic("", "General");
    topic(" r", "Reset");
    topic(" set", "Settings");
    topic(" s", "Settings");
    topic(" c 1 2", "Cachedump(Ok(Cachedump { class: 1, limit: 2 }))");
    topic(" co", "Connections");
    topic(" items noreply", "Items");
    topic(" siz", "Other");
    topic(" sizes x", "Sizes");
    topic(" detail o", "Detail(Ok(On))");
    topic(" detail of", "Detail(Ok(Off))");
    topic(" bogus", "Other");
}

#[test]
fn arguments_of_administrative_commands_are_parsed() {
    check("flush_all noreply", "FlushAll { delay: Ok(0), noreply: true }");
    check("flush_all 10 noreply", "FlushAll { delay: Ok(10), noreply: true }");
    check("flush_all -5 x", "FlushAll { delay: Ok(-5), noreply: false }");
    check("verbosity 9 8 7", "Verbosity { level: 2, noreply: false }");
    check("verbosity", BAD_FORMAT);
    check("verbosity noreply", "\"\"");
    check("shutdown", "Shutdown { mode: Ok(Immediate), noreply: false }");
    check("shutdown g", "Shutdown { mode: Ok(Graceful), noreply: false }");
    check("cache_memlimit 64", "CacheMemlimit { megabytes: 64, noreply: false }");
    check("cache_memlimit", "\"ERROR\"");
    check("cache_memlimit 7", "\"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\"");
    check("cache_memlimit 1000000001", "\"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\"");
    check("refresh_certs noreply", "RefreshCerts { noreply: true }");
    check("watch", "Watch { streams: Ok({\"fetchers\"}) }");
    check("watch fetchers noreply", "Watch or \"ERROR\"");
    check("shutdown noreply", "Shutdown or \"CLIENT_ERROR invalid shutdown mode\"");
    check("watch p evic m", "Watch { streams: Ok({\"evictions\", \"mutations\", \"proxyreqs\"}) }");
}

#[test]
fn the_crawler_takes_classes() {
    check("lru_crawler enable", "LruCrawler { command: Enable, noreply: false }");
    check("lru_crawler d", "LruCrawler { command: Disable, noreply: false }");
    check("lru_crawler crawl 1,,3", "LruCrawler { command: Crawl(Some(Some(10))), noreply: false }");
    check("lru_crawler m all", "LruCrawler { command: Metadump(Some(All)), noreply: false }");
    check("lru_crawler mg hash", "LruCrawler { command: Mgdump(Some(Hash)), noreply: false }");
    check("lru_crawler crawl 64", "LruCrawler { command: Crawl(None), noreply: false }");
    check("lru_crawler tocrawl 5", "LruCrawler { command: Tocrawl(5), noreply: false }");
    check("lru_crawler sleep 2000000", "\"CLIENT_ERROR sleep must be one second or less\"");
    for input in ["lru_crawler", "lru_crawler crawl", "lru_crawler x all", "lru_crawler crawl 1 2"] {
        check(input, "\"ERROR\"");
    }
}

#[test]
fn queues_slabs_and_extstore_are_tuned() {
    check("slabs reassign 1 -2", "Slabs { command: Reassign(Ok((1, -2))), noreply: false }");
    check("slabs automove 2 noreply", "Slabs { command: Automove(Level(2)), noreply: true }");
    check("slabs automove 3", "\"ERROR\"");
    check("slabs automove x", BAD_FORMAT);
    check("slabs a r 0.5", "Slabs { command: Automove(Ratio(0.5)), noreply: false }");
    check("slabs automove freeratio 0.01", "Slabs { command: Automove(FreeRatio(0.01)), noreply: false }");
    check("slabs automove window 2", "\"CLIENT_ERROR automove window too low or too high\"");
    check(
        "lru tune 10 25 0.1 2",
        "Lru { command: Tune { hot_percent: 10, warm_percent: 25, hot_factor: 0.1, warm_factor: 2.0 }, noreply: false }",
    );
    check("lru tune 50 31 1 1", "\"ERROR hot and warm pcts must not exceed 80\"");
    check("lru tune 10 20 0 1", "\"ERROR hot/warm age factors must be greater than 0\"");
    check("lru mode f", "Lru { command: Mode(Flat), noreply: false }");
    check("lru t -1", "Lru { command: TempTtl(None), noreply: false }");
    check("lru t 5", "Lru { command: TempTtl(Some(5)), noreply: false }");
    check("lru", "\"ERROR\"");
    check("extstore i 512", "Extstore { knob: ItemSize(512), noreply: false }");
    check("extstore max_frag 0.8", "Extstore { knob: MaxFragmentation(0.8), noreply: false }");
    check("extstore free_memchunks 5 0", "Extstore { knob: FreeMemchunks, noreply: false }");
    check("extstore item_size", "\"ERROR\"");
}

#[test]
fn the_end_of_a_long_line_is_awaited_only_if_it_may_be_a_get() {
    assert_eq!(unfinished(&[b'a'; 2048]), Unfinished::Wait);
    assert_eq!(unfinished(&[b'a'; 2049]), Unfinished::Close);
    assert_eq!(unfinished(&b"gat 1 a ".repeat(300)), Unfinished::Close);
    assert!(matches!(unfinished(&b"get a ".repeat(400)), Unfinished::Keys { consumed: 4, .. }));
    let indented = [b" ".repeat(100), b"gets a ".repeat(400)].concat();
    assert!(matches!(unfinished(&indented), Unfinished::Keys { consumed: 105, .. }));
}
