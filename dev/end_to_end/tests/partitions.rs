//! A fleet whose hosts cannot reach each other: controllers with etcd, servers with agents, and routers with agents, each on a
//! host with a network of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use end_to_end::network::{FleetHost, FleetNetwork, in_namespaces};
use end_to_end::numbered::{Acknowledged, KEYS, NumberedClient, name};

/// Three servers have slots; three routers, each beside a server without one.
const HOSTS: usize = 6;
const ROUTERS: [usize; 3] = [4, 5, 6];
const CONTROLLERS: [FleetHost; 3] =
    [FleetHost::Controller(1), FleetHost::Controller(2), FleetHost::Controller(3)];

/// The shortest observation that is accepted, because tests wait for its end. The guard is for larger fleets: here it must
/// not be what prevents a replacement. It never lets all of a cluster be replaced, so it forgets soon what was lost before.
const HEALTH: &str = "observation_window_ms = 30000\n\
     [guard]\nwindow_ms = 10000\ncluster_floor = 8\nzone_floor = 8\nfleet_floor = 8\n";
const GUARD_WINDOW: Duration = Duration::from_secs(10);
/// The end of the observation, since the servers with slots are known.
const OBSERVATION: Duration = Duration::from_secs(31);

const WEB: &str = "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = 3\n\
                   [[view]]\nname = \"main\"\nroutes = '{\"route\": \"PoolRoute|web\"}'\n";
const WITH_GUTTER: &str = "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = 2\n\
                           [cluster.gutter]\ncluster = \"gutter\"\n\
                           [[cluster]]\nname = \"gutter\"\nslots = 1\n\
                           [[view]]\nname = \"main\"\nroutes = '{\"route\": \"web\"}'\n";

/// A zone without hosts.
const NOWHERE: &str = "zone/nowhere";
/// What an operator is told if a write may have happened.
const IN_DOUBT: [&str; 2] = ["learn whether a write", "may have been made or not"];

/// A fleet under load, whose controllers have observed it for long enough to decide.
struct Stage {
    fleet: Fleet,
    all: Arc<Acknowledged>,
    /// A client beside each router, in the order of [`ROUTERS`].
    clients: Vec<NumberedClient>,
    /// One router stores elsewhere what the others look for in a server, so they find what was stored before.
    is_split: bool,
}

impl Stage {
    /// `None` where there is no etcd.
    fn begin(policy: &str) -> Option<Stage> {
        let mut fleet = Fleet::on(FleetNetwork::of_hosts(CONTROLLERS.len(), HOSTS), DecisionStore::Etcd(3));
        if fleet.etcd.is_empty() {
            eprintln!("left out: there is no etcd (Debian: etcd-server)");
            return None;
        }
        fleet.write("health.toml", HEALTH);
        fleet.controller_flags = vec!["--health".to_owned(), "health.toml".to_owned()];
        (1..=3).for_each(|number| fleet.controller(number, 3));
        let has_no_router = HostKind { has_no_router: true, ..HostKind::default() };
        (1..=3).for_each(|host| fleet.host_with(host, has_no_router));
        let known = clock::now();
        fleet.begin(policy);
        ROUTERS.into_iter().for_each(|host| fleet.host(host));
        fleet.until(|fleet| fleet.has_loaded(1));
        let mut stage = Stage { fleet, all: Acknowledged::new(), clients: Vec::new(), is_split: false };
        stage.clients = stage.new_clients();
        clock::pass_until(known + OBSERVATION);
        stage.until(|stage| stage.status(2).lines().filter(|line| line.contains(" spare ")).count() == 3);
        stage.check_no_errors("before anything is cut off");
        Some(stage)
    }

    fn new_clients(&self) -> Vec<NumberedClient> {
        let client =
            |at: usize| NumberedClient::start(&self.fleet, ROUTERS[at], (at, ROUTERS.len()), &self.all);
        (0..ROUTERS.len()).map(client).collect()
    }

    fn client(&self, router: usize) -> &NumberedClient {
        &self.clients[ROUTERS.iter().position(|host| *host == router).expect("a router")]
    }

    /// What one controller says of the fleet.
    fn status(&self, controller: usize) -> String {
        self.fleet.control_at(controller, &["status"]).unwrap_or_else(|error| error)
    }

    /// The row of a member or a router there.
    fn row(&self, controller: usize, id: &str) -> String {
        let (status, id) = (self.status(controller), format!("{id} "));
        status.lines().find(|line| line.starts_with(&id)).unwrap_or_default().to_owned()
    }

    /// Waits twice as long as other tests: on a busy machine, a healthy member may look lost for a moment, and holds the guard.
    #[track_caller]
    fn until(&self, is_so: impl Fn(&Stage) -> bool) {
        let wait = || clock::wait_for(|| is_so(self).then_some(()));
        let found = wait().or_else(wait);
        assert!(found.is_some(), "it does not happen; {}", self.status(2));
    }

    /// Every router has loaded a generation, as this controller knows.
    fn has_loaded(&self, controller: usize, routers: &[usize], generation: u64) -> bool {
        let is_loaded = |router: &usize| {
            let row = self.row(controller, &format!("r{router}"));
            row.split_whitespace().nth(2) == Some(&generation.to_string()) && row.contains("has loaded")
        };
        routers.iter().all(is_loaded)
    }

    /// The host whose member has a slot.
    #[track_caller]
    fn host_of(&self, controller: usize, slot: &str) -> usize {
        let status = self.status(controller);
        let line = status.lines().find(|line| line.contains(slot)).unwrap_or_else(|| panic!("{status}"));
        line[1..].split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    }

    /// The member of this host has no slot, and was emptied.
    fn is_spare(&self, controller: usize, host: usize) -> bool {
        let row = self.row(controller, &format!("m{host}"));
        row.contains(" spare ") && row.contains("answers within")
    }

    /// The generation in force, as this controller knows.
    fn generation(&self, controller: usize) -> Option<u64> {
        let status = self.status(controller);
        let number = status.lines().find_map(|line| line.strip_prefix("generation "))?.split(':').next()?;
        number.parse().ok()
    }

    #[track_caller]
    fn check_no_errors(&self, when: &str) {
        for (client, router) in self.clients.iter().zip(ROUTERS) {
            let errors = client.take_errors();
            assert!(errors.is_empty(), "at router {router} {when}: {errors:?}");
        }
    }

    #[track_caller]
    fn check_nothing_old(&self, when: &str) {
        for (client, router) in self.clients.iter().zip(ROUTERS) {
            let old = client.take_old();
            assert!(old.is_empty(), "at router {router} {when}: {old:?}");
        }
    }

    /// All clients are answered for this long.
    #[track_caller]
    fn check_answers(&self, time: Duration, when: &str) {
        let before: Vec<(usize, usize)> =
            self.clients.iter().map(|client| (client.requests(), client.hits())).collect();
        clock::pass(time);
        self.check_no_errors(when);
        if !self.is_split {
            self.check_nothing_old(when);
        }
        for (client, (requests, hits)) in self.clients.iter().zip(before) {
            let (requests, hits) = (client.requests() - requests, client.hits() - hits);
            // Most of 200 requests a second, on a busy machine.
            assert!(requests > 60 * time.as_secs() as usize, "{requests} requests {when}");
            assert!(hits > requests / 4, "{hits} hits in {requests} requests {when}");
        }
    }

    /// A spare is empty, but for what was on its way when the host was lost: TCP repeats that until the host is back, a request or two of each
    /// router. It is emptied again before it enters a slot.
    #[track_caller]
    fn check_empty(&self, host: usize) {
        let keys = self.keys_in(host);
        assert!(keys <= 2 * ROUTERS.len(), "{keys} keys in a spare");
    }

    /// How many keys a server has.
    fn keys_in(&self, host: usize) -> usize {
        let has = |key: &usize| {
            self.fleet.ask_server(host, &format!("get {}\r\n", name(*key)), "END").starts_with("VALUE")
        };
        (0..KEYS).filter(has).count()
    }
}

#[test]
fn controllers_that_are_cut_off_decide_nothing_and_a_host_that_comes_back_brings_back_nothing() {
    if !in_namespaces(
        "partitions::controllers_that_are_cut_off_decide_nothing_and_a_host_that_comes_back_brings_back_nothing",
    ) {
        return;
    }
    let Some(mut stage) = Stage::begin(WEB) else { return };
    let (lost, is_in_doubt) = a_host_is_replaced_without_one_controller(&stage);
    both_come_back(&stage, lost);
    // A member of etcd may keep a write until it reaches the others. Then nobody was told that it did not happen.
    assert!(is_in_doubt || !stage.status(2).contains(NOWHERE), "{}", stage.status(2));
    a_router_keeps_to_the_old_server(&mut stage);
}

/// One controller and its member of etcd are cut off, then a host is lost.
fn a_host_is_replaced_without_one_controller(stage: &Stage) -> (usize, bool) {
    let network = stage.fleet.network;
    network.part(&CONTROLLERS[..1]);
    let lost = stage.host_of(2, "web/s1");
    clock::pass(Duration::from_secs(4));
    stage.check_no_errors("while one controller is away");
    network.unplug(FleetHost::Host(lost));
    let began = clock::now();
    stage.until(|stage| stage.generation(3) == Some(2) && stage.has_loaded(3, &ROUTERS, 2));
    eprintln!("replaced and loaded after {:?}", began.elapsed());
    assert_ne!(stage.host_of(3, "web/s1"), lost);

    // The other one has seen everybody vanish. It says so, and can change nothing.
    assert_eq!(stage.generation(1), Some(1));
    let status = stage.status(1);
    assert!(status.contains("the register is away"), "{status}");
    let refused = stage.fleet.control_at(1, &["freeze", NOWHERE, "--why", "all is lost"]);
    let refused = refused.expect_err("nobody keeps it");
    let is_in_doubt = IN_DOUBT.iter().any(|words| refused.contains(words));
    assert!(refused.contains("register") || is_in_doubt, "{refused}");
    stage.clients.iter().for_each(|client| drop(client.take_errors()));
    stage.check_answers(Duration::from_secs(2), "after the replacement");
    (lost, is_in_doubt)
}

/// They come back together, each with what it had.
fn both_come_back(stage: &Stage, lost: usize) {
    let network = stage.fleet.network;
    network.plug(FleetHost::Host(lost));
    network.join(&CONTROLLERS[..1]);
    let kept = stage.keys_in(lost);
    // Its agent may have been faster than this question.
    eprintln!("the host came back with {kept} keys");
    stage.until(|stage| stage.generation(1) == Some(2) && !stage.status(1).contains("the register is away"));
    stage.until(|stage| stage.is_spare(2, lost) && stage.is_spare(1, lost));
    stage.check_empty(lost);
    stage.check_answers(Duration::from_secs(3), "while the host comes back");
    let routers = [1, 2, 3].map(|number| (stage.generation(number), stage.has_loaded(number, &ROUTERS, 2)));
    assert_eq!(routers, [(Some(2), true); 3]);
}

/// A router is cut off with the old server from all controllers, and then from the controllers alone.
fn a_router_keeps_to_the_old_server(stage: &mut Stage) {
    let network = stage.fleet.network;
    // What was lost before must not count together with what is lost now.
    stage.until(|stage| {
        let answers = |host: usize| stage.row(2, &format!("m{host}")).contains("answers within");
        !stage.status(2).contains("guard: ") && (1..=HOSTS).all(answers)
    });
    clock::pass(GUARD_WINDOW);
    // One whose server has no slot, so that a single one is lost.
    let far = ROUTERS.into_iter().find(|host| stage.is_spare(2, *host)).expect("a spare beside a router");
    let near: Vec<usize> = ROUTERS.into_iter().filter(|host| *host != far).collect();
    let old = stage.host_of(2, "web/s0");
    network.part(&[FleetHost::Host(far), FleetHost::Host(old)]);
    stage.until(|stage| stage.generation(2) == Some(3) && stage.has_loaded(2, &near, 3));
    assert_ne!(stage.host_of(2, "web/s0"), old);
    let behind = format!("all other routers have it; r{far} has generation 2, and its agent is silent");
    stage.until(|stage| stage.status(2).contains(&behind));
    // The router goes on with what it has, and its client gets what is stored there.
    let before = stage.client(far).hits();
    clock::pass(Duration::from_secs(1));
    assert!(stage.client(far).hits() > before, "the old server answers the router beside it");
    near.iter().for_each(|router| assert_eq!(stage.client(*router).take_old(), Vec::<String>::new()));

    // The server is back, and the router is still away from controllers: it writes to the server meanwhile.
    CONTROLLERS.iter().for_each(|controller| network.lose(*controller, FleetHost::Host(far)));
    network.join(&[FleetHost::Host(far), FleetHost::Host(old)]);
    stage.until(|stage| !stage.row(2, &format!("m{old}")).contains("silent"));
    let emptied = format!("m{old} is empty");
    let log = format!("agent{old}.log");
    stage.until(|stage| stage.fleet.read(&log).matches(&emptied).count() >= 2);
    stage.until(|stage| stage.keys_in(old) > 0);
    near.iter().for_each(|router| assert_eq!(stage.client(*router).take_old(), Vec::<String>::new()));

    // It is back as well, and loads what is in force within the longest pause of its agent.
    CONTROLLERS.iter().for_each(|controller| network.lose_no_more(*controller, FleetHost::Host(far)));
    let began = clock::now();
    stage.until(|stage| stage.has_loaded(2, &ROUTERS, 3));
    let took = since(began);
    assert!(took < Duration::from_secs(25), "its router has loaded the generation after {took:?}");
    drop(stage.client(far).take_old());
    stage.until(|stage| stage.is_spare(2, old));
    stage.check_empty(old);
    // Its router asks servers that did not answer at longer and longer intervals.
    stage.until(|stage| {
        stage.clients.iter().for_each(|client| drop(client.take_errors()));
        clock::pass(Duration::from_millis(500));
        stage.clients.iter().all(|client| client.take_errors().is_empty())
    });
    stage.check_answers(Duration::from_secs(2), "when all are back");
    stage.check_empty(old);

    // It takes its slot again while nobody writes: what is found is what was stored last, or nothing.
    stage.clients.clear();
    let present = format!("m{}", stage.host_of(2, "web/s0"));
    let by = format!("m{old}");
    let words = ["replace", &present, "--by", &by, "--now", "--apply", "--why", "back to where it was"];
    stage.fleet.control_at(2, &words).expect("it is a spare");
    stage.until(|stage| stage.has_loaded(2, &ROUTERS, 4));
    stage.clients = stage.new_clients();
    stage.check_answers(Duration::from_secs(3), "from a server that had the slot before");
}

fn since(began: Instant) -> Duration {
    clock::now() - began
}

#[test]
fn nobody_is_replaced_who_is_reached_by_others_or_while_no_controller_reaches_anybody() {
    if !in_namespaces(
        "partitions::nobody_is_replaced_who_is_reached_by_others_or_while_no_controller_reaches_anybody",
    ) {
        return;
    }
    let Some(mut stage) = Stage::begin(WITH_GUTTER) else { return };
    one_router_does_not_reach_a_server(&mut stage);
    answers_do_not_reach_an_agent(&stage);
    // The last one: silent agents count as losses, and hold replacements back for a minute.
    no_controller_reaches_anybody(&stage);
    assert_eq!([1, 2, 3].map(|number| stage.generation(number)), [Some(1); 3]);
}

fn routes(stage: &Stage) -> Vec<String> {
    ROUTERS.iter().map(|router| stage.fleet.read(&format!("route{router}"))).collect()
}

fn no_controller_reaches_anybody(stage: &Stage) {
    let (network, before) = (stage.fleet.network, routes(stage));
    network.part(&CONTROLLERS);
    stage.check_answers(Duration::from_secs(20), "without controllers and etcd");
    assert_eq!(routes(stage), before);
    network.join(&CONTROLLERS);
    stage.until(|stage| {
        let status = stage.status(1);
        !status.contains("silent") && !status.contains("does not answer") && stage.has_loaded(1, &ROUTERS, 1)
    });
    stage.check_answers(Duration::from_secs(3), "when controllers are back");
    assert_eq!(routes(stage), before);
    assert_eq!([1, 2, 3].map(|number| stage.generation(number)), [Some(1); 3]);
}

fn one_router_does_not_reach_a_server(stage: &mut Stage) {
    let (network, before) = (stage.fleet.network, routes(stage));
    let server = stage.host_of(2, "web/s0");
    network.lose(FleetHost::Host(server), FleetHost::Host(ROUTERS[0]));
    // Longer than the time after which a lost one is replaced. The gutter answers for it.
    stage.is_split = true;
    stage.check_answers(Duration::from_secs(18), "while one router does not reach a server");
    let status = stage.status(2);
    assert!(
        status.contains(&format!("m{server}")) && status.contains("Reached from some zones only"),
        "{status}"
    );
    assert_eq!((stage.generation(2), routes(stage)), (Some(1), before));
    network.lose_no_more(FleetHost::Host(server), FleetHost::Host(ROUTERS[0]));
    // The router asks a server that did not answer after up to some seconds, and writes each of its keys again.
    let suspects = |stage: &Stage| stage.status(2).contains("Reached from some zones only");
    stage.until(|stage| !suspects(stage));
    clock::pass(Duration::from_secs(2));
    stage.check_no_errors("when the router reaches the server again");
    stage.clients.iter().for_each(|client| drop(client.take_old()));
    stage.is_split = false;
    assert!(!stage.status(2).contains("condemned"));
}

fn answers_do_not_reach_an_agent(stage: &Stage) {
    let network = stage.fleet.network;
    let server = stage.host_of(2, "web/s1");
    CONTROLLERS.iter().for_each(|controller| network.lose(*controller, FleetHost::Host(server)));
    stage.check_answers(Duration::from_secs(22), "while an agent gets no answers");
    let status = stage.status(2);
    assert!(status.contains("Observers contradict each other"), "{status}");
    assert_eq!(stage.generation(2), Some(1));
    CONTROLLERS.iter().for_each(|controller| network.lose_no_more(*controller, FleetHost::Host(server)));
    stage.until(|stage| {
        let row = stage.row(2, &format!("m{server}"));
        row.contains("answers within") && !row.contains("silent")
    });
    stage.check_answers(Duration::from_secs(1), "when its agent is back");
}
