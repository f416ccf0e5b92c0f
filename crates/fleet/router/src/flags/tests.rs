//! The table of flags, and command lines as mcrouter reads them.

use super::*;

#[track_caller]
fn read(line: &str) -> Result<RouteOptions, String> {
    let (words, notes) = known(line.split_whitespace().map(Into::into));
    let mut options = TABLE.parse(words).map_err(|error| error.to_string())?;
    options.notes.extend(notes);
    options.check(6).map_err(|error| error.to_string())
}

#[test]
fn the_flag_table_suits_clap() {
    TABLE.command(80).debug_assert();
}

#[test]
fn every_flag_is_documented_in_one_line() {
    for flag in TABLE.flags() {
        let (doc, details) = (flag.doc, flag.details);
        assert!(!doc.is_empty() && doc.len() <= 66, "{}: {doc:?} is {} long", flag.name, doc.len());
        assert!(!doc.ends_with('.'), "{}: a line of documentation is not a sentence", flag.name);
        assert!(details.is_empty() || details.ends_with('.'), "{}: details are sentences", flag.name);
        assert_eq!(flag.kind.takes_value(), !flag.value.is_empty(), "{}: a value has a name", flag.name);
    }
}

#[test]
fn names_and_letters_are_there_once() {
    let mut names: Vec<String> = TABLE.flags().map(|flag| flag.name.to_owned()).collect();
    names.extend(TABLE.flags().filter_map(|flag| flag.short.map(String::from)));
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn defaults_of_the_table_are_those_of_the_options() {
    let working = TABLE.flags().filter(|flag| flag.effect == Effect::Works);
    let words: Vec<String> =
        working.filter_map(|flag| flag.default.map(|default| format!("--{}={default}", flag.name))).collect();
    assert!(words.len() > 10);
    assert_eq!(TABLE.parse(words).expect("defaults"), RouteOptions::default());
}

#[test]
fn a_command_line_of_mcrouter_is_read() {
    let line = "-p 5000,5001 -f /etc/mcrouter/conf.json -R /west/c1/ -t 200 --cross-region-timeout-ms=300 -r 500 \
        --timeouts-until-tko 5 --proxy-threads=auto --send-invalid-route-to-default=1 --disable-tko-tracking=0 \
        --config-params pool:a,x:1 --listen-addresses=127.0.0.1,::1";
    let options = read(line).expect(line);
    assert_eq!(options.tcp_ports().expect("ports"), [5000, 5001]);
    assert_eq!(options.source(), Some(ConfigSource::File("/etc/mcrouter/conf.json".into())));
    assert_eq!(options.hosts().collect::<Vec<_>>(), ["127.0.0.1", "::1"]);
    assert_eq!((options.proxies, options.server_timeout_ms, options.health.probe_initial_ms), (6, 200, 500));
    assert!(options.invalid_to_default && !options.health.disabled);
    assert_eq!(options.name_of_router(), "5000");
    assert!(options.named().contains(&("failures_until_tko".to_owned(), "5".to_owned())));
    assert!(options.notes.is_empty(), "{:?}", options.notes);
}

#[track_caller]
fn check_notes(line: &str, expected: &[&str]) {
    let line = format!("-p 1 -f a {line}");
    assert_eq!(read(&line).expect(&line).notes, expected, "{line}");
}

#[test]
fn options_without_effect_and_unknown_ones_are_lines() {
    let interval = "--proxy-cpu-interval-s has no effect here: there is no such statistic";
    check_notes("--proxy-cpu-interval-s=", &[interval]);
    check_notes("--debug-fifo-root= --stats-root= --config-dump-root=", &[]);
    assert_eq!(read("-p 1 -f a --stats-root=").expect("no folder").stats_root, None);
    check_notes("--proxy-cpu-interval-s --odd-value", &[interval]);
    check_notes("-a/var/spool/mcrouter", &[]);
    assert_eq!(read("-p 1 -f a -a /x").expect("a folder").async_dir, std::path::Path::new("/x"));
    assert!(!read("-p 1 -f a --asynclog-disable").expect("a switch").asynclog);
    check_notes("--thread-affinity=0", &[]);
    check_notes("--enable-flush-cmd", &[]);
    assert!(read("-p 1 -f a").expect("no switch").shutdown_enabled);
    assert!(!read("-p 1 -f a --disable-shutdown-cmd").expect("a switch").shutdown_enabled);
    check_notes("--frobnicate=7", &["unknown option `--frobnicate`: ignored, as mcrouter does"]);
    check_notes("-X", &["unknown option `-X`: ignored, as mcrouter does"]);
}

#[test]
fn unknown_options_take_the_word_behind_them_unless_it_is_a_flag() {
    let limit = "unknown option `--rss-limit-mb`: ignored with its value `16384`, as mcrouter does";
    check_notes("--rss-limit-mb 16384", &[limit]);
    check_notes("--rss-limit-mb 16384 --enable-flush-cmd", &[limit]);
    check_notes("--rss-limit-mb=16384", &["unknown option `--rss-limit-mb`: ignored, as mcrouter does"]);
    check_notes("-X 5", &["unknown option `-X`: ignored with its value `5`, as mcrouter does"]);
    check_notes("-X5", &["unknown option `-X`: ignored, as mcrouter does"]);
    let line = "-p 1 --rss-limit-mb 16384 -f a --frobnicate -R /eq/mw/";
    assert_eq!(read(line).expect(line).route_prefix, "/eq/mw/");
    check_refused("-p 1 -f a --rss-limit-mb 16384 flavor", "unexpected argument `flavor`");
    check_refused("-p 1 -f a --rss-limit-mb=16384 flavor", "unexpected argument `flavor`");
}

#[test]
fn switches_have_the_values_that_mcrouter_knows() {
    for (value, expected) in [
        ("1", true),
        ("true", true),
        ("Yes", true),
        ("on", true),
        ("0", false),
        ("no", false),
        ("OFF", false),
    ] {
        let line = format!("-p 1 -f a --enable-flush-cmd={value}");
        assert_eq!(read(&line).expect(&line).flush_enabled, expected, "{line}");
    }
    assert!(read("-p 1 -f a --enable-flush-cmd=perhaps").is_err());
}

#[test]
fn a_routing_prefix_may_lack_its_outer_slashes() {
    for text in ["/eq/mw/", "/eq/mw", "eq/mw/", "eq/mw"] {
        let line = format!("-p 1 -f a -R {text}");
        assert_eq!(read(&line).expect(&line).compile_options(0).default_prefix.as_str(), "/eq/mw/", "{line}");
    }
}

#[test]
fn a_file_can_be_named_for_the_process_id() {
    assert_eq!(read("-p 1 -f a -P /run/r.pid").expect("flags").pidfile, Some("/run/r.pid".into()));
    assert!(read("-p 1 -f a --allow-only-gets").expect("flags").compile_options(0).only_gets);
}

#[track_caller]
fn check_refused(line: &str, expected: &str) {
    assert_eq!(read(line).map(|options| options.notes), Err(expected.to_owned()), "{line}");
}

const NOWHERE: &str = "expected a place to listen on (-p PORT, --ssl-port PORT, --unix-domain-sock FILE or \
    --listen-sock-fd NUM), found none";

#[test]
fn what_would_not_be_done_is_refused() {
    check_refused("-f a", NOWHERE);
    check_refused("-p 1", "expected a configuration (--config file:PATH), found none");
    check_refused("-p 1,x -f a", "-p: expected ports from 0 to 65535, found `x`");
    check_refused("-p 1 -f a -R west", "-R: expected a routing prefix /region/cluster/, found `west`");
    check_refused("-p 1 -f a -R /a/b/c/", "-R: expected a routing prefix /region/cluster/, found `/a/b/c/`");
    check_refused("-p 1 -f a --num-proxies 0", "--num-proxies: expected a number from 1 to 1024, found `0`");
    let threads = "--proxy-threads: expected auto or a number from 1 to 1024, found `many`";
    check_refused("-p 1 -f a --proxy-threads many", threads);
    check_refused("-p 1 -f a --config-params x", "--config-params: expected name:value, found `x`");
    let additional = "--additional-config-params: expected name:value, found `x`";
    check_refused("-p 1 -f a --config-params a:b --additional-config-params x", additional);
    check_refused("-p 1 -f a --acl-checker-enforce", "--acl-checker-enforce: not supported yet");
    check_refused("-f a --listen-sock-fd=-1", NOWHERE);
    assert_eq!(read("-f a --listen-sock-fd=3").expect("a place").listen_fd, Some(3));
    check_refused("-p 1 -f a flavor", "unexpected argument `flavor`");
    assert_eq!(read("-p 1 -f a").expect("flags").compile_options(0).big_value, None);
    let big =
        read("-p 1 -f a --big-value-split-threshold 900000 --big-value-hide-reply-flag").expect("flags");
    let expected =
        crate::routes::requests::big_value::BigValue { threshold: 900_000, batch: 10, hides_flag: true };
    assert_eq!(big.compile_options(0).big_value, Some(expected));
}

#[test]
fn flags_of_tls_need_each_other() {
    let verify = "expected --pem-ca-path FILE with --ssl-verify-peers, found none";
    check_refused("-p 1 -f a --ssl-verify-peers", verify);
    let own = "expected both with --pem-cert-path or --pem-key-path, found none";
    check_refused("-p 1 -f a --pem-cert-path c", own);
    let names = "expected --ssl-verify-peers with --ssl-verify-names, found none";
    check_refused("-p 1 -f a --ssl-verify-names", names);
    let enforce = "--ssl-service-identity-authorization-enforce";
    let whom = format!("expected --ssl-service-identity NAME with {enforce}, found none");
    check_refused(&format!("-p 1 -f a --ssl-verify-peers --pem-ca-path c {enforce}"), &whom);
    let shown =
        "expected --server-pem-cert-path FILE and --server-pem-key-path FILE with --ssl-port, found none";
    check_refused("-f a --ssl-port 2", shown);
    check_refused("-f a --server-pem-cert-path c --ssl-port 2", shown);
    let both = "-f a --ssl-port 2 --pem-cert-path c --pem-key-path k --pem-ca-path a";
    let options = read(both).expect(both);
    assert_eq!((options.tls.server_cert, options.tls.server_ca), (Some("c".into()), None));
    assert_eq!(options.notes.len(), 1);
    let strict = format!("{both} --ssl-require-peer-certs");
    assert_eq!(read(&strict).expect(&strict).tls.server_ca, Some("a".into()));
    let other = format!("{both} --server-pem-cert-path s --server-pem-key-path t");
    let options = read(&other).expect(&other);
    assert_eq!((options.tls.server_cert, options.tls.server_ca), (Some("s".into()), None));
    assert!(options.notes.is_empty());
    let clients = "expected --server-pem-ca-path FILE with --ssl-require-peer-certs, found none";
    check_refused("-p 1 -f a --ssl-require-peer-certs", clients);
    let server = "-f a --server-pem-cert-path c --server-pem-key-path k --ssl-port";
    assert_eq!(read(&format!("{server} 2,3")).expect("ports").ssl_ports().expect("ports"), [2, 3]);
    check_refused(&format!("{server} x"), "--ssl-port: expected ports from 0 to 65535, found `x`");
    let line = format!(
        "-p 1 -f a --pem-cert-path c --pem-key-path k --pem-ca-path a --ssl-verify-peers=1 --ssl-connection-cache \
         --ssl-service-identity memcache --additional-ssl-service-identities x,y {enforce}"
    );
    let options = read(&line).expect("flags of mcrouter").tls;
    assert_eq!(options.identities, ["memcache", "x", "y"]);
    assert!(options.verify_peers && options.resumes && options.enforce_identity);
}

#[test]
fn the_first_of_three_sources_counts() {
    let source = |line: &str| read(&format!("-p 1 {line}")).expect(line).source();
    assert_eq!(source("-f a --config-str {}"), Some(ConfigSource::Text("{}".to_owned())));
    assert_eq!(source("-f a --config-str {} --config file:b"), Some(ConfigSource::File("b".into())));
    assert_eq!(source("--config {}"), Some(ConfigSource::Text("{}".to_owned())));
}

#[test]
fn imports_are_relative_to_the_file() {
    let import = |source: ConfigSource, path: &str| source.import(path).display().to_string();
    let file = || ConfigSource::File("/etc/route/all.json".into());
    assert_eq!(import(file(), "pools.json"), "/etc/route/pools.json");
    assert_eq!(import(file(), "file:pools.json"), "pools.json");
    assert_eq!(import(file(), "/srv/pools.json"), "/srv/pools.json");
    assert_eq!(import(ConfigSource::File("all.json".into()), "pools.json"), "pools.json");
}

#[test]
fn validate_config_takes_a_word_or_none() {
    let validate = |line: &str| read(line).expect(line).validate;
    assert_eq!(validate("-f a --validate-config"), Some(Validate::Exit));
    assert_eq!(validate("-p 1 -f a --validate-config=run"), Some(Validate::Run));
    assert_eq!(validate("-f a --validate-config -p 1"), Some(Validate::Exit));
}

#[test]
fn metrics_have_an_address_with_or_without_a_port() {
    let check = |text: &str, expected: Option<(Option<&str>, u16)>| {
        let options = RouteOptions { metrics_listen: Some(text.to_owned()), ..RouteOptions::default() };
        assert_eq!(options.metrics_address().ok().flatten(), expected, "{text}");
    };
    check("127.0.0.1", Some((Some("127.0.0.1"), 9442)));
    check("localhost:0", Some((Some("localhost"), 0)));
    check("*:80", Some((None, 80)));
    check("[::1]:80", Some((Some("::1"), 80)));
    check("[::1]", Some((Some("::1"), 9442)));
    check("::1", Some((Some("::1"), 9442)));
    for wrong in ["", ":80", "a:", "a:b", "a:65536", "[::1]80", "[::1", "[]:80"] {
        check(wrong, None);
    }
}
