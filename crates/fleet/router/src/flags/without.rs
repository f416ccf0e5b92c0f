//! Options of mcrouter that have no effect here, and those that keep the router from starting.
//!
//! The second kind are options without which the router would do what was not asked for: serve clients that are to be
//! refused, listen nowhere, or hand out parts of values.

use ::flags::{Effect, Kind};

use super::entry::{RouteFlag, flag};

const FIBERS: Effect = Effect::Without("requests have no threads or fibers of their own");
const SHADOWS: Effect = Effect::Without("--target-max-shadow-requests is the limit of shadows");
const LIMITS: Effect =
    Effect::Without("this limit is not built: what waits is bounded by the window of each client");
const SOCKETS: Effect = Effect::Without("sockets keep the system's settings");
const TICKETS: Effect = Effect::Without("tickets have keys of another format: --tls-ticket-keys");
const ACL_NAME: Effect = Effect::Without("access lists are not built");
const IDENTITY: Effect = Effect::Without(
    "a name that does not suit is refused with --ssl-service-identity-authorization-enforce, or ignored",
);
const OFFLOAD: Effect = Effect::Without("TLS handshakes are always made by threads of their own");
const COMPRESSION: Effect = Effect::Without("nothing is compressed");
const RELOADING: Effect = Effect::Without("files are read once they have changed");
const STATISTICS: Effect = Effect::Without("there is no such statistic");
const LINES: Effect = Effect::Without("lines for the operator are on standard error");
const PROTOCOLS: Effect = Effect::Without("only memcached's text protocol is spoken");
const ROUTES: Effect = Effect::Without("no route here uses it");
const CPUS: Effect = Effect::Without("the number of threads is that of --num-proxies or --proxy-threads");
const OLD: Effect = Effect::Without("mcrouter ignores it, too");
const ACCESS: Effect = Effect::NotYet("access lists are not built");

const fn switch(name: &'static str, effect: Effect) -> RouteFlag {
    RouteFlag { effect, ..flag(None, name, "An option of mcrouter", "", |_, _| {}) }
}

const fn value(name: &'static str, effect: Effect) -> RouteFlag {
    switch(name, effect).takes("value", Kind::Text, "")
}

const fn lettered(letter: char, name: &'static str, effect: Effect) -> RouteFlag {
    RouteFlag { short: Some(letter), ..value(name, effect) }
}

pub(super) const FLAGS: &[RouteFlag] = &[
    switch("use-mux-io-thread-pool", FIBERS),
    value("fibers-max-pool-size", FIBERS),
    value("fibers-stack-size", FIBERS),
    value("fibers-record-stack-size-every", FIBERS),
    switch("disable-fibers-use-guard-pages", FIBERS),
    value("fibers-pool-resize-period-ms", FIBERS),
    value("max-no-flush-event-loops", FIBERS),
    switch("force-same-thread", FIBERS),
    switch("thread-affinity", FIBERS),
    switch("remote-thread", FIBERS),
    value("num-listening-sockets", FIBERS),
    switch("jemalloc-nodump-buffers", FIBERS),
    switch("enable-pass-through-mode", FIBERS),
    value("tcp-zero-copy-threshold", FIBERS),
    value("proxy-max-inflight-shadow-requests", SHADOWS),
    value("max-shadow-token-map-size", ROUTES),
    value("target-max-inflight-requests", LIMITS),
    value("target-max-pending-requests", LIMITS),
    value("proxy-max-inflight-requests", LIMITS),
    value("proxy-max-throttled-requests", LIMITS),
    value("waiting-request-timeout-ms", LIMITS),
    value("max-client-outstanding-reqs", LIMITS),
    value("client-timeout", LIMITS),
    lettered('K', "keepalive-count", SOCKETS),
    lettered('i', "keepalive-interval", SOCKETS),
    lettered('I', "keepalive-idle", SOCKETS),
    value("tcp-rto-min", SOCKETS),
    switch("enable-qos", SOCKETS),
    value("default-qos-class", SOCKETS),
    value("default-qos-path", SOCKETS),
    value("connect-timeout-retries", SOCKETS),
    value("collect-rxmit-stats-every-hz", SOCKETS),
    value("rxmit-latency-deviation-us", SOCKETS),
    value("min-rxmit-reconnect-threshold", SOCKETS),
    value("max-rxmit-reconnect-threshold", SOCKETS),
    value("xdp-tx-truncate-bytes", SOCKETS),
    switch("ssl-service-identity-authorization-log", IDENTITY),
    switch("ssl-handshake-offload", OFFLOAD),
    value("tls-ticket-key-seed-path", TICKETS),
    value("server-ssl-service-identity", ACL_NAME),
    switch("enable-compression", COMPRESSION),
    switch("enable-server-compression", COMPRESSION),
    value("thrift-compression-threshold", COMPRESSION),
    value("file-observer-poll-period-ms", RELOADING),
    value("file-observer-sleep-before-update-ms", RELOADING),
    switch("constantly-reload-configs", RELOADING),
    switch("dump_preprocessed_config_enabled", RELOADING),
    value("max_preprocessed_config_history", RELOADING),
    value("logging-rtt-outlier-threshold-us", STATISTICS),
    value("stats-async-queue-length", STATISTICS),
    value("proxy-cpu-interval-s", STATISTICS),
    value("server-load-interval-ms", STATISTICS),
    lettered('L', "log-path", LINES),
    switch("disable-failure-logging", LINES),
    switch("test-mode", LINES),
    switch("external-carbon-connection-logging-enabled", LINES),
    value("external-carbon-connection-log-rate-per-hour", LINES),
    value("external-carbon-connection-log-max-burst", LINES),
    value("external-carbon-connection-log-sample-rate", LINES),
    value("carbon-router-name", PROTOCOLS),
    switch("use-thrift", PROTOCOLS),
    value("thrift-port", PROTOCOLS),
    value("thrift-listen-sock-fd", PROTOCOLS),
    switch("disable-request-deadline-check", PROTOCOLS),
    switch("delete-carbon-instance-upon-init-failure", PROTOCOLS),
    switch("enable-service-router", PROTOCOLS),
    switch("enable-axonlog", PROTOCOLS),
    switch("group-remote-errors", ROUTES),
    switch("disable-send-to-main-shard-split", ROUTES),
    switch("disable-shard-split-route", ROUTES),
    switch("retain-source-ip", ROUTES),
    value("core-multiplier", CPUS),
    value("core-multiplier-threshold", CPUS),
    switch("gets", OLD),
    switch("skip-sanity-checks", OLD),
    switch("acl-checker-enable", ACCESS),
    switch("acl-checker-enforce", ACCESS),
    switch("prefix-acl-checker-enable", ACCESS),
    switch("key-client-binding-enable", ACCESS),
    switch("key-client-binding-nonlookaside-enable", ACCESS),
    value("key-client-binding-nonlookaside-verifier", ACCESS),
];
