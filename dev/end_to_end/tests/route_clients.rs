//! The complete APIs of common client libraries through a router, with three servers behind it.

use end_to_end::clients;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::process::Command;

/// A router, and its servers: Debian's memcached and two of ours.
struct Routed {
    router: Server,
    _servers: [Server; 3],
}

fn routed() -> Routed {
    let start = |subject: &ServerUnderTest| Server::start(subject, &["-m", "256"]).expect("a server");
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    let servers = [
        memcached,
        ServerUnderTest::evenkeel(SocketDriver::Epoll),
        ServerUnderTest::evenkeel(SocketDriver::Uring),
    ]
    .map(|s| start(&s));
    let addresses = servers.each_ref().map(|server| format!("\"{}\"", server.address())).join(", ");
    let configuration =
        format!(r#"{{"pools": {{"A": {{"servers": [{addresses}]}}}}, "route": "PoolRoute|A"}}"#);
    // Whoever waits for a busy machine is no finding.
    let flags = ["--config", &configuration, "--enable-flush-cmd", "--num-proxies=2", "-t", "60000"];
    Routed { router: Server::start_router(&flags).expect("a router"), _servers: servers }
}

/// All checks of a program pass but these, which are about what a router does not have: a server's statistics.
#[track_caller]
fn check(command: Command, failing: &[&str]) {
    match clients::passes_but(command, &routed().router, failing) {
        Ok(report) => println!("{report}"),
        Err(error) => panic!("{error:#}"),
    }
}

#[test]
fn all_of_pymemcache_works_through_a_router() {
    check(clients::python("pymemcache_api.py"), &["the_server_is_asked_about_itself"]);
}

#[test]
fn pylibmc_works_through_a_router() {
    check(clients::python("pylibmc_api.py"), &[]);
}

#[test]
fn gomemcache_works_through_a_router() {
    check(clients::gomemcache().expect("gomemcache"), &[]);
}

#[test]
fn nodes_memcached_works_through_a_router() {
    check(clients::node("api.js"), &["the server is asked about itself"]);
}

#[test]
fn aiomcache_works_through_a_router() {
    check(clients::python("aiomcache_api.py"), &["the_server_is_asked_about_itself"]);
}

#[test]
fn python_memcached_works_through_a_router() {
    check(clients::python("python_memcached_api.py"), &["the_server_is_asked_about_itself"]);
}

#[test]
fn php_memcached_works_through_a_router() {
    check(clients::php("api.php"), &["the server is asked about itself", "all keys are listed"]);
}

#[test]
fn spymemcached_works_through_a_router() {
    let program = clients::java("SpymemcachedApi").expect("a Java program");
    check(program, &["the server is asked about itself"]);
}

#[test]
fn xmemcached_works_through_a_router() {
    let program = clients::java("XmemcachedApi").expect("a Java program");
    check(program, &["the server is asked about itself", "keys are listed"]);
}

#[test]
fn libmemcacheds_own_checker_passes_through_a_router() {
    let tests = clients::memccapable(&routed().router, &["-a"]).expect("memccapable");
    let failed: Vec<&str> =
        tests.iter().filter(|(_, passed)| !passed).map(|(name, _)| name.as_str()).collect();
    assert!(tests.len() >= 20, "only {} tests ran: {tests:?}", tests.len());
    assert!(failed.iter().all(|name| clients::MEMCCAPABLE_OUTDATED.contains(name)), "{failed:?}");
}
