//! Consistency of the table of flags, and its comparison with memcached's list.

use std::collections::HashSet;

use ::flags::show_size;

use super::*;

/// Letters and long names that memcached 1.6.45 takes, built with everything.
const MEMCACHED: &str = "a unix-mask A enable-shutdown Z enable-ssl p port s unix-socket U udp-port m memory-limit \
    M disable-evictions c conn-limit k lock-memory h help i license V version r enable-coredumps v verbose \
    d daemon l listen u user P pidfile f slab-growth-factor n slab-min-size t threads L enable-largepages \
    R max-reqs-per-event C disable-cas b listen-backlog B protocol I max-item-size S enable-sasl \
    F disable-flush-all X disable-dumping W disable-watch Y auth-file e memory-file o extended N napi-ids";

/// Its sub-options of -o.
const MEMCACHED_OPTIONS: &str = "maxconns_fast hashpower no_hashexpand slab_reassign slab_automove \
    slab_automove_ratio slab_automove_window tail_repair_time hash_algorithm lru_crawler lru_crawler_sleep \
    lru_crawler_tocrawl lru_maintainer hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor temporary_ttl \
    idle_timeout watcher_logbuf_size worker_logbuf_size slab_sizes slab_chunk_max track_sizes \
    no_inline_ascii_resp modern no_modern no_chunked_items no_slab_reassign no_slab_automove no_maxconns_fast \
    inline_ascii_resp no_lru_crawler no_lru_maintainer no_drop_privileges drop_privileges resp_obj_mem_limit \
    read_buf_mem_limit ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers ssl_ca_cert \
    ssl_wbuf_size ssl_session_cache ssl_kernel_tls ssl_min_version proxy_config proxy_arg proxy_uring \
    proxy_memprofile relaxed_privileges sock_cookie_id ext_page_size ext_wbuf_size ext_threads ext_io_depth \
    ext_path ext_item_size ext_item_age ext_low_ttl ext_recache_rate ext_compact_under ext_drop_under \
    ext_max_sleep ext_max_frag ext_write_rate ext_dwpd ext_drop_unread slab_automove_freeratio";

#[test]
fn every_flag_of_memcached_is_in_the_table_and_ours_are_known() {
    let words: Vec<_> = MEMCACHED.split_whitespace().collect();
    for pair in words.chunks(2) {
        let found = TABLE.flags().find(|flag| flag.name == pair[1]);
        assert_eq!(
            found.and_then(|flag| flag.short).map(String::from).as_deref(),
            Some(pair[0]),
            "{}",
            pair[1]
        );
    }
    let ours: Vec<_> = TABLE.flags().map(|flag| flag.name).filter(|name| !words.contains(name)).collect();
    // memcached knows -D by its letter only.
    let expected = "fast-open listen-fd udp-allow udp-xdp udp-xdp-mode udp-reply-rate driver pin busy-poll tls-certificate tls-ticket-keys tls-roles \
        tls-handshake-threads tls-handshakes-max tls-handshake-timeout prefix-delimiter \
        metrics-listen cluster-file takeover check log";
    assert_eq!(ours.join(" "), expected);
}

#[test]
fn the_sub_options_are_those_of_memcached_and_two_of_ours() {
    let expected: HashSet<_> = MEMCACHED_OPTIONS.split_whitespace().chain(["optimise", "policy"]).collect();
    let found: HashSet<_> = TABLE.options().map(|option| option.name).collect();
    assert_eq!(found, expected);
    assert_eq!(TABLE.options().count(), expected.len(), "no name is there twice");
}

#[test]
fn the_flag_table_suits_clap() {
    TABLE.command(80).debug_assert();
}

#[test]
fn every_entry_is_documented_in_one_line() {
    for flag in TABLE.flags().chain(TABLE.options()) {
        let (doc, details) = (flag.doc, flag.details);
        assert!(!doc.is_empty() && doc.len() <= 66, "{}: {doc:?} is {} long", flag.name, doc.len());
        assert!(doc.starts_with(|first: char| first.is_uppercase()), "{}: {doc:?}", flag.name);
        assert!(!doc.ends_with('.'), "{}: a line of documentation is not a sentence", flag.name);
        assert!(details.is_empty() || details.ends_with('.'), "{}: details are sentences", flag.name);
        assert_eq!(flag.kind.takes_value(), !flag.value.is_empty(), "{}: a value has a name", flag.name);
    }
}

/// A text that the kind accepts.
fn example(kind: Kind) -> Option<String> {
    match kind {
        Kind::Number { max, .. } | Kind::NumberOr { max, .. } => Some(max.to_string()),
        Kind::Real { max, .. } => Some(max.min(10.0).to_string()),
        Kind::Octal => Some("770".to_owned()),
        Kind::Size { max, .. } | Kind::SizeOrShare { max, .. } => Some(show_size(max)),
        Kind::OneOf(words) => Some(words[words.len() - 1].to_owned()),
        Kind::Character => Some("/".to_owned()),
        Kind::Text | Kind::List => Some("text".to_owned()),
        Kind::Switch | Kind::Count | Kind::Help | Kind::Version => None,
    }
}

#[test]
fn every_entry_accepts_the_values_of_its_kind() {
    for flag in TABLE.flags().chain(TABLE.options()) {
        let typed = example(flag.kind);
        let given = flag.kind.read(typed.as_deref()).unwrap_or_else(|_| panic!("{}: {typed:?}", flag.name));
        (flag.set)(&mut LowArgs::default(), given);
    }
}

#[test]
fn the_default_in_the_help_is_the_default() {
    for flag in TABLE.flags().filter(|flag| flag.name != "prefix-delimiter") {
        let Some(default) = flag.default else { continue };
        let mut low = LowArgs::default();
        let given = flag.kind.read(Some(default)).unwrap_or_else(|_| panic!("{}: {default}", flag.name));
        (flag.set)(&mut low, given);
        assert_eq!(low.options, LowArgs::default().options, "{}", flag.name);
    }
    for option in TABLE.options() {
        let mut low = LowArgs::default();
        match option.default {
            Some("on") => (option.set)(&mut low, Given::Present),
            Some(default) => {
                let given = option.kind.read(Some(default)).unwrap_or_else(|_| panic!("{}", option.name));
                (option.set)(&mut low, given);
            }
            None => continue,
        }
        assert_eq!(low.options, LowArgs::default().options, "{}", option.name);
    }
}

#[test]
fn help_fits_its_terminal_and_lists_everything() {
    for columns in [80, 120] {
        for text in [TABLE.command(columns).render_help(), TABLE.command(columns).render_long_help()] {
            let text = text.to_string();
            for line in text.lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
            for flag in TABLE.flags() {
                assert!(text.contains(&format!("--{}", flag.name)), "{}", flag.name);
            }
            for option in TABLE.options() {
                assert!(text.contains(option.name), "{}", option.name);
            }
        }
    }
}

#[test]
fn the_long_help_describes_each_sub_option() {
    let text = TABLE.command(120).render_long_help().to_string();
    for option in TABLE.options() {
        let is_its = |line: &str| line.trim_start().starts_with(option.name) && line.contains(option.doc);
        assert!(text.lines().any(is_its), "{}", option.name);
    }
}
