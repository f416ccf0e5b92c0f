//! A fleet of real processes: controllers with etcd or a directory, agents with certificates, routers, and memcached as servers.

mod changes;
pub(crate) mod changing;
mod standards;
mod tuning;

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use end_to_end::network::FleetNetwork;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use rustls::ClientConnection;
use tls::{Trust, certificate_uris, certificates, client};

const POLICY: &str = "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = 2\n[[view]]\nname = \"main\"\n\
                      routes = '{\"route\": \"PoolRoute|web\"}'\n";

#[test]
fn a_fleet_of_memcached_begins_and_a_host_is_replaced() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    (1..=3).for_each(|host| fleet.host(host));
    fleet.begin(POLICY);
    assert_eq!(fleet.ask_router(1, "set a 0 0 1\r\nx\r\n", "STORED"), "STORED");
    assert_eq!(fleet.ask_router(2, "get a\r\n", "END"), "VALUE a 0 1 x END");

    // A member leaves the slot that it has; the one that has none takes it, in every router.
    let member = fleet.member_of("web/s0");
    fleet.control(&["replace", &member, "--now", "--apply", "--why", "its host is serviced"]);
    fleet.until(|fleet| fleet.status().contains("all routers have it") && fleet.has_loaded(2));
    assert_ne!(fleet.member_of("web/s0"), member);
    let why = fleet.control(&["why", "a"]);
    assert!(why.contains("by generation 2: its host is serviced"), "{why}");

    // Who has done it is in the audit log.
    let audit = fleet.read("audit1.log");
    let last = audit.lines().last().expect("a record");
    for part in ["evenkeel://prod/operator/ann", "\"replace\"", "\"done\"", "its host is serviced"] {
        assert!(last.contains(part), "{part} in {last}");
    }
}

#[test]
fn a_server_that_ends_right_after_a_text_was_loaded_condemns_no_text() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    (1..=3).for_each(|host| fleet.host(host));
    fleet.begin(POLICY);
    // The agents have what they would go back to.
    replace(&fleet, "web/s1", 2);
    assert_eq!(failed_sets(&fleet), 0);
    let host: usize = fleet.member_of("web/s0")[1..].parse().expect("a number");
    fleet.hosts[host - 1].server.kill().expect("it ran");
    // More than enough of them to condemn a text.
    let failed = failed_sets(&fleet);
    assert!(failed >= 50, "{failed} of {SETS} sets failed");
    // Some looks of the agent beside the router.
    clock::pass(Duration::from_secs(3));
    let log = fleet.read("agent1.log");
    assert!(log.contains("r1 has loaded generation 2"), "{log}");
    assert!(!["is back from", "refuses"].iter().any(|words| log.contains(words)), "{log}");

    replace(&fleet, "web/s0", 3);
    assert_eq!(failed_sets(&fleet), 0);
}

/// A spare takes a slot, as soon as there is one, and all routers load this generation.
#[track_caller]
fn replace(fleet: &Fleet, slot: &str, generation: u64) {
    let member = fleet.member_of(slot);
    let words = ["replace", &member, "--now", "--apply", "--why", "its host is serviced"];
    fleet.until(|fleet| fleet.try_control(&words).is_ok());
    fleet.until(|fleet| fleet.has_loaded(generation));
}

const SETS: usize = 200;

/// How many of some sets of different keys through the first router have failed.
fn failed_sets(fleet: &Fleet) -> usize {
    // Any line is a whole answer.
    let set = |key: usize| fleet.ask_router(1, &format!("set k{key} 0 0 1\r\nx\r\n"), "");
    (0..SETS).filter(|key| set(*key).contains("ERROR")).count()
}

#[test]
fn a_drained_server_loses_no_key_and_brings_back_no_deleted_one() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    (1..=3).for_each(|host| fleet.host(host));
    fleet.begin(POLICY);
    let set = |key: &str| {
        let request = format!("set {key} 0 0 1\r\nx\r\n");
        assert_eq!(fleet.ask_router(1, &request, "STORED"), "STORED", "{key}");
    };
    (0..20).for_each(|key| set(&format!("kept{key}")));
    (0..300).for_each(|key| set(&format!("gone{key}")));
    let old = fleet.member_of("web/s0");
    let plan = fleet.control(&["drain", &old, "--warm-up-s", "3"]);
    assert!(plan.contains("sampled); deletes reach both"), "{plan}");
    fleet.control(&["drain", &old, "--warm-up-s", "3", "--apply", "--why", "its host is serviced"]);

    // Each router in turn deletes what shall not come back, and another one is asked for it and for what stays.
    let (mut phases, mut gone) = (BTreeSet::new(), 0);
    while gone < 300 && !phases.contains(&5) {
        let (by, other) = (1 + gone % 3, 1 + (gone + 1) % 3);
        let deleted = fleet.ask_router(by, &format!("delete gone{gone}\r\n"), "D");
        assert!(["DELETED", "NOT_FOUND"].contains(&&*deleted), "{deleted}");
        assert_eq!(fleet.ask_router(other, &format!("get gone{gone}\r\n"), "END"), "END", "gone{gone}");
        check_kept(&fleet, other);
        phases.extend(fleet.generation());
        gone += 1;
        clock::pass(Duration::from_millis(100));
    }
    fleet.until(|fleet| fleet.has_loaded(5));
    assert_eq!(phases, (2..=5).collect(), "a generation for each phase, and {gone} deletes");
    for router in 1..=3 {
        check_kept(&fleet, router);
        for key in 0..gone {
            let found = fleet.ask_router(router, &format!("get gone{key}\r\n"), "END");
            assert_eq!(found, "END", "gone{key} by router {router}");
        }
    }

    // The server that has left has nothing any more, and may take another slot.
    let row = format!("{old} ");
    let is_spare = |line: &str| line.starts_with(&row) && line.contains(" spare ");
    fleet.until(|fleet| fleet.status().lines().any(is_spare));
    let host: usize = old[1..].parse().expect("a number");
    (0..20).for_each(|key| {
        assert_eq!(fleet.ask_server(host, &format!("get kept{key}\r\n"), "END"), "END");
    });
    assert_ne!(fleet.member_of("web/s0"), old);
    // A person has begun it, and the controller has gone on: each of four generations is begun and done.
    assert_eq!(fleet.read("audit1.log").matches("\"drain\"").count(), 8);
}

#[track_caller]
fn check_kept(fleet: &Fleet, router: usize) {
    for key in 0..20 {
        let found = fleet.ask_router(router, &format!("get kept{key}\r\n"), "END");
        assert_eq!(found, format!("VALUE kept{key} 0 1 x END"), "by router {router}; {}", fleet.status());
    }
}

#[test]
fn a_certificate_is_good_for_its_role_and_a_token_for_one_use() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    fleet.host(1);
    for (role, allowed) in [("agent", false), ("router", false), ("server", false), ("reader", true)] {
        let found = fleet.control_as(role, &["status"]);
        assert_eq!(found.is_ok(), allowed, "status as {role}: {found:?}");
        let refused = fleet.control_as(role, &["freeze", "fleet", "--why", "mine now"]).expect_err("refused");
        assert!(refused.contains("only operator may"), "{role}: {refused}");
    }
    let refused = fleet.control_with("another", &["status"]).expect_err("another fleet's authority");
    assert!(!refused.contains("MEMBER"), "{refused}");

    let token = fleet.control(&["token", "--zone", "z9"]).trim().to_owned();
    assert_eq!(fleet.join(9, &token), Ok(()));
    let refused = fleet.join(9, &token).expect_err("it was used");
    // Whoever has shown the secret learns why.
    assert!(refused.contains("accept the join token: h9 has used it"), "{refused}");
    fleet.until(|fleet| fleet.read("c1.log").contains("h9 has used it"));
    let refused = fleet.join(8, &fleet.control(&["token", "--zone", "z9"])).expect_err("another zone");
    assert!(refused.contains("accept the join token for the zone"), "{refused}");
}

#[test]
fn an_agent_renews_its_certificate_and_goes_on() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    // Of 30 days, two thirds and what spreads renewals have passed.
    fleet.host_with(1, HostKind { certificate_days: Some(23), ..HostKind::default() });
    fleet.host(2);
    // It joins beside this test.
    fleet.until(|fleet| fleet.read("h2.pem").contains("PRIVATE KEY"));
    let young = fleet.read("h2.pem");
    fleet.until(|fleet| fleet.read("agent1.log").contains("is renewed: it is valid for another 30 days"));
    let renewed = fleet.read("h1.pem");
    for part in ["BEGIN CERTIFICATE", "PRIVATE KEY"] {
        assert!(renewed.contains(part), "{part}");
    }
    fleet.begin(&POLICY.replace("slots = 2", "slots = 1"));

    // A controller that is started again has seen neither: each connection begins with a certificate.
    fleet.kill_controller(1);
    fleet.controller(1, 1);
    fleet.until(|fleet| fleet.has_loaded(1));
    let is_fit = |line: &str| line.contains(" spare ") && line.contains("; answers within");
    fleet.until(|fleet| fleet.status().lines().any(is_fit));
    let member = fleet.member_of("web/s0");
    fleet.control(&["replace", &member, "--now", "--apply", "--why", "to see that turns go on"]);
    fleet.until(|fleet| fleet.has_loaded(2));
    assert_eq!((fleet.read("h1.pem"), fleet.read("h2.pem")), (renewed, young), "neither is due");
}

#[test]
fn a_controller_with_the_authority_renews_its_certificate_and_shows_it() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller_days = Some(23);
    fleet.controller(1, 1);
    fleet.until(|fleet| fleet.read("c1.log").contains("is renewed: it is valid for another 30 days"));
    let renewed = certificates(&fleet.path("c1.pem")).expect("a certificate");
    assert_eq!(shown(&fleet), renewed[0].as_ref(), "without a restart");
    // It may connect to itself and be asked with it.
    fleet.host(1);
    fleet.begin(&POLICY.replace("slots = 2", "slots = 1"));
}

#[test]
fn agents_renew_the_certificates_of_servers_and_routers_which_show_them() {
    // A memcached is told to read its files, Evenkeel's programs look at them.
    let evenkeel = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    for servers in [evenkeel, memcached] {
        let mut fleet = Fleet::of(FleetNetwork::loopback(), DecisionStore::Directory, servers);
        fleet.controller(1, 1);
        let kind = HostKind { certificate_days: Some(1), shown_days: Some(23), ..HostKind::default() };
        fleet.host_with(1, kind);
        let host = &fleet.hosts[0];
        let router = host.router.as_ref().expect("it has one").address();
        let places = [("m1.pem", host.server.address()), ("r1.pem", router)];
        let olds = places.map(|(_, address)| shown_at(address));
        for what in ["server/m1", "router/r1"] {
            let words = format!("{what} is renewed: it is valid for another 30 days");
            fleet.until(|fleet| fleet.read("agent1.log").contains(&words));
        }
        for ((file, address), old) in places.into_iter().zip(olds) {
            fleet.until(|fleet| {
                let renewed = certificates(&fleet.path(file)).expect("a certificate");
                renewed[0].as_ref() != old && shown_at(address) == renewed[0].as_ref()
            });
        }
        let log = fleet.read("agent1.log");
        assert!(!log.contains("shows another certificate"), "{log}");
    }
}

#[test]
fn an_agent_gets_the_first_certificates_of_its_server_and_router() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    fleet.host(1);
    // It joins beside this test.
    fleet.until(|fleet| fleet.read("h1.pem").contains("PRIVATE KEY"));
    let files = ["m1-tls.pem", "r1-tls.pem"].map(|name| fleet.path(name));
    let [server, router] = files.each_ref().map(|path| format!("certificate = \"{}\"\n", path.display()));
    let text = fleet.read("agent.toml1").replace("[[server]]\n", &format!("[[server]]\n{server}"));
    fleet.write("agent.toml1", &text.replace("[[router]]\n", &format!("[[router]]\n{router}")));
    fleet.restart_agent(0);
    for (path, whose) in files.iter().zip(["server/m1", "router/r1"]) {
        let words = format!("the first certificate of evenkeel://prod/{whose} is in {}", path.display());
        fleet.until(|fleet| fleet.read("agent1.log").contains(&words));
        let mode = fs::metadata(path).expect("a file").permissions().mode() & 0o7777;
        assert_eq!(mode, 0o600, "it has a key");
        // A server that begins with it shows it, and clients trust it.
        let pair = format!("ssl_chain_cert={0},ssl_key={0}", path.display());
        let flags = ["-Z", "-o", &*pair];
        let server = Server::start(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &flags);
        let shown = shown_at(server.expect("a server").address());
        assert_eq!(shown, certificates(path).expect("a certificate")[0].as_ref());
        let found = certificate_uris(&shown).expect("a certificate");
        assert_eq!(
            (found.uris, found.hosts),
            (vec![format!("evenkeel://prod/{whose}")], vec!["127.0.0.1".to_owned()])
        );
    }
    // They are there: an agent that begins again asks for no others.
    let before = files.each_ref().map(|path| fs::read(path).expect("a file"));
    fleet.hosts[0].agent = None;
    let begun = |fleet: &Fleet| fleet.read("agent1.log").matches("beside 1 router ").count();
    let count = begun(&fleet);
    fleet.restart_agent(0);
    fleet.until(|fleet| begun(fleet) > count);
    assert_eq!(files.each_ref().map(|path| fs::read(path).expect("a file")), before);
    let log = fleet.read("c1.log");
    assert!(log.contains("evenkeel://prod/server/m1 has a certificate for 127.0.0.1, by agent/h1"), "{log}");
}

/// The certificate that the first controller shows.
fn shown(fleet: &Fleet) -> Vec<u8> {
    shown_at(fleet.controller_address(1))
}

/// The certificate that is shown at an address.
fn shown_at(address: SocketAddr) -> Vec<u8> {
    let config = client(Trust::Anyone).expect("settings").with_no_client_auth();
    let mut session = ClientConnection::new(Arc::new(config), address.ip().into()).expect("a session");
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time limit");
    while session.is_handshaking() {
        session.complete_io(&mut stream).expect("a handshake");
    }
    session.peer_certificates().expect("a certificate")[0].to_vec()
}

#[test]
fn servers_tell_clients_of_the_cluster_and_of_each_replacement() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    let kind = HostKind { tells_clients: true, ..HostKind::default() };
    (1..=3).for_each(|host| fleet.host_with(host, kind));
    fleet.begin(POLICY);
    check_cluster(&fleet, 1);
    let left = fleet.member_of("web/s0");
    fleet.control(&["replace", &left, "--now", "--apply", "--why", "its host is serviced"]);
    check_cluster(&fleet, 2);
    let left: usize = left[1..].parse().expect("a number");
    assert_eq!(fleet.member_of("web/s0").find(&format!("m{left}")), None);
    assert!(discovered(&fleet, left).contains(" 1 "), "the one that has left keeps what it had");
}

/// What the server of a host tells its clients: `CONFIG cluster 0 LEN REVISION MEMBER MEMBER  END`.
fn discovered(fleet: &Fleet, host: usize) -> String {
    fleet.ask_server(host, "config get cluster\r\n", "END")
}

/// Every member with a slot tells clients this revision, with the members in the order of their slots.
fn check_cluster(fleet: &Fleet, revision: u64) {
    let is_told = |fleet: &Fleet| {
        let hosts = ["web/s0", "web/s1"].map(|slot| fleet.member_of(slot)[1..].parse().expect("a number"));
        let members = hosts.map(|host| fleet.server_address(host)).map(|address| {
            let ip = address.ip();
            format!("{ip}|{ip}|{}", address.port())
        });
        let expected = format!(" {revision} {}", members.join(" "));
        hosts.iter().all(|host| discovered(fleet, *host).contains(&expected))
    };
    fleet.until(is_told);
}

#[test]
fn routers_tell_clients_of_the_routers_of_their_zone_and_of_each_that_comes() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    let kind = HostKind { lists_routers: true, zone: Some("z1"), ..HostKind::default() };
    fleet.host_with(1, kind);
    fleet.host_with(2, kind);
    fleet.begin(POLICY);
    // Routers that come one after the other may be one change or two.
    fleet.until(|fleet| told_routers(fleet, 1).is_some_and(|(_, list)| list == routers(fleet, &[1, 2])));
    let (before, _) = told_routers(&fleet, 1).expect("a list");
    fleet.until(|fleet| told_routers(fleet, 2) == told_routers(fleet, 1));
    fleet.host_with(3, kind);
    fleet.until(|fleet| {
        (1..=3).all(|host| told_routers(fleet, host) == Some((before + 1, routers(fleet, &[1, 2, 3]))))
    });
}

/// The revision and the members that the router of a host tells its clients, if it has a list.
fn told_routers(fleet: &Fleet, host: usize) -> Option<(u64, String)> {
    // CONFIG cluster 0 LEN REVISION MEMBER MEMBER  END
    let told = fleet.ask_router(host, "config get cluster\r\n", "END");
    let (revision, members) = told.strip_suffix("END")?.trim_end().splitn(5, ' ').nth(4)?.split_once(' ')?;
    Some((revision.parse().ok()?, members.to_owned()))
}

fn routers(fleet: &Fleet, hosts: &[usize]) -> String {
    let members = hosts.iter().map(|host| {
        let address = fleet.hosts[host - 1].router.as_ref().expect("a router").address();
        format!("{ip}|{ip}|{}", address.port(), ip = address.ip())
    });
    members.collect::<Vec<_>>().join(" ")
}

#[test]
fn three_controllers_are_one_and_a_fleet_goes_on_without_any() {
    let mut fleet = Fleet::new(DecisionStore::Etcd(1));
    if fleet.etcd.is_empty() {
        eprintln!("left out: there is no etcd (Debian: etcd-server)");
        return;
    }
    (1..=3).for_each(|number| fleet.controller(number, 3));
    (1..=4).for_each(|host| fleet.host(host));
    fleet.begin(POLICY);
    assert_eq!(fleet.ask_router(1, "set a 0 0 1\r\nx\r\n", "STORED"), "STORED");

    // The one that was asked first ends: another one is asked, and knows as much.
    fleet.kill_controller(1);
    let member = fleet.member_of("web/s1");
    fleet.control(&["replace", &member, "--now", "--apply", "--why", "without the first"]);
    fleet.until(|fleet| fleet.has_loaded(2));

    // Without etcd nothing new is decided, and that is said; requests are answered.
    fleet.kill_etcd();
    fleet.until(|fleet| fleet.status().contains("the register is away"));
    let refused = fleet.try_control(&["rollback", "1", "--apply", "--why", "x"]).expect_err("no register");
    assert!(refused.contains("register"), "{refused}");
    assert_eq!(fleet.ask_router(2, "set b 0 0 1\r\ny\r\n", "STORED"), "STORED");

    // Without controllers, too; also a router that is started again.
    (2..=3).for_each(|number| fleet.kill_controller(number));
    assert_eq!(fleet.ask_router(3, "get b\r\n", "END"), "VALUE b 0 1 y END");
    fleet.restart_router(3);
    assert_eq!(fleet.ask_router(3, "get b\r\n", "END"), "VALUE b 0 1 y END");

    // All is back, and knows what was decided before.
    fleet.start_etcd();
    (1..=3).for_each(|number| fleet.controller(number, 3));
    fleet.until(|fleet| fleet.status().contains("generation 2: without the first"));
    fleet.until(|fleet| !fleet.status().contains("its agent is silent") && fleet.has_loaded(2));
    clock::pass(Duration::from_millis(100));
    assert_eq!(fleet.ask_router(4, "get b\r\n", "END"), "VALUE b 0 1 y END");
}
