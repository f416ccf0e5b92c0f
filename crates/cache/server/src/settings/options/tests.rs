//! Command lines and the resulting options.

use std::io;
use std::path::Path;

use ::tls::{CertificateFiles, Ciphers, KeyFormat};

use super::*;
use crate::settings::flags::{self, Error};

fn files(path: &Path) -> io::Result<String> {
    match path.to_str() {
        Some("/users") => Ok("ann:pass word\nbob:b:c\r\n".to_owned()),
        Some("/broken") => Ok("ann:x\nsecret\n".to_owned()),
        Some("/empty") => Ok("\n".to_owned()),
        Some("/long") => Ok(format!("a{}", ":".repeat(300))),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

fn read(line: &str) -> Result<Options, Error> {
    Options::new(flags::parse(line.split_whitespace())?, &files)
}

/// The command line means the default with these changes.
#[track_caller]
fn check(line: &str, change: impl FnOnce(&mut Options)) {
    let mut wanted = Options::default();
    change(&mut wanted);
    let mut found = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    // Settings that are only echoed, and notes, have tests of their own.
    (found.echo, found.notes) = (wanted.echo.clone(), wanted.notes.clone());
    assert_eq!(found, wanted, "{line}");
}

#[track_caller]
fn check_listeners(line: &str, wanted: &str) {
    let options = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let found: Vec<_> = options
        .listeners
        .iter()
        .map(|listen| match listen {
            Listen::Tcp { host, port, secure, protocol } => {
                let check = secure.map_or(String::new(), |check| format!(" {check:?}"));
                let protocol = protocol.map_or(String::new(), |protocol| format!(" {protocol:?}"));
                format!("{} {port}{check}{protocol}", host.as_deref().unwrap_or("any"))
            }
            Listen::Udp { host, port, protocol } => {
                let protocol = protocol.map_or(String::new(), |protocol| format!(" {protocol:?}"));
                format!("udp {} {port}{protocol}", host.as_deref().unwrap_or("any"))
            }
            Listen::Unix { path, mask } => format!("{} {mask:o}", path.display()),
            Listen::Inherited(number) => format!("#{number}"),
        })
        .collect();
    assert_eq!(found.join(", "), wanted, "{line}");
}

/// The command line is refused with this message, and this hint if there is one (after ` | `).
#[track_caller]
fn check_error(line: &str, wanted: &str) {
    let error = read(line).expect_err(line);
    let hint = error.hint().map_or(String::new(), |hint| format!(" | {hint}"));
    assert_eq!(format!("{error}{hint}"), wanted, "{line}");
}

#[test]
fn an_empty_command_line_means_the_defaults() {
    check("", |_| {});
}

#[test]
fn memory_is_counted_in_megabytes_and_items_in_bytes() {
    check("-m 1024", |options| options.memory_limit_bytes = 1 << 30);
    check("-m4g", |options| options.memory_limit_bytes = 4 << 30);
    check("--memory-limit=100", |options| options.memory_limit_bytes = 100 << 20);
    check("-I 2m", |options| options.item_size_max_bytes = 2 << 20);
    check("-I 1024", |options| options.item_size_max_bytes = 1024);
    check("-I 512K", |options| options.item_size_max_bytes = 512 << 10);
    check("-m 2g -I 1g", |options| {
        (options.memory_limit_bytes, options.item_size_max_bytes) = (2 << 30, 1 << 30)
    });
    check("-M -C", |options| (options.evictions, options.cas) = (false, false));
}

#[test]
fn the_usual_start_script_works() {
    check("-d -m 64 -p 11211 -u memcache -l 127.0.0.1 -P /run/x.pid -c 4096 -vv", |options| {
        options.listeners = vec![Listen::Tcp {
            host: Some("127.0.0.1".to_owned()),
            port: 11211,
            secure: None,
            protocol: None,
        }];
        (options.connection_limit, options.connection_limit_is_default) = (4096, false);
        options.verbosity = 2;
        options.process.daemonize = true;
        options.process.user = Some("memcache".to_owned());
        options.process.pidfile = Some("/run/x.pid".into());
    });
}

#[test]
fn threads_turns_and_driver_are_taken() {
    check("-t 8 -R 20", |options| (options.threads, options.requests_per_turn) = (8, 20));
    check("--driver uring", |options| options.driver = Driver::Uring);
    check("--driver=epoll", |options| options.driver = Driver::Epoll);
    check("--pin --busy-poll 50", |options| (options.pin, options.busy_poll_us) = (true, 50));
    check_error("--busy-poll 1000001", "--busy-poll: expected a number from 0 to 1000000, found `1000001`");
    check("-B ascii", |options| options.protocol = Protocol::Ascii);
    check("-B binary", |options| options.protocol = Protocol::Binary);
    check("-k -r", |options| (options.process.lock_memory, options.process.core_dumps) = (true, true));
}

#[test]
fn commands_are_allowed_and_forbidden() {
    check("-A -FXW", |options| {
        options.shutdown = true;
        (options.flush_all, options.dumping, options.watch) = (false, false, false);
    });
    check("-D /", |options| (options.prefix_delimiter, options.detail) = (b'/', true));
}

#[test]
fn sub_options_may_come_in_one_list_or_several() {
    let change = |options: &mut Options| {
        (options.idle_timeout_s, options.track_sizes, options.maxconns_fast) = (Some(30), true, false)
    };
    check("-o idle_timeout=30,track_sizes,no_maxconns_fast", change);
    check("-o idle_timeout=30 -o track_sizes -o no_maxconns_fast,", change);
    check("-o maxconns_fast,idle_timeout=0", |_| {});
    check("-o watcher_logbuf_size=1,worker_logbuf_size=2", |options| {
        (options.watcher_log_bytes, options.worker_log_bytes) = (1024, 2048)
    });
}

#[test]
fn as_with_getopt_the_last_value_holds_and_names_may_be_shortened() {
    check("-t 2 -t 3", |options| options.threads = 3);
    check("--thr 3", |options| options.threads = 3);
    check("-MM", |options| options.evictions = false);
}

#[test]
fn tcp_is_served_unless_only_a_unix_socket_is_asked_for() {
    check_listeners("", "any 11211");
    check_listeners("-p 0 -s /s", "/s 700");
    check_listeners("-s /s -a 0777", "/s 777");
    check_listeners("-s /s -p 1", "any 1, /s 700");
    check_listeners("-s /s -l ::1", "::1 11211, /s 700");
    check_listeners("-p -1", "any 0");
    let long = "x".repeat(108);
    check_error(
        &format!("-s {long}"),
        &format!("-s {long}: expected a path of at most 107 bytes, found 108"),
    );
}

#[test]
fn without_any_listener_the_server_starts_and_says_so() {
    for line in ["-p 0", "-p 0 -l 127.0.0.1", "-U 0 -p 0"] {
        check_listeners(line, "");
        let warnings = read(line).expect("accepted").warnings;
        assert_eq!(
            warnings,
            [
                "-p 0 turns TCP off, and neither -s nor -U is given: no address is served, and no client can connect"
            ],
            "{line}"
        );
    }
    assert_eq!(read("-p 0 -s /s").expect("accepted").warnings, [""; 0]);
}

#[test]
fn a_share_of_memory_is_one_of_what_was_found() {
    let read = |line: &str, found| {
        let mut low = flags::parse(line.split_whitespace()).expect(line);
        low.memory_found = found;
        Options::new(low, &files).map(|options| options.memory_limit_bytes >> 20)
    };
    let (container, host) = (Some(MemoryFound::Limit(1 << 30)), Some(MemoryFound::Host(8 << 30)));
    assert_eq!(read("-m auto", container).expect("a limit"), 929);
    assert_eq!(read("-m 50%", host).expect("a limit"), 4096);
    // The last one counts, whatever it is.
    assert_eq!(read("-m 50% -m 100", host).expect("a limit"), 100);
    assert_eq!(read("-m 100 -m 50%", host).expect("a limit"), 4096);
    let error = read("-m auto", None).expect_err("unknown").to_string();
    assert!(error.starts_with("-m auto: this host does not say"), "{error}");
    check_error(
        "-m 0%",
        &format!(
            "-m: expected a size in megabytes (or with k, m, g) from 1m to {}, or auto, or a share such as 80%, found `0%`",
            ::flags::show_size(store::MEMORY_LIMIT_MAX)
        ),
    );
}

/// The listeners of a command line in a process to which systemd has passed `activated`.
fn activated(line: &str, activated: &[i32]) -> Result<Vec<Listen>, Error> {
    let mut low = flags::parse(line.split_whitespace())?;
    low.activated = activated.into();
    Ok(Options::new(low, &files)?.listeners)
}

#[test]
fn inherited_sockets_are_served_alone_unless_others_are_asked_for() {
    check_listeners("--listen-fd 3", "#3");
    check_listeners("--listen-fd 7 --listen-fd 3,4", "#7, #3, #4");
    check_listeners("--listen-fd 3 -p 0", "#3");
    check_listeners("--listen-fd 3 -p 1", "any 1, #3");
    check_listeners("--listen-fd 3 -l h", "h 11211, #3");
    check_listeners("--listen-fd 3 -s /s", "/s 700, #3");
    check_listeners("--listen-fd 3 -U 5", "udp any 5, #3");
    check_listeners("--listen-fd 3 -s /s -p 1", "any 1, /s 700, #3");
    let passed = [Listen::Inherited(3), Listen::Inherited(4)];
    assert_eq!(activated("", &[3, 4]).expect("accepted"), passed);
    assert_eq!(activated("-p 0", &[3, 4]).expect("accepted"), passed);
    let any = Listen::Tcp { host: None, port: 1, secure: None, protocol: None };
    assert_eq!(activated("-p 1", &[3]).expect("accepted"), [any, Listen::Inherited(3)]);
    assert_eq!(activated("--listen-fd 9", &[3]).expect("accepted"), [9, 3].map(Listen::Inherited));
}

#[test]
fn a_descriptor_that_cannot_be_one_and_one_that_is_given_twice_are_refused() {
    for bad in ["2", "-1", "x", "3x", "99999999999", ",", "3,"] {
        let wanted = format!("--listen-fd {bad}: expected descriptors from 3 on, separated by commas");
        check_error(&format!("--listen-fd={bad}"), &wanted);
    }
    check_error("--listen-fd 3,4 --listen-fd 3", "--listen-fd 3: given twice");
    let error = activated("--listen-fd 4", &[3, 4]).expect_err("twice");
    assert_eq!(error.to_string(), "--listen-fd 4: given twice (LISTEN_FDS passes it, too)");
}

#[test]
fn queues_of_listeners_have_the_given_lengths() {
    check("-b 7", |options| options.backlog = Some(7));
    check("-b 0", |options| options.backlog = Some(0));
    check("--fast-open 64", |options| options.fast_open = 64);
    check("--fast-open 0 -p 11211", |_| {});
    check_listeners("--fast-open 1 -s /s -p 1", "any 1, /s 700");
    check_listeners("--fast-open 1 --listen-fd 3", "#3");
    check_listeners("--fast-open 0 -s /s", "/s 700");
    check_error("--fast-open 1 -s /s", "--fast-open 1: expected a TCP listener, found none");
    check_error("--fast-open 1 -p 0 -U 5", "--fast-open 1: expected a TCP listener, found none");
    check_error("--fast-open -1", "--fast-open: expected a number from 0 to 2147483647, found `-1`");
}

#[test]
fn addresses_are_read_as_memcached_reads_them() {
    check_listeners(
        "-l 10.0.0.1,10.0.0.2:1;[::1]:2,fe80::1,*,*:3 -l h -p 9",
        "10.0.0.1 9, 10.0.0.2 1, ::1 2, fe80::1 9, any 9, any 3, h 9",
    );
    check_listeners(
        "-l proto[ascii]:tag[a]:127.0.0.1:5,tag_b_:[::1],proto[negotiating]:h,proto[binary]:[::1]:7 -U 9",
        "127.0.0.1 5 Ascii, ::1 9, h 9 Auto, ::1 7 Binary, \
         udp 127.0.0.1 5 Ascii, udp ::1 9, udp h 9 Auto, udp ::1 7 Binary",
    );
    check_listeners("-l h:-1,h:-1", "h 0");
    check_error("-l h:x", "-l h:x: expected a port from 0 to 65535, found `x`");
    check_error("-l [::1", "-l [::1: expected `]` after the IPv6 address");
    check_error("-l [::1]x", "-l [::1]x: expected `:port` after the IPv6 address, found `x`");
    check_error("-l :80", "-l :80: expected a name, an address or *, found nothing");
    check_error("-l tag[123456789]:h", "-l tag[123456789]:h: expected a tag of 1 to 8 characters, found 9");
    check_error("-l tag[x", "-l tag[x: expected `]:` or `_:` after the tag");
    check_error(
        "-l proto[x]:h",
        "-l proto[x]:h: expected the protocol ascii, binary or negotiating, found `x`",
    );
    check_error("-l proto[proxy]:h", "-l proto[proxy]:h: the proxy is not a mode of the server");
    check_error("-l proto[ascii", "-l proto[ascii: expected `]:` after the protocol");
    check_error(
        "-l proto[binary]:h -Y /users",
        "-Y and proto[binary]: expected -S as well, without which the binary protocol has no login",
    );
    check_listeners("-l proto[binary]:h,proto[ascii]:i -S -Y /users", "h 11211 Binary, i 11211 Ascii");
    check_listeners("-l notls:h", "h 11211");
    check_error("-l mtls:h", "-l mtls:h: `mtls:` is valid only with -Z");
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest_one() {
    check_error("--memroy-limit 5", "unknown flag `--memroy-limit` | did you mean `--memory-limit`?");
    check_error("--memroy 5", "unknown flag `--memroy` | did you mean `--memory-limit`?");
    check_error("--mem 5", "`--mem` is short for --memory-limit and for --memory-file");
    check_error("--frobnicate", "unknown flag `--frobnicate` | `evenkeel serve --help` lists the flags");
    check_error("-x", "unknown flag `-x` | `evenkeel serve --help` lists the flags");
    check_error("-o maxconn_fast", "-o maxconn_fast: unknown option | did you mean `maxconns_fast`?");
    check_error("-o track", "-o track: unknown option | did you mean `track_sizes`?");
    check_error("-o x=1", "-o x: unknown option | `evenkeel serve --help` lists the options of -o");
}

#[test]
fn a_bad_value_is_refused_with_what_is_accepted() {
    check_error("-p 65536", "-p: expected a number from -1 to 65535, found `65536`");
    check_error("-t 0", "-t: expected a number from 1 to 1024, found `0`");
    check_error("-c 0", "-c: expected a number from 1 to 10000000, found `0`");
    check_error("-R 0", "-R: expected a number from 1 to 2147483647, found `0`");
    check_error("-a 888", "-a: expected permission bits in octal, from 0 to 777, found `888`");
    check_error("-f 1", "-f: expected a number above 1, found `1`");
    check_error("-p x", "-p: expected a number from -1 to 65535, found `x`");
    check_error("-m", "-m: expected a value, found nothing");
    check_error("--daemon=yes", "-d: expected no value, found `yes`");
    check_error("-B text", "-B: expected one of auto, ascii, binary, found `text`");
    check_error("-I 512", "-I: expected a size (or with k, m, g) from 1k to 1g, found `512`");
    check_error("-I 2g", "-I: expected a size (or with k, m, g) from 1k to 1g, found `2g`");
    check_error(
        "-m 0",
        "-m: expected a size in megabytes (or with k, m, g) from 1m to 4096g, or auto, or a share such as 80%, found `0`",
    );
    check_error("-o idle_timeout", "-o idle_timeout: expected a number from 0 to 2147483647, found nothing");
    check_error("-o hashpower=11", "-o hashpower: expected a number from 12 to 32, found `11`");
    check_error(
        "-o hash_algorithm=md5",
        "-o hash_algorithm: expected one of jenkins, murmur3, xxh3, found `md5`",
    );
}

#[test]
fn flags_are_compared_with_each_other() {
    check_error("-I 33m", "-I 33m: expected at most half of the memory limit (-m 64m), which is 32m");
    check_error("-m 4 -I 3m", "-I 3m: expected at most half of the memory limit (-m 4m), which is 2m");
    check_error("-N 5", "-N 5: expected at most the number of threads (-t 4)");
    check_error("-o hot_lru_pct=50", "-o hot_lru_pct=50,warm_lru_pct=40: expected at most 80 together");
    check_error(
        "-o temporary_ttl=5,no_lru_maintainer",
        "-o temporary_ttl: expected lru_maintainer to be on as well",
    );
}

#[test]
fn udp_is_served_at_the_addresses_of_tcp() {
    check_listeners("-U 11211", "any 11211, udp any 11211");
    check_listeners("-U 5", "any 5, udp any 5");
    check_listeners("-U -1", "any 0, udp any 0");
    check_listeners("-U 5 -p 6", "any 6, udp any 5");
    check_listeners("-U 5 -p 0", "udp any 5");
    check_listeners("-U 5 -l h,h:7", "h 5, h 7, udp h 5, udp h 7");
    check_listeners("-U 5 -s /s", "/s 700");
    for nothing in ["-U 0", "-U 00", "-U +0", "-U -0"] {
        check(nothing, |_| {});
    }
    check_error("-U 5 -Y /users", "-Y and -U: expected one of them, because a datagram cannot log in");
    check_listeners("-U 5 -B binary", "any 5, udp any 5");
    check_error(
        "-U 5 --udp-allow 10.0.0.0/40",
        "--udp-allow: expected a prefix of 0 to 32 bits, found `10.0.0.0/40`",
    );
    check_error(
        "--udp-allow x",
        "--udp-allow: expected a network such as 10.0.0.0/8 or an address, found `x`",
    );
    let options =
        read("-U 5 --udp-allow 192.0.2.7 --udp-allow=::1/128 --udp-reply-rate 1m").expect("accepted");
    let allows = |address: &str| {
        options.udp.allow.iter().any(|network| network.contains(address.parse().expect("an address")))
    };
    assert!(allows("192.0.2.7") && allows("::1") && !allows("127.0.0.1"));
    assert_eq!(options.udp.reply_bytes_per_second, 1 << 20);
}

#[test]
fn sasl_needs_users_and_the_binary_protocol() {
    check_error("-S", "-S: expected -Y as well, the file of users and passwords");
    let only = "-S: expected the protocol binary in -B, the only one with SASL";
    check_error("-S -Y /users -B ascii", only);
    check_error("-S -Y /users -B auto", only);
    let login = "-Y: expected -S as well, without which the binary protocol has no login";
    check_error("-Y /users -B binary", login);
    for line in ["-S -Y /users", "-S -Y /users -B binary"] {
        let options = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!((options.sasl, options.protocol), (true, Protocol::Binary), "{line}");
        assert_eq!(options.auth.expect("-Y was given").users.len(), 2);
    }
}

#[test]
fn flags_that_are_not_built_are_refused() {
    for option in flags::TABLE.options() {
        if !matches!(option.effect, flags::Effect::NotYet(_)) {
            continue;
        }
        let value = if option.kind.takes_value() { "=1" } else { "" };
        let error = read(&format!("-o {}{value}", option.name)).expect_err(option.name);
        assert_eq!(error.to_string(), format!("-o {}: not supported yet", option.name));
        assert!(error.hint().is_some(), "{}", option.name);
    }
}

#[test]
fn flags_without_effect_are_noted() {
    let options = read("-f 1.08 -o slab_reassign,lru_crawler_sleep=5 -t 100").expect("accepted");
    assert_eq!(
        options.notes,
        [
            "-f has no effect: memory has no slab classes; items of all sizes share it",
            "-o slab_reassign has no effect: memory has no slab classes; items of all sizes share it",
            "-o lru_crawler_sleep has no effect: expired items are reclaimed without a crawler thread",
            "-t 100: more threads than cores only cost memory",
        ]
    );
    assert_eq!(read("-m 100").expect("accepted").notes, [""; 0]);
}

/// What `-Z -o ssl_chain_cert=/c` with `more` means.
#[track_caller]
fn tls_options(more: &str) -> TlsOptions {
    let line = format!("-Z -o ssl_chain_cert=/c {more}");
    read(&line).unwrap_or_else(|error| panic!("{line}: {error}")).tls.expect("TLS is on")
}

#[test]
fn files_of_tls_are_named_by_options() {
    let pair =
        |chain: &str, key: Option<&str>| CertificateFiles { chain: chain.into(), key: key.map(Into::into) };
    let files = |more: &str| tls_options(more).settings.certificates;
    assert_eq!(files(""), [pair("/c", None)]);
    assert_eq!(files("-o ssl_key=/k"), [pair("/c", Some("/k"))]);
    assert_eq!(
        files("-o ssl_chain_cert=/d --tls-certificate /e --tls-certificate /f:/g"),
        [pair("/d", None), pair("/e", None), pair("/f", Some("/g"))]
    );
    let settings =
        tls_options("-o ssl_ca_cert=/a,ssl_verify_mode=1 --tls-ticket-keys /t --tls-roles /r").settings;
    let path = |path: &str| Some(path.into());
    assert_eq!(
        (settings.authorities, settings.ticket_keys, settings.roles),
        (path("/a"), path("/t"), path("/r"))
    );
}

#[test]
fn choices_about_tls_are_taken() {
    assert_eq!(
        tls_options(""),
        tls_options("-o ssl_keyformat=1,ssl_min_version=2,ssl_verify_mode=0,ssl_wbuf_size=1")
    );
    let more = "-o ssl_keyformat=2,ssl_min_version=3,ssl_session_cache,ssl_kernel_tls";
    let settings = tls_options(more).settings;
    assert_eq!(settings.key_format, KeyFormat::Der);
    assert!(settings.tls13_only && settings.session_cache && settings.kernel);
    let ciphers = tls_options("-o ssl_ciphers=ECDHE-RSA-AES128-GCM-SHA256").settings.ciphers;
    assert_eq!(ciphers, Ciphers::parse("ECDHE-RSA-AES128-GCM-SHA256"));
    let limits = tls_options("--tls-handshake-threads 3 --tls-handshakes-max 7 --tls-handshake-timeout 5");
    let limits = (limits.handshake_threads, limits.handshakes_max, limits.handshake_timeout_ms);
    assert_eq!(limits, (3, 7, 5000));
}

#[test]
fn listeners_are_encrypted_unless_their_prefix_says_otherwise() {
    let given = "-Z -o ssl_chain_cert=/c,ssl_ca_cert=/a";
    check_listeners(given, "any 11211 Never");
    for (mode, check) in [("0", "Never"), ("1", "IfShown"), ("2", "Always"), ("3", "Always")] {
        check_listeners(&format!("{given},ssl_verify_mode={mode}"), &format!("any 11211 {check}"));
    }
    check_listeners(
        &format!("{given},ssl_verify_mode=1 -l a,notls:b:1,btls:c,mtls:proto[ascii]:tag_x_:[::1]:2"),
        "a 11211 IfShown, b 1, c 11211 Never, ::1 2 Always Ascii",
    );
    check_listeners(&format!("{given} -s /s -p 1 -U 5 -l mtls:h"), "h 1 Always, udp h 5, /s 700");
    check_error(
        &format!("{given} -l notls:btls:h"),
        "-l notls:btls:h: expected a port from 0 to 65535, found `h`",
    );
}

#[test]
fn flags_of_tls_that_do_not_fit_together_are_refused() {
    let check = |more: &str, wanted: &str| check_error(&format!("-Z -o ssl_chain_cert=/c {more}"), wanted);
    check_error("-Z", "-Z: expected -o ssl_chain_cert=FILE as well, the server's certificate");
    check_error("--tls-roles /r", "--tls-roles: expected -Z as well");
    check_error("--tls-ticket-keys /t", "--tls-ticket-keys: expected -Z as well");
    check("-p 0 -s /s", "-Z: expected a TCP listener, the only kind that is encrypted");
    check("-s /s", "-Z: expected a TCP listener, the only kind that is encrypted");
    let authorities = "clients' certificates (-o ssl_verify_mode, `mtls:`): expected -o ssl_ca_cert=FILE as well, their authorities";
    check("-o ssl_verify_mode=1", authorities);
    check("-l mtls:h", authorities);
    check(
        "--tls-roles /r -o ssl_ca_cert=/a",
        "--tls-roles: expected -o ssl_verify_mode or `mtls:` as well, because roles follow from clients' certificates",
    );
    check(
        "--tls-roles /r -o ssl_ca_cert=/a,ssl_verify_mode=2 -U 5",
        "--tls-roles and -U: expected one of them, because a datagram comes without a certificate",
    );
    check("-o ssl_min_version=4", "-o ssl_min_version: expected a number from 0 to 3, found `4`");
    check("-o ssl_keyformat=3", "-o ssl_keyformat: expected a number from 1 to 2, found `3`");
    check("--tls-certificate :k", "--tls-certificate :k: expected FILE or FILE:FILE");
    check("--tls-certificate c:", "--tls-certificate c:: expected FILE or FILE:FILE");
    let many = "--tls-certificate /d ".repeat(256);
    check(&many, "--tls-certificate: expected at most 256 certificates, found 257");
}

#[test]
fn what_is_not_encrypted_is_noted() {
    let notes = |line: &str| read(line).expect(line).notes;
    let plain = ["-U: datagrams are not encrypted", "-s: the unix socket is not encrypted"];
    assert_eq!(notes("-Z -o ssl_chain_cert=/c -U 5 -p 5 -s /s"), plain);
    assert_eq!(notes("-o ssl_chain_cert=/c"), ["-o ssl_chain_cert: nothing is encrypted without -Z"]);
}

/// The users of a `-Y` file, or the error.
#[track_caller]
fn check_users(path: &str, wanted: &str) {
    let found = match read(&format!("-Y {path}")) {
        Ok(options) => format!("{:?}", options.auth.expect("-Y was given").users),
        Err(error) => error.to_string(),
    };
    assert_eq!(found, wanted, "{path}");
}

#[test]
fn users_come_from_a_file_and_no_error_shows_a_password() {
    check_users("/users", r#"[("ann", "pass word"), ("bob", "b:c")]"#);
    check_users("/none", "-Y /none: entity not found");
    check_users("/broken", "-Y /broken: line 2: expected user:password");
    check_users("/empty", "-Y /empty: expected at least one line of user:password, found none");
    check_users("/long", "-Y /long: line 1: expected at most 255 bytes, found 301");
}

/// `stats settings` of memcached 1.6.45 with TLS and the proxy, names only.
const SETTINGS: &str = "maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket umask \
    shutdown_command growth_factor chunk_size num_threads num_threads_per_udp stat_key_prefix detail_enabled \
    reqs_per_event cas_enabled tcp_backlog binding_protocol auth_enabled_sasl auth_enabled_ascii item_size_max \
    maxconns_fast hashpower_init slab_reassign slab_automove slab_automove_ratio slab_automove_window \
    slab_chunk_max lru_crawler lru_crawler_sleep lru_crawler_tocrawl tail_repair_time flush_enabled dump_enabled \
    hash_algorithm lru_maintainer_thread lru_segmented hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor \
    temp_lru temporary_ttl idle_timeout watcher_logbuf_size worker_logbuf_size read_buf_mem_limit track_sizes \
    inline_ascii_response ext_item_size ext_item_age ext_low_ttl ext_recache_rate ext_wbuf_size \
    ext_compact_under ext_drop_under ext_max_sleep ext_max_frag slab_automove_freeratio ext_drop_unread \
    ssl_enabled ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers ssl_ca_cert ssl_wbuf_size \
    ssl_session_cache ssl_kernel_tls ssl_min_version proxy_enabled proxy_uring_enabled num_napi_ids memory_file \
    client_flags_size";

#[test]
fn settings_are_those_of_memcached_in_its_order() {
    let options = Options::default();
    let names: Vec<_> = options.settings(&options.echo).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.join(" "), SETTINGS);
    assert_eq!(names.len(), 79);
}

#[test]
fn how_items_are_evicted_may_be_given() {
    let of = |line: &str| {
        read(line).map(|options| (options.optimise, options.policy.map(|policy| policy.to_string())))
    };
    let found = |line: &str| of(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(found("-m 64"), (store::Optimise::Objects, None));
    assert_eq!(found("-o policy=auto,optimise=bytes"), (store::Optimise::Bytes, None));
    assert_eq!(found("-o policy=plain:25:2:100").1.as_deref(), Some("plain:25:2:100"));
    check_error(
        "-o policy=lru",
        "-o policy: found `lru`, expected auto, or size or plain, the percent for new items (1 to 90), uses (1 to 3) and \
         the percent of memory whose evicted items are remembered (20 to 280, in steps of 20), as in size:10:1:200",
    );
}

#[track_caller]
fn check_settings(line: &str, wanted: &str) {
    let settings = |options: Options| options.settings(&options.echo);
    let before = settings(Options::default());
    let after = settings(read(line).unwrap_or_else(|error| panic!("{line}: {error}")));
    let changed = after.into_iter().filter(|line| !before.contains(line));
    let found: Vec<_> = changed.map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(found.join(", "), wanted, "{line}");
}

#[test]
fn settings_echo_the_given_values() {
    check_settings("-m 100 -M -C", "maxbytes 104857600, evictions off, cas_enabled no");
    check_settings("-s /s -a 770", "domain_socket /s, umask 770");
    check_settings("-l a -l b:1 -p 5", "tcpport 5, inter a,b:1");
    check_settings("-b 77", "tcp_backlog 77");
    check_settings("-f 1.5 -n 100 -N 2", "growth_factor 1.50, chunk_size 100, num_napi_ids 2");
    check_settings("-D # -B ascii", "stat_key_prefix #, detail_enabled yes, binding_protocol ascii");
    check_settings("-o no_slab_reassign,slab_automove=2", "slab_reassign no, slab_automove 2");
    check_settings(
        "-o temporary_ttl=7,tail_repair_time=60",
        "tail_repair_time 60, temp_lru yes, temporary_ttl 7",
    );
    check_settings("-Y /users", "binding_protocol ascii, auth_enabled_ascii /users");
    check_settings("-S -Y /users", "binding_protocol binary, auth_enabled_sasl yes");
    check_settings("-o ssl_ca_cert=/a,ssl_verify_mode=2", "ssl_verify_mode 3, ssl_ca_cert /a");
    check_settings(
        "-Z -o ssl_chain_cert=/c,ssl_key=/k,ssl_keyformat=2,ssl_wbuf_size=64,ssl_session_cache,ssl_kernel_tls",
        "ssl_enabled yes, ssl_chain_cert /c, ssl_key /k, ssl_keyformat 2, ssl_wbuf_size 65536, \
         ssl_session_cache yes, ssl_kernel_tls yes",
    );
    check_settings("-o slab_chunk_max=16,idle_timeout=9", "slab_chunk_max 16384, idle_timeout 9");
}

#[test]
fn less_memory_than_the_store_can_work_with_counts_as_the_least() {
    for line in ["-m 1", "-m 2", "-m 3", "-m 1024k"] {
        check(line, |options| options.memory_limit_bytes = store::MEMORY_LIMIT_MIN);
    }
    check("-m 5", |options| options.memory_limit_bytes = 5 << 20);
}

#[test]
fn a_file_of_members_is_a_path() {
    check("-e /dev/shm/items", |options| options.memory_file = Some("/dev/shm/items".into()));
    check("--takeover /run/next", |options| options.takeover = Some("/run/next".into()));
    check_error("--takeover /run/next -e /dev/shm/items", "-e: expected either it or --takeover, found both");
    check("--cluster-file /members", |options| options.cluster_file = Some("/members".into()));
    check("--cluster-file a --cluster-file b", |options| options.cluster_file = Some("b".into()));
}

#[test]
fn metrics_are_served_at_an_address_with_or_without_a_port() {
    let at = |host: Option<&str>, port| Some(MetricsAddress { host: host.map(Into::into), port });
    check("--metrics-listen 127.0.0.1", |options| options.metrics = at(Some("127.0.0.1"), 9150));
    check("--metrics-listen [::1]:0", |options| options.metrics = at(Some("::1"), 0));
    check("--metrics-listen *:80", |options| options.metrics = at(None, 80));
    check_error("--metrics-listen a:b", "--metrics-listen a:b: expected a port from 0 to 65535, found `b`");
    check_error(
        "--metrics-listen :1",
        "--metrics-listen :1: expected a name, an address or *, found nothing",
    );
}

/// A tier of one file.
fn tier(options: &mut Options) {
    options.flash.paths = vec!["/x:1g".parse().expect("a path")];
}

#[test]
fn options_of_flash_have_memcacheds_units() {
    check("-o ext_path=/x:1g", tier);
    check("-o ext_path=/x:1g,ext_page_size=8,ext_wbuf_size=2", |options| {
        tier(options);
        (options.flash.segment_bytes, options.flash.piece_bytes) = (8 << 20, 2 << 20);
    });
    let line = "-o ext_path=/x:1g,ext_item_size=100,ext_low_ttl=60,ext_recache_rate=7,ext_compact_under=3,ext_max_frag=0.5";
    check(line, |options| {
        tier(options);
        let settings = &mut options.flash.settings;
        (settings.item_size_min, settings.low_ttl_s, settings.recache_rate) = (100, 60, 7);
        (settings.free_min, settings.kept_max_percent) = (3, 50);
    });
    check("-o ext_path=/x:1g,ext_write_rate=11.6", |options| {
        tier(options);
        options.flash.settings.write_rate = 11_600_000;
    });
    check("-o ext_path=/x:1g,ext_path=/y:3g -o ext_dwpd=0.5", |options| {
        tier(options);
        options.flash.paths.push("/y:3g".parse().expect("a path"));
        options.flash.settings.write_rate = (4 << 30) / 2 / 86_400;
    });
    check_error(
        "-o ext_path=/x:1g,ext_dwpd=1,ext_write_rate=5",
        "-o ext_dwpd and ext_write_rate: expected one of them",
    );
    check_error(
        "-o ext_path=/x:1g,ext_write_rate=0",
        "-o ext_write_rate: expected a number above 0, found `0`",
    );
    check("-o ext_path=/x:1g -o ext_compact_under=3,ext_drop_under=9", |options| {
        tier(options);
        options.flash.settings.free_min = 9;
    });
    // Without effect, as what they name is done in any case, or does not exist here.
    let line = "-o ext_path=/x:1g,ext_item_age=60,ext_drop_unread,ext_threads=4,ext_io_depth=8,ext_max_sleep=1,\
        slab_automove_freeratio=0.5";
    check(line, tier);
    assert_eq!(read(line).expect("accepted").notes.len(), 6);
    check("-o ext_path=/x:1g -o ext_path=/y:2t:lowttl", |options| {
        tier(options);
        options.flash.paths.push("/y:2t:lowttl".parse().expect("a path"));
    });
}

#[test]
fn settings_show_what_is_given_for_flash() {
    check_settings(
        "-o ext_item_size=100,ext_item_age=60,ext_low_ttl=5,ext_recache_rate=7,ext_wbuf_size=2,ext_compact_under=3",
        "ext_item_size 100, ext_item_age 60, ext_low_ttl 5, ext_recache_rate 7, ext_wbuf_size 2097152, ext_compact_under 3",
    );
    check_settings(
        "-o ext_drop_under=3,ext_max_sleep=5,ext_max_frag=0.5,slab_automove_freeratio=0.5,ext_drop_unread",
        "ext_drop_under 3, ext_max_sleep 5, ext_max_frag 0.50, slab_automove_freeratio 0.500, ext_drop_unread yes",
    );
    check_settings("-o ext_path=/x:1g", "ext_max_frag 0.12, ext_write_rate 0.000");
    check_settings("-o ext_path=/x:1g,ext_dwpd=1", "ext_max_frag 0.12, ext_write_rate 0.012");
}

#[test]
fn options_of_flash_without_a_path_are_noted() {
    let notes = |line: &str| read(line).expect(line).notes;
    assert_eq!(notes("-o ext_item_size=100"), ["-o ext_…: nothing goes to flash without ext_path"]);
    assert_eq!(notes("-o ext_page_size=8"), ["-o ext_…: nothing goes to flash without ext_path"]);
    assert_eq!(notes("-o ext_item_size=512,ext_page_size=64"), [""; 0]);
    assert_eq!(notes("-o ext_path=/x:1g,ext_item_size=100"), [""; 0]);
}

#[test]
fn flash_that_cannot_work_is_refused() {
    let with = |flag: &str, why: &str| {
        check_error(
            &format!("-o ext_path=/x:1g {flag}"),
            &format!(
                "-o ext_path and {}: expected one of them, because {why}",
                flag.split(' ').next().expect("a flag")
            ),
        );
    };
    with("-U 11211", "a datagram does not wait for a read");
    check("-o ext_path=/x:1g -U 0", tier);
    check_error("-o ext_path=/x:4m", "-o ext_path: expected room for at least 5 pages of 64m, found 0");
    check("-o ext_path=/x:320m", |options| {
        options.flash.paths = vec!["/x:320m".parse().expect("a path")];
    });
    check_error("-o ext_page_size=0", "-o ext_page_size: expected a number from 1 to 4096, found `0`");
    let error = read("-o ext_path=/x").expect_err("no size").to_string();
    assert!(
        error.starts_with("-o ext_path: use `/x` as a path of the flash tier: it has no size"),
        "{error}"
    );
}

/// The line starts, with these warnings.
#[track_caller]
fn check_warned(line: &str, wanted: &[&str]) -> Options {
    let options = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(options.warnings, wanted, "{line}");
    options
}

#[test]
fn what_memcached_starts_with_starts_with_a_line_that_says_how_it_was_taken() {
    let ignored = |name: &str, value: &str| {
        format!("-o {name} {value}: the value is ignored, because the option takes none")
    };
    for name in ["maxconns_fast", "lru_crawler", "ext_drop_unread", "modern", "no_hashexpand", "track_sizes"]
    {
        check_warned(&format!("-o {name}=true"), &[&ignored(name, "true")]);
    }
    assert!(check_warned("-o maxconns_fast=0", &[&ignored("maxconns_fast", "0")]).maxconns_fast);
    assert_eq!(check_warned("-m 128MB", &["-m 128MB: taken as 128m"]).memory_limit_bytes, 128 << 20);
    assert_eq!(check_warned("-m 2GB", &["-m 2GB: taken as 2g"]).memory_limit_bytes, 2 << 30);
    assert_eq!(check_warned("-R 40x", &["-R 40x: taken as 40"]).requests_per_turn, 40);
    check_warned("-o idle_timeout=10m", &["-o idle_timeout 10m: taken as 10"]);
    check_warned("-m 64 stray", &["`stray` is ignored: it belongs to no flag"]);
    check_warned("-o read_buf_mem_limit=8192", &[]);
    check_error(
        "-m lots",
        "-m: expected a size in megabytes (or with k, m, g) from 1m to 4096g, or auto, or a share such as 80%, found `lots`",
    );
}

#[test]
fn what_an_operator_asked_for_and_does_not_get_is_said_at_every_start() {
    for (option, why) in [
        (
            "drop_privileges",
            "the server does not forbid itself system calls (seccomp); SystemCallFilter= of systemd can",
        ),
        ("sock_cookie_id=7", "sockets are not marked for packet filters (SO_MARK)"),
    ] {
        let name = option.split('=').next().expect("a name");
        check_warned(&format!("-o {option}"), &[&format!("-o {name} has no effect: {why}")]);
    }
    let tls = "-Z -o ssl_chain_cert=/c";
    check_warned(
        &format!("{tls},ssl_min_version=1"),
        &["-o ssl_min_version=1: TLS 1.2 is the least version, because TLS 1.0 and 1.1 are not supported"],
    );
    let ciphers = check_warned(&format!("{tls},ssl_ciphers=ECDHE-RSA-AES128-GCM-SHA256"), &[]).tls;
    let warned =
        read(&format!("{tls},ssl_ciphers=ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA")).expect("it starts");
    assert!(
        warned.warnings[0].starts_with("-o ssl_ciphers: `AES128-SHA`: not among"),
        "{:?}",
        warned.warnings
    );
    assert_eq!(warned.tls, ciphers);
}

#[test]
fn sizes_of_flash_are_made_to_fit() {
    let smaller =
        "-o ext_page_size: pages of 8m are used, because ext_path has room for 1 of 64m, and 5 are needed";
    let options = check_warned("-o ext_path=/x:64m", &[smaller]);
    assert_eq!((options.flash.segment_bytes, options.flash.piece_bytes), (8 << 20, 4 << 20));
    let options = check_warned(
        "-o ext_path=/x:319m",
        &[
            "-o ext_page_size: pages of 32m are used, because ext_path has room for 4 of 64m, and 5 are needed",
        ],
    );
    assert_eq!(options.flash.segment_bytes, 32 << 20);
    let pieces = |given: u32, used: &str, page: &str| {
        format!(
            "-o ext_wbuf_size={given}: {used} are used, the largest of 1, 2, 4, 8, 16, 32 and 64 below it of which pages of \
             {page} are made"
        )
    };
    check_warned("-o ext_path=/x:1g,ext_wbuf_size=3", &[&pieces(3, "2m", "64m")]);
    check_warned("-o ext_path=/x:1g,ext_page_size=6", &[&pieces(4, "2m", "6m")]);
    check_warned("-o ext_path=/x:1g,ext_page_size=100,ext_wbuf_size=100", &[&pieces(100, "4m", "100m")]);
    let options = check_warned(
        "-M -o ext_path=/x:1g",
        &["-o ext_path has no effect with -M: nothing goes to flash that is not evicted from memory"],
    );
    assert!(!options.flash.is_on());
}
