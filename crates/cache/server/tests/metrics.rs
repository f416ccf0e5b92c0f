//! Metrics: the families that dashboards for memcached_exporter rely on, and values that agree with what was done.

use net::sim::SimHost;
use server::Worker;
use server::metrics::Monitor;
use server::options::Options;
use stdx::clock::Now;
use stdx::exposition::{FamilyRead, read};

/// Names, kinds and labels.
const EXPORTER: &str = include_str!("metrics/memcached_exporter.txt");

/// A server with one worker, and what reads it.
fn server(options: &Options) -> (SimHost<Worker>, Monitor) {
    let options = Options { threads: 1, ..options.clone() };
    let worker = server::sim::worker(&options, 1_800_000_000_000, 1);
    let monitor = Monitor::of(&worker);
    (SimHost::new(worker), monitor)
}

fn say(host: &mut SimHost<Worker>, requests: &str) {
    let peer = host.connect();
    host.send(peer, requests.as_bytes());
}

fn families(monitor: &Monitor) -> Vec<FamilyRead> {
    let text = monitor.metrics(Now::at_ms(5000));
    read(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}"))
}

/// The value of a sample, of which each label is written `name=value`.
#[track_caller]
fn value(families: &[FamilyRead], name: &str, labels: &str) -> f64 {
    let samples = families.iter().flat_map(|family| &family.samples).filter(|sample| sample.name == name);
    let all = |labels: &[(String, String)]| -> String {
        labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    let found: Vec<f64> =
        samples.filter(|sample| all(&sample.labels) == labels).map(|sample| sample.value).collect();
    assert_eq!(found.len(), 1, "{name} {labels}");
    found[0]
}

#[test]
fn all_families_of_memcached_exporter_are_there_with_its_kinds_and_labels() {
    let (mut host, monitor) = server(&Options::default());
    say(&mut host, "set a 0 0 1\r\nx\r\nget a b\r\n");
    let families = families(&monitor);
    let expected: Vec<&str> = EXPORTER.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(expected.len(), 70);
    for line in expected {
        let mut words = line.split(' ');
        let (name, kind, labels) =
            (words.next().expect("a name"), words.next(), words.next().unwrap_or_default());
        let family =
            families.iter().find(|family| family.name == name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(Some(&*family.kind), kind, "{name}");
        assert!(!family.samples.is_empty(), "{name}");
        for sample in &family.samples {
            let found: Vec<&str> = sample.labels.iter().map(|(label, _)| &**label).collect();
            assert_eq!(found.join(","), labels, "{name}");
        }
    }
    // What is not theirs has our name.
    for family in families.iter().filter(|family| !EXPORTER.contains(&family.name)) {
        assert!(family.name.starts_with("evenkeel_"), "{}", family.name);
    }
}

/// Names and kinds with extstore.
const EXPORTER_EXTSTORE: &str = include_str!("metrics/memcached_exporter_extstore.txt");

#[test]
fn families_of_extstore_are_there_where_there_is_flash() {
    let mut options = Options { memory_limit_bytes: 16 << 20, ..Options::default() };
    options.flash.paths = vec!["/x:1g".parse().expect("a path")];
    let (_host, monitor) = server(&options);
    let families = families(&monitor);
    let expected: Vec<&str> = EXPORTER_EXTSTORE.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(expected.len(), 19);
    for line in expected {
        let (name, kind) = line.split_once(' ').expect("two words");
        let family =
            families.iter().find(|family| family.name == name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(&*family.kind, kind, "{name}");
        assert!(matches!(&family.samples[..], [one] if one.labels.is_empty()), "{name}");
    }
    assert_eq!(value(&families, "memcached_extstore_bytes_limit", ""), f64::from(1 << 30));
    assert_eq!(value(&families, "memcached_extstore_pages_free", ""), 16.0);
    assert_eq!(value(&families, "evenkeel_flash_not_written_total", "reason=no_room"), 0.0);
}

#[test]
fn values_are_those_of_the_commands() {
    let (mut host, monitor) = server(&Options::default());
    say(
        &mut host,
        "set a 0 0 1\r\nx\r\nset n 0 0 1\r\n7\r\nget a b c\r\ngats 9 a\r\ndelete a\r\ndelete a\r\n",
    );
    say(
        &mut host,
        "incr n 1\r\nincr m 1\r\ndecr n 1\r\ntouch n 5\r\ncas n 0 0 1 999\r\n1\r\nflush_all\r\nmn\r\n",
    );
    let families = families(&monitor);
    let commands = |command: &str, status: &str| {
        value(&families, "memcached_commands_total", &format!("command={command} status={status}"))
    };
    assert_eq!((commands("get", "hit"), commands("get", "miss")), (1.0, 2.0));
    assert_eq!((commands("set", "hit"), commands("cas", "badval")), (2.0, 1.0));
    assert_eq!((commands("delete", "hit"), commands("delete", "miss")), (1.0, 1.0));
    assert_eq!((commands("incr", "hit"), commands("incr", "miss"), commands("decr", "hit")), (1.0, 1.0, 1.0));
    assert_eq!((commands("touch", "hit"), commands("flush", "hit")), (2.0, 1.0));
    assert_eq!(value(&families, "memcached_limit_bytes", ""), 64.0 * 1024.0 * 1024.0);
    assert_eq!(value(&families, "memcached_max_connections", ""), 1024.0);
    assert_eq!(value(&families, "memcached_uptime_seconds", ""), 6.0);
    assert_eq!(value(&families, "memcached_time_seconds", ""), 1_800_000_005.0);
    assert_eq!(value(&families, "memcached_items_total", ""), 2.0);
    assert_eq!(value(&families, "evenkeel_meta_commands_total", ""), 1.0);
    assert_eq!(value(&families, "evenkeel_worker_commands_total", "worker=0 command=get"), 3.0);
}

#[test]
fn a_reset_of_the_statistics_does_not_change_the_counters_of_metrics() {
    let (mut host, monitor) = server(&Options::default());
    say(&mut host, "set a 0 0 1\r\nx\r\nget a\r\nstats reset\r\nget a\r\n");
    assert_eq!(value(&families(&monitor), "memcached_commands_total", "command=get status=hit"), 2.0);
}

#[test]
fn families_that_memcached_exporter_leaves_out_are_left_out() {
    let (mut host, monitor) = server(&Options::default());
    let has =
        |families: &[FamilyRead], name: &str| families.iter().any(|family| family.name.starts_with(name));
    // Without items there is no slab class.
    assert!(!has(&families(&monitor), "memcached_slab_"));
    say(&mut host, "lru_crawler disable\r\n");
    let families = families(&monitor);
    assert!(
        !has(&families, "memcached_lru_crawler_sleep")
            && has(&families, "memcached_lru_crawler_starts_total")
    );
}

#[test]
fn a_server_whose_workers_do_not_run_can_be_read_and_is_not_ready() {
    let options = Options { threads: 3, listeners: Vec::new(), ..Options::default() };
    let beginning = server::Beginning {
        clock: net::clock::Clock::start(),
        zero_unix_ms: 0,
        adopted: Vec::new(),
        tickets: None,
    };
    let bound = server::Server::bind(&options, Vec::new(), beginning, |_| {}).expect("no address to bind");
    let provisioned = bound.prepare(1, server::Memory::Anonymous, None).expect("memory");
    let monitor = provisioned.monitor();
    assert_eq!(value(&families(&monitor), "memcached_up", ""), 1.0);
    assert_eq!(monitor.readiness(), Err("0 of 3 workers have started".into()));
}

#[test]
fn the_report_has_the_same_statistics_as_numbers() {
    let (mut host, monitor) = server(&Options::default());
    say(&mut host, "set a 0 0 1\r\nx\r\nget a\r\n");
    let report: serde_json::Value = serde_json::from_str(&monitor.report(Now::at_ms(5000))).expect("JSON");
    assert_eq!(report["stats"]["get_hits"], 1);
    assert_eq!(report["stats"]["curr_items"], 1);
    assert_eq!(report["stats"]["items:1:number"], 1);
    assert_eq!(report["settings"]["growth_factor"], 1.25);
    assert_eq!(report["stats"]["slab_reassign_last_busy_status"], "none");
    assert_eq!(report["unix_ms"], 1_800_000_005_000_u64);
    assert_eq!(report["memory"]["limit_bytes"], 64 << 20);
}

#[test]
fn hot_keys_are_in_metrics_and_report_with_any_bytes_escaped_and_not_with_x() {
    let requests = "mn\r\nget a a a b\r\nmg ImEN b v\r\nmg DSIK b v\r\n";
    let (mut host, monitor) = server(&Options::default());
    say(&mut host, requests);
    let found = families(&monitor);
    assert_eq!(value(&found, "evenkeel_hot_key_share", "by=requests key=a"), 0.5);
    // The bytes of "DSIK" are a carriage return, a quote and a line feed.
    assert!(value(&found, "evenkeel_hot_key_share", "by=misses key=%0D\"%0A") > 0.16);
    let report: serde_json::Value = serde_json::from_str(&monitor.report(Now::at_ms(5000))).expect("JSON");
    assert_eq!(report["hot"]["requests"][0]["key"], "a");
    let (mut host, monitor) = server(&Options { dumping: false, ..Options::default() });
    say(&mut host, requests);
    assert!(families(&monitor).iter().all(|family| family.name != "evenkeel_hot_key_share"));
    assert!(!monitor.report(Now::at_ms(5000)).contains("requests"));
}

/// The samples of a family.
fn samples<'f>(families: &'f [FamilyRead], name: &str) -> &'f [stdx::exposition::SampleRead] {
    families.iter().find(|family| family.name == name).map_or(&[], |family| &family.samples)
}

#[test]
fn prefixes_are_shown_once_they_are_counted_and_not_with_x() {
    let (mut host, monitor) = server(&Options::default());
    say(&mut host, "get a:1\r\n");
    assert_eq!(samples(&families(&monitor), "evenkeel_prefixes").len(), 0);
    say(
        &mut host,
        "stats detail on\r\nset a:1 0 0 1\r\nx\r\nget a:1 a:2 b:1\r\ndelete b:1\r\nstats detail off\r\n",
    );
    let found = families(&monitor);
    let commands = |prefix: &str, command: &str, status: &str| {
        let labels = format!("prefix={prefix} command={command} status={status}");
        value(&found, "evenkeel_prefix_commands_total", &labels)
    };
    assert_eq!(
        (commands("a", "get", "hit"), commands("a", "get", "miss"), commands("a", "set", "any")),
        (1.0, 1.0, 1.0)
    );
    assert_eq!((commands("b", "get", "miss"), commands("b", "delete", "any")), (1.0, 1.0));
    assert_eq!(value(&found, "evenkeel_prefixes", ""), 2.0);
    let (mut host, monitor) = server(&Options { dumping: false, detail: true, ..Options::default() });
    say(&mut host, "get secret:1\r\n");
    assert!(!monitor.metrics(Now::at_ms(5000)).contains("secret"));
}

/// 20,000 prefixes of hostile bytes: quotes, backslashes, line feeds, braces, terminal escapes.
#[test]
fn prefixes_of_any_bytes_by_the_thousand_leave_a_page_that_can_be_read() {
    let (mut host, monitor) = server(&Options { detail: true, ..Options::default() });
    let peer = host.connect();
    for number in 0..20_000_u32 {
        // In base64, a key can have any bytes: the number and all of these.
        let key = format!("\"\\\n}}{{,= \x1b[2J{number}:\u{fe}");
        let request = format!("mg {} b v\r\n", base64(key.as_bytes()));
        host.send(peer, request.as_bytes());
    }
    let page = monitor.metrics(Now::at_ms(5000));
    assert!(page.len() < 200_000, "{} bytes", page.len());
    assert!(!page.contains('\x1b'), "no terminal is moved by it");
    let found = families(&monitor);
    let shown = samples(&found, "evenkeel_prefix_commands_total");
    assert_eq!(shown.len(), 50 * 4);
    assert!(shown.iter().all(|sample| sample.labels.len() == 3));
    assert_eq!(value(&found, "evenkeel_prefixes", ""), 16.0 * 1024.0);
    assert_eq!(value(&found, "evenkeel_prefix_uncounted_total", ""), 20_000.0 - 16.0 * 1024.0);
}

/// Base64 of a few bytes (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| -> String {
        let bits =
            (0..3).fold(0_u32, |bits, place| bits << 8 | u32::from(group.get(place).copied().unwrap_or(0)));
        let digit = |place: usize| DIGITS[(bits >> (18 - 6 * place) & 63) as usize] as char;
        (0..4).map(|place| if place <= group.len() { digit(place) } else { '=' }).collect()
    };
    bytes.chunks(3).map(group).collect()
}

#[test]
fn evictions_are_counted_by_the_time_since_the_last_use() {
    let (mut host, monitor) = server(&Options { memory_limit_bytes: 8 << 20, ..Options::default() });
    let value_len = 8000;
    let peer = host.connect();
    for number in 0..3000 {
        let request = format!("set {number} 0 0 {value_len}\r\n{}\r\n", "x".repeat(value_len));
        host.send(peer, request.as_bytes());
    }
    let found = families(&monitor);
    let count = value(&found, "evenkeel_evicted_idle_seconds_count", "");
    assert!(count > 0.0);
    assert_eq!(count, value(&found, "memcached_items_evicted_total", ""));
    assert_eq!(value(&found, "evenkeel_evicted_idle_seconds_bucket", "le=1048576"), count);
}
