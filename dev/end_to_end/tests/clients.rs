//! The complete APIs of common client libraries, against the built binary.

use end_to_end::clients;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::process::Command;

#[track_caller]
fn start(driver: SocketDriver) -> Server {
    Server::start(&ServerUnderTest::evenkeel(driver), &["-m", "256"]).expect("a server")
}

/// A server whose users are those that the client programs know.
#[track_caller]
fn start_with_users(driver: SocketDriver) -> Server {
    let users = clients::users_file().expect("a file of users");
    let users = users.to_str().expect("a readable path");
    Server::start(&ServerUnderTest::evenkeel(driver), &["-m", "256", "-S", "-Y", users]).expect("a server")
}

/// The program with a word before the server's address.
fn with(mut command: Command, word: &str) -> Command {
    command.arg(word);
    command
}

#[track_caller]
fn check(command: Command, driver: SocketDriver) {
    passes(command, &start(driver));
}

#[track_caller]
fn passes(command: Command, server: &Server) {
    match clients::passes(command, server) {
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
fn pylibmc_works_over_the_binary_protocol() {
    check(with(clients::python("pylibmc_api.py"), "binary"), SocketDriver::Epoll);
    check(with(clients::python("pylibmc_api.py"), "binary"), SocketDriver::Uring);
}

#[test]
fn pylibmc_works_as_a_user() {
    for driver in SocketDriver::ALL {
        passes(with(clients::python("pylibmc_api.py"), "sasl"), &start_with_users(driver));
    }
}

#[test]
fn telegraf_finds_its_fields_in_the_statistics() {
    for driver in SocketDriver::ALL {
        check(clients::python("telegraf_stats.py"), driver);
    }
}

#[test]
fn bmemcached_works() {
    check(clients::python("bmemcached_api.py"), SocketDriver::Epoll);
    check(clients::python("bmemcached_api.py"), SocketDriver::Uring);
}

#[test]
fn bmemcached_works_as_a_user() {
    let server = start_with_users(SocketDriver::Uring);
    passes(with(clients::python("bmemcached_api.py"), "sasl"), &server);
}

#[test]
fn memjs_works_also_as_a_user() {
    check(clients::node("memjs_api.js"), SocketDriver::Uring);
    let server = start_with_users(SocketDriver::Epoll);
    passes(with(clients::node("memjs_api.js"), "sasl"), &server);
}

#[test]
fn dalli_works_also_as_a_user() {
    check(clients::ruby("dalli_api.rb"), SocketDriver::Uring);
    let server = start_with_users(SocketDriver::Epoll);
    passes(with(clients::ruby("dalli_api.rb"), "sasl"), &server);
}

#[test]
fn gomemcache_works() {
    check(clients::gomemcache().expect("gomemcache"), SocketDriver::Uring);
}

#[test]
fn mc_works_also_as_a_user() {
    for driver in SocketDriver::ALL {
        check(clients::mc().expect("mc"), driver);
        passes(with(clients::mc().expect("mc"), "sasl"), &start_with_users(driver));
    }
}

#[test]
fn aiomcache_works() {
    for driver in SocketDriver::ALL {
        check(clients::python("aiomcache_api.py"), driver);
    }
}

#[test]
fn python_memcached_works() {
    for driver in SocketDriver::ALL {
        check(clients::python("python_memcached_api.py"), driver);
    }
}

#[test]
fn php_memcached_works_by_both_protocols_and_as_a_user() {
    for driver in SocketDriver::ALL {
        check(clients::php("api.php"), driver);
        check(with(clients::php("api.php"), "binary"), driver);
        passes(with(clients::php("api.php"), "sasl"), &start_with_users(driver));
    }
}

/// Both protocols with both drivers, and a user with one: each run starts another virtual machine.
#[track_caller]
fn java_works(class: &str, with_users: SocketDriver) {
    let program = || clients::java(class).expect("a Java program");
    for driver in SocketDriver::ALL {
        check(program(), driver);
        check(with(program(), "binary"), driver);
    }
    passes(with(program(), "sasl"), &start_with_users(with_users));
}

#[test]
fn spymemcached_works_by_both_protocols_and_as_a_user() {
    java_works("SpymemcachedApi", SocketDriver::Epoll);
}

#[test]
fn xmemcached_works_by_both_protocols_and_as_a_user() {
    java_works("XmemcachedApi", SocketDriver::Uring);
}

#[test]
fn nodes_memcached_works() {
    check(clients::node("api.js"), SocketDriver::Uring);
}

#[test]
fn libmemcacheds_own_checker_passes() {
    for driver in SocketDriver::ALL {
        let server = start(driver);
        let tests = clients::memccapable(&server, &[]).expect("memccapable");
        let failed: Vec<&str> =
            tests.iter().filter(|(_, passed)| !passed).map(|(name, _)| name.as_str()).collect();
        assert!(tests.len() >= 50, "only {} tests ran: {tests:?}", tests.len());
        assert!(
            failed.iter().all(|name| clients::MEMCCAPABLE_OUTDATED.contains(name)),
            "{driver:?}: {failed:?}"
        );
    }
}
