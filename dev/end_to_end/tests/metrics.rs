//! The endpoint of metrics of a running server, and what its other port does with HTTP.

use checkout::workspace;
use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use stdx::exposition::{FamilyRead, read};

fn start(flags: &[&str]) -> Server {
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    Server::start(&subject, flags).expect("it starts")
}

/// The address of the endpoint, from the line at the start.
fn endpoint(server: &Server) -> SocketAddr {
    let address = || {
        let said = server.said();
        let (_, behind) = said.split_once("metrics at http://")?;
        behind.split_once("/metrics")?.0.parse().ok()
    };
    clock::wait_for(address).expect("the line at the start names it")
}

/// The reply to a request on a connection of its own.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(clock::PATIENCE)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("send");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("an answer in text");
    reply
}

fn fetch(address: SocketAddr, path: &str) -> String {
    let reply = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}

fn families(address: SocketAddr) -> Vec<FamilyRead> {
    let text = fetch(address, "/metrics");
    read(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}"))
}

/// The sum over the samples of this name.
fn sum(families: &[FamilyRead], name: &str) -> f64 {
    let samples = families.iter().flat_map(|family| &family.samples);
    samples.filter(|sample| sample.name == name).map(|sample| sample.value).sum()
}

/// The files of certificates, and when each ends, in seconds since 1970.
fn certificate_ends(server: &Server, family: &str) -> Vec<(String, f64)> {
    let families = families(endpoint(server));
    let samples = families.iter().filter(|found| found.name == family).flat_map(|found| &found.samples);
    samples.map(|sample| (sample.label("file").expect("a file").to_owned(), sample.value)).collect()
}

#[test]
fn certificates_say_when_they_end() {
    let file = |name| format!("{}/{name}", workspace().join("crates/base/tls/tests/certificates").display());
    let (own, own_key) = (file("server.pem"), file("server-key.pem"));
    let (other, other_key) = (file("cert.pem"), file("key.pem"));
    // 1 January 2126, 28 October 2126.
    let (own_end, other_end) = ((own.clone(), 4_922_899_200.0), (other.clone(), 4_948_884_307.0));

    let files = format!("ssl_chain_cert={own},ssl_key={own_key}");
    let pair = format!("{other}:{other_key}");
    let metrics = ["--metrics-listen", "127.0.0.1:0"];
    let server = start(&[&["-Z", "-o", &files, "--tls-certificate", &pair][..], &metrics].concat());
    assert_eq!(
        certificate_ends(&server, "evenkeel_certificate_end_seconds"),
        [other_end.clone(), own_end.clone()]
    );
    assert_eq!(certificate_ends(&start(&metrics), "evenkeel_certificate_end_seconds"), []);

    let to_clients = ["--server-pem-cert-path", &own, "--server-pem-key-path", &own_key];
    let to_servers = ["--pem-cert-path", &other, "--pem-key-path", &other_key];
    let configuration = ["--config-str", r#"{"route": "NullRoute"}"#];
    let flags = [&configuration[..], &to_clients, &to_servers, &metrics].concat();
    let router = Server::start_router_at("--ssl-port", &flags).expect("a router");
    assert_eq!(
        certificate_ends(&router, "evenkeel_route_certificate_end_seconds"),
        [own_end.clone(), other_end]
    );
    // One file for both is one series.
    let to_servers = ["--pem-cert-path", &own, "--pem-key-path", &own_key];
    let flags = [&configuration[..], &to_clients, &to_servers, &metrics].concat();
    let router = Server::start_router_at("--ssl-port", &flags).expect("a router");
    assert_eq!(certificate_ends(&router, "evenkeel_route_certificate_end_seconds"), [own_end]);
}

#[test]
fn a_scrape_of_a_running_server_counts_what_clients_have_done() {
    let server = start(&["-t", "2", "--metrics-listen", "127.0.0.1:0"]);
    let address = endpoint(&server);
    let mut client = Client::new(server.connect().expect("a connection"));
    assert_eq!(client.ask(b"set a 0 0 1\r\nx\r\n").expect("an answer"), "STORED");
    let families = families(address);
    assert_eq!(sum(&families, "memcached_up"), 1.0);
    assert_eq!(sum(&families, "memcached_current_items"), 1.0);
    assert_eq!(sum(&families, "memcached_current_connections"), 1.0);
    assert_eq!(sum(&families, "evenkeel_worker_info"), 2.0);
    let listeners = families.iter().find(|family| family.name == "evenkeel_listener_connections");
    let listeners = &listeners.expect("a family").samples;
    let address_of_cache = server.address().to_string();
    assert!(
        matches!(&listeners[..], [one] if one.value == 1.0 && one.label("address") == Some(&*address_of_cache)),
        "{listeners:?}"
    );
    // Whoever waited for the server to listen has gone.
    assert!(sum(&families, "evenkeel_listener_connections_total") >= 1.0);
    assert!(sum(&families, "memcached_read_bytes_total") > 0.0);
    let threads = families.iter().find(|family| family.name == "evenkeel_thread_cpu_seconds_total");
    let named = |name: &str| {
        threads.is_some_and(|family| family.samples.iter().any(|sample| sample.label("thread") == Some(name)))
    };
    assert!(named("worker-0") && named("worker-1") && named("admin"), "{threads:?}");
    assert_eq!(fetch(address, "/healthz"), "ok\n");
    assert_eq!(fetch(address, "/readyz"), "ready\n");
    let report = fetch(address, "/api/v1/stats");
    assert!(report.contains("\"curr_items\":1"), "{report}");
    let listener = format!("\"address\":\"{address_of_cache}\",\"connections\":1}}");
    assert!(report.contains(&listener), "{listener}: {report}");
}

#[test]
fn a_browser_gets_a_page_of_the_server_and_others_a_list() {
    let server = start(&["-t", "1", "--metrics-listen", "127.0.0.1:0"]);
    let address = endpoint(&server);
    let opened = |path: &str, host: &str| {
        ask(
            address,
            &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\nConnection: close\r\n\r\n"),
        )
    };
    let page = opened("/", &address.to_string());
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("src=\"process/page.js\""), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    assert!(opened("/process/page.js", "localhost").starts_with("HTTP/1.1 200 "));
    assert!(opened("/", "evil.example").starts_with("HTTP/1.1 421 "));
    assert!(opened("/console.js", "localhost").starts_with("HTTP/1.1 404 "));
    assert!(fetch(address, "/").contains("/metrics        for Prometheus"));
}

#[test]
fn the_hosts_counters_stand_beside_the_servers() {
    let server = start(&["-t", "1", "--metrics-listen", "127.0.0.1:0"]);
    let address = endpoint(&server);
    // A busy machine may not read them in time.
    let sampled = || {
        let families = families(address);
        (sum(&families, "evenkeel_host_sampled") == 1.0).then_some(families)
    };
    let families = clock::wait_for(sampled).expect("the host can be read");
    assert!(sum(&families, "evenkeel_host_softirqs_total") > 0.0);
    let cpus = families.iter().find(|family| family.name == "evenkeel_host_softirq_seconds_total");
    assert!(cpus.is_some_and(|family| !family.samples.is_empty()), "{cpus:?}");
}

#[test]
fn every_request_has_a_service_time() {
    let server = start(&["-t", "1", "--metrics-listen", "127.0.0.1:0"]);
    let address = endpoint(&server);
    let mut client = Client::new(server.connect().expect("a connection"));
    for _ in 0..10 {
        assert_eq!(client.ask(b"set a 0 0 1\r\nx\r\n").expect("an answer"), "STORED");
        assert_eq!(client.ask(b"delete a\r\n").expect("an answer"), "DELETED");
    }
    let count = |families: &[FamilyRead], class: &str| {
        let samples = families.iter().flat_map(|family| &family.samples);
        let mut counts = samples.filter(|sample| sample.name == "evenkeel_service_seconds_count");
        counts.find(|sample| sample.label("class") == Some(class)).map_or(0.0, |sample| sample.value)
    };
    // The last round is counted after its reply was sent.
    let all = || {
        let families = families(address);
        (count(&families, "set") == 10.0 && count(&families, "delete") == 10.0).then_some(families)
    };
    let families = clock::wait_for(all).expect("all requests are counted");
    assert_eq!(count(&families, "get"), 0.0);
    assert!(sum(&families, "evenkeel_service_seconds_sum") > 0.0);
}

/// How long a server is stopped.
const STOPPED: Duration = Duration::from_millis(65);

/// The server is stopped while requests come, as if its workers had no CPU: their service is as short as ever, their wait
/// is not.
#[test]
fn requests_to_a_worker_that_does_not_run_have_waited() {
    for driver in [SocketDriver::Epoll, SocketDriver::Uring] {
        let subject = ServerUnderTest::evenkeel(driver);
        let server =
            Server::start(&subject, &["-t", "1", "--metrics-listen", "127.0.0.1:0"]).expect("it starts");
        let address = endpoint(&server);
        let pid = Pid::from_raw(server.pid() as i32).expect("a process");
        let signal = |signal| kill_process(pid, signal).expect("send a signal");
        let mut clients: Vec<BufReader<TcpStream>> =
            (0..3).map(|_| BufReader::new(server.connect().expect("a connection"))).collect();
        let waited = || {
            exchange(&mut clients, || {});
            signal(Signal::STOP);
            exchange(&mut clients, || {
                clock::pass(STOPPED);
                signal(Signal::CONT);
            });
            let families = families(address);
            // The connections that are measured are chosen when they have something to do.
            (sum(&families, "evenkeel_wait_seconds_sum") >= STOPPED.as_secs_f64()).then_some(families)
        };
        let families = clock::wait_for(waited).expect("a wait is counted");
        // The largest bound below that time.
        let shorter = families.iter().flat_map(|family| &family.samples).find(|sample| {
            sample.name == "evenkeel_wait_seconds_bucket" && sample.label("le") == Some("0.032768")
        });
        let count = sum(&families, "evenkeel_wait_seconds_count");
        assert!(shorter.is_some_and(|shorter| shorter.value < count), "{shorter:?} of {count}");
        assert!(count < sum(&families, "evenkeel_service_seconds_count"), "only a sample is measured");
    }
}

/// A request and its reply on each connection; `between` when all requests are sent.
fn exchange(clients: &mut [BufReader<TcpStream>], between: impl Fn()) {
    clients.iter().for_each(|client| client.get_ref().write_all(b"get a\r\n").expect("send"));
    between();
    for client in clients {
        let mut reply = String::new();
        client.read_line(&mut reply).expect("an answer");
        assert_eq!(reply, "END\r\n");
    }
}

#[test]
fn the_port_of_the_cache_does_not_speak_http() {
    let server = start(&["--metrics-listen", "127.0.0.1:0"]);
    endpoint(&server);
    let reply = ask(server.address(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(!reply.contains("memcached_up") && !reply.contains("HTTP"), "{reply}");
}

#[test]
fn without_the_flag_there_is_no_endpoint() {
    let server = start(&[]);
    assert!(!server.said().contains("metrics at"), "{}", server.said());
}

#[test]
fn an_address_that_is_taken_ends_the_start_with_its_name() {
    let server = start(&["--metrics-listen", "127.0.0.1:0"]);
    let taken = endpoint(&server).to_string();
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let error = Server::start(&subject, &["--metrics-listen", &taken]).expect_err("the port is taken");
    let expected = format!("listen on {taken} for metrics: Address already in use");
    assert!(format!("{error:#}").contains(&expected), "{error:#}");
}

#[test]
fn top_shows_servers_and_those_that_it_does_not_reach() {
    let server = start(&["--metrics-listen", "127.0.0.1:0"]);
    let address = endpoint(&server).to_string();
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let top = |arguments: &[&str]| {
        let output = std::process::Command::new(&subject.program)
            .arg("top")
            .args(arguments)
            .output()
            .expect("it runs");
        // One that is not reached is shown as such, and in the status.
        let text = String::from_utf8(output.stdout).expect("text");
        let is_missed = text.contains("unreachable") || text.contains("is not that of `--metrics-listen`");
        assert_eq!(output.status.code(), Some(i32::from(is_missed)), "{text}");
        text
    };
    // Without a terminal one picture is printed.
    let one = top(&[&address]);
    assert!(one.contains(&format!("evenkeel top: {address}, {}, up ", env!("CARGO_PKG_VERSION"))), "{one}");
    assert!(one.contains("of 64 MiB, 0 items"), "{one}");
    // The cache's own port answers, but not with a report.
    let cache = server.address().to_string();
    let both = top(&["--once", "--json", &address, &cache]);
    assert!(both.contains("\"hit_ratio\": null"), "{both}");
    assert!(both.contains("\"unreachable\": \"the answer is not that of `--metrics-listen`\""), "{both}");
}
