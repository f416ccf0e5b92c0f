//! Names that dashboards and alerts for memcached and mcrouter use, on the pages of a server and of a router.
//!
//! The lists have the names and labels of memcached_exporter and mcrouter_exporter that the memcached mixin and dashboards for mcrouter
//! ask for. They are facts about others; a page that lacks one leaves a panel empty that worked before.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use super::processes::{Running, evenkeel, free_addresses, new_folder, wait_for};
use super::prometheus::get;

/// Of a server: a name, and labels with the values that are asked for, or any value.
const MEMCACHED: [&str; 23] = [
    "memcached_up",
    "memcached_version{version}",
    "memcached_uptime_seconds",
    "memcached_commands_total{command=get,status=hit}",
    "memcached_commands_total{command=get,status=miss}",
    "memcached_commands_total{command=set,status=hit}",
    "memcached_current_connections",
    "memcached_max_connections",
    "memcached_connections_total",
    "memcached_connections_rejected_total",
    "memcached_current_bytes",
    "memcached_limit_bytes",
    "memcached_current_items",
    "memcached_items_total",
    "memcached_items_evicted_total",
    "memcached_items_reclaimed_total",
    "memcached_read_bytes_total",
    "memcached_written_bytes_total",
    "memcached_process_user_cpu_seconds_total",
    "memcached_process_system_cpu_seconds_total",
    "memcached_slab_current_items{slab}",
    "memcached_slab_items_outofmemory_total{slab}",
    "memcached_slab_items_age_seconds{slab}",
];

/// Of a router.
const MCROUTER: [&str; 41] = [
    "mcrouter_up",
    "mcrouter_version{version}",
    "mcrouter_start_time_seconds",
    "mcrouter_commands{cmd=get}",
    "mcrouter_command_count{cmd=get}",
    "mcrouter_command_count{cmd=set}",
    "mcrouter_command_out{cmd=get}",
    "mcrouter_command_out_all{cmd=get}",
    "mcrouter_config_failures",
    "mcrouter_config_last_attempt",
    "mcrouter_config_last_success",
    "mcrouter_dev_null_requests",
    "mcrouter_duration_us",
    "mcrouter_proxy_reqs_processing",
    "mcrouter_proxy_reqs_waiting",
    "mcrouter_clients",
    "mcrouter_servers{state=up}",
    "mcrouter_servers{state=new}",
    "mcrouter_servers{state=closed}",
    "mcrouter_servers{state=down}",
    "mcrouter_request{type=sent}",
    "mcrouter_request_count{type=error}",
    "mcrouter_request_count{type=replied}",
    "mcrouter_request_count{type=success}",
    "mcrouter_results{reply=tko}",
    "mcrouter_result_count{reply=connect_error}",
    "mcrouter_result_all{reply=data_timeout}",
    "mcrouter_result_all_count{reply=busy}",
    "mcrouter_cpu_seconds_total",
    "mcrouter_resident_memory_bytes",
    "mcrouter_virtual_memory_bytes",
    "mcrouter_server_memcached_stored_count{server}",
    "mcrouter_server_memcached_not_stored_count{server}",
    "mcrouter_server_memcached_found_count{server}",
    "mcrouter_server_memcached_not_found_count{server}",
    "mcrouter_server_memcached_deleted_count{server}",
    "mcrouter_server_memcached_touched_count{server}",
    "mcrouter_server_memcached_exists_count{server}",
    "mcrouter_server_memcached_remote_error_count{server}",
    "mcrouter_server_memcached_connect_timeout_count{server}",
    "mcrouter_server_memcached_tko{server}",
];

/// Whether a page has a sample of this name with these labels.
fn has_sample(page: &str, asked: &str) -> bool {
    let (name, labels) =
        asked.split_once('{').map_or((asked, ""), |(name, rest)| (name, rest.trim_end_matches('}')));
    page.lines().filter(|line| !line.starts_with('#')).any(|line| {
        let Some(rest) = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' '])) else {
            return false;
        };
        labels.split(',').filter(|label| !label.is_empty()).all(|label| match label.split_once('=') {
            Some((label, value)) => rest.contains(&format!("{label}=\"{value}\"")),
            None => rest.contains(&format!("{label}=\"")),
        })
    })
}

#[track_caller]
fn check(metrics: SocketAddr, names: &[&str]) {
    let page = get(metrics, "/metrics").expect("a page");
    let missing: Vec<&str> = names.iter().copied().filter(|name| !has_sample(&page, name)).collect();
    assert!(missing.is_empty(), "the page lacks {}", missing.join(", "));
}

#[test]
fn dashboards_for_memcached_and_mcrouter_find_their_names() {
    let Some(evenkeel) = evenkeel() else { return };
    let [server, server_metrics, router, router_metrics] = free_addresses();
    let folder = new_folder("names");
    let mut serve = Command::new(&evenkeel);
    serve.args(["serve", "-l", "127.0.0.1", "-p", &server.port().to_string(), "-t", "1", "-u", "root"]);
    let _server = Running::start(serve.arg(format!("--metrics-listen={server_metrics}")), &folder, "server");
    let mut route = Command::new(&evenkeel);
    let config =
        format!("{{\"pools\":{{\"main\":{{\"servers\":[\"{server}\"]}}}},\"route\":\"PoolRoute|main\"}}");
    route.args([
        "route",
        "-p",
        &router.port().to_string(),
        "--listen-addresses",
        "127.0.0.1",
        "--asynclog-disable",
    ]);
    route.arg(format!("--config={config}"));
    let router_process =
        Running::start(route.arg(format!("--metrics-listen={router_metrics}")), &folder, "router");
    let exchange = || {
        let mut client = TcpStream::connect(router).ok()?;
        client.write_all(b"set a 0 0 1\r\nx\r\nget a b\r\nquit\r\n").ok()?;
        let mut reply = String::new();
        client.read_to_string(&mut reply).ok()?;
        // A server that does not listen yet is unavailable for a while.
        (reply == "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n").then_some(())
    };
    assert!(wait_for(exchange).is_some(), "no answers: {}", router_process.said());
    check(server_metrics, &MEMCACHED);
    check(router_metrics, &MCROUTER);
}

#[test]
fn samples_are_found_by_name_and_labels() {
    let page = "# TYPE a_b counter\na_b{c=\"d\",e=\"f\"} 1\na_b_c 2\n";
    for (asked, expected) in [
        ("a_b{c=d}", true),
        ("a_b{c=d,e}", true),
        ("a_b_c", true),
        ("a_b{c=x}", false),
        ("a_b_c{c}", false),
        ("a", false),
    ] {
        assert_eq!(has_sample(page, asked), expected, "{asked}");
    }
}
