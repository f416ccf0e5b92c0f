//! Placement of threads and connections (`--pin`, `-N`, `--busy-poll`) in a running server.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::collections::BTreeMap;
use std::fs;

fn start(driver: SocketDriver, flags: &[&str]) -> Server {
    Server::start(&ServerUnderTest::evenkeel(driver), flags).expect("it starts")
}

/// CPUs that each worker may use, by its name.
fn cpus_of_workers(server: &Server) -> BTreeMap<String, String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("its threads");
    let worker = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned();
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        name.starts_with("worker-").then(|| (name, cpus.trim().to_owned()))
    };
    tasks.flatten().filter_map(worker).collect()
}

/// A statistic, and that the server answers.
fn stat(client: &mut Client, name: &str) -> u64 {
    assert_eq!(client.ask(b"set a 0 0 1\r\nx\r\n").expect("an answer"), "STORED");
    client.statistic(name).expect("an answer")
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn pinned_threads_have_a_cpu_each() {
    let threads = cpus().min(2);
    for driver in [SocketDriver::Epoll, SocketDriver::Uring] {
        let server = start(driver, &["-t", &threads.to_string(), "--pin"]);
        let placed = || {
            Some(cpus_of_workers(&server)).filter(|all| all.values().all(|cpus| cpus.parse::<u32>().is_ok()))
        };
        let placed = clock::wait_for(placed).expect("each has one CPU");
        assert_eq!(placed.len(), threads, "{placed:?}");
        let different: std::collections::BTreeSet<_> = placed.values().collect();
        assert_eq!(different.len(), threads, "{placed:?}");
        let mut client = Client::new(server.connect().expect("a connection"));
        assert_eq!(stat(&mut client, "curr_items"), 1);
        assert!(!server.said().contains("pin"), "{}", server.said());
    }
}

#[test]
fn more_pinned_threads_than_cpus_are_refused_with_both_numbers() {
    let threads = (cpus() + 1).to_string();
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let error = Server::start(&subject, &["-t", &threads, "--pin"]).expect_err("too few CPUs");
    let expected = format!("(-t {}), found -t {threads}; the CPUs are ", cpus());
    assert!(format!("{error:#}").contains(&expected), "{error:#}");
}

#[test]
fn connections_without_a_receive_queue_are_dealt_in_turn() {
    let server = start(SocketDriver::Epoll, &["-t", "2", "-N", "2"]);
    let mut clients: Vec<Client> =
        (0..6).map(|_| Client::new(server.connect().expect("a connection"))).collect();
    for client in &mut clients {
        assert_eq!(client.ask(b"set a 0 0 1\r\nx\r\n").expect("an answer"), "STORED");
    }
    // The loopback has none.
    assert!(stat(&mut clients[0], "round_robin_fallback") >= 6);
    assert_eq!(stat(&mut clients[0], "unexpected_napi_ids"), 0);
}

#[test]
fn a_server_that_polls_serves_also_where_the_kernel_refuses_it() {
    for driver in [SocketDriver::Epoll, SocketDriver::Uring] {
        let server = start(driver, &["-t", "2", "-N", "2", "--busy-poll", "20"]);
        let mut client = Client::new(server.connect().expect("a connection"));
        assert_eq!(stat(&mut client, "curr_items"), 1);
        // Before Linux 6.9, and in some containers, there is one line, however many threads there are.
        let said = server.said();
        assert!(said.lines().filter(|line| line.contains("busy polling")).count() <= 1, "{said}");
    }
}
