//! The complete APIs of common client libraries, against the built binary.

use end_to_end::clients;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::process::Command;

/// Checks of libmemcached that are outdated: they require that `delete key 5` is refused, which 1.6.45 accepts, and so
/// does Evenkeel.
const MEMCCAPABLE_OUTDATED: [&str; 2] = ["delete", "delete noreply"];

#[track_caller]
fn start(driver: SocketDriver) -> Server {
    Server::start(&ServerUnderTest::evenkeel(driver), &["-m", "256"]).expect("a server")
}

#[track_caller]
fn check(command: Command, driver: SocketDriver) {
    let server = start(driver);
    match clients::passes(command, &server) {
        Ok(report) => println!("{report}"),
        Err(error) => panic!("{error:#}"),
    }
}

#[test]
fn pymemcache_works_with_epoll() {
    check(clients::python("pymemcache_api.py"), SocketDriver::Epoll);
}

#[test]
fn pymemcache_works_with_io_uring() {
    check(clients::python("pymemcache_api.py"), SocketDriver::Uring);
}

#[test]
fn pylibmc_works_with_epoll() {
    check(clients::python("pylibmc_api.py"), SocketDriver::Epoll);
}

#[test]
fn pylibmc_works_with_io_uring() {
    check(clients::python("pylibmc_api.py"), SocketDriver::Uring);
}

#[test]
fn gomemcache_works() {
    check(clients::gomemcache().expect("gomemcache"), SocketDriver::Uring);
}

#[test]
fn nodes_memcached_works() {
    check(clients::node(), SocketDriver::Uring);
}

#[test]
fn libmemcacheds_own_checker_passes() {
    for driver in SocketDriver::ALL {
        let server = start(driver);
        let tests = clients::memccapable(&server).expect("memccapable");
        let failed: Vec<&str> =
            tests.iter().filter(|(_, passed)| !passed).map(|(name, _)| name.as_str()).collect();
        assert!(tests.len() >= 25, "only {} tests ran: {tests:?}", tests.len());
        assert!(failed.iter().all(|name| MEMCCAPABLE_OUTDATED.contains(name)), "{driver:?}: {failed:?}");
    }
}
