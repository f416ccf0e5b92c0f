//! Agents: their turns, and what they do with orders. What an agent decides about a text is `fleet::probation`.

use std::collections::{BTreeMap, BTreeSet};

use control::{
    ControllerChoice, MemberReport, ProcessReport, RouterOrder, RouterReport, SweepReport, TextReport,
    TurnOrders, TurnReport,
};
use fleet::probation::{AgentAction, AgentReport, GivenText, Probation, RouterObservation};
use fleet::{GenerationNumber, TextDigest};
use stdx::clock::Now;

use super::bug::SmallBug;
use super::disk::{AgentDisk, DiskFault, FileText};
use super::members::SmallServer;
use super::shape::{CONTROLLERS, VIEW, router, zone};

/// An agent beside a router.
#[derive(Debug)]
pub(super) struct RouterAgent {
    number: usize,
    pub(super) disk: AgentDisk,
    probation: Probation,
    generation: Option<GenerationNumber>,
    text: TextReport,
    loaded: Option<TextDigest>,
    pub(super) suspects: Vec<String>,
    boot: u64,
    turns: u64,
    seen: u64,
    pub(super) choice: ControllerChoice,
    /// It does nothing until then.
    pub(super) away_until_ms: u64,
    /// The generations that were ordered with a text.
    ordered: BTreeMap<TextDigest, BTreeSet<u64>>,
    /// Orders so far, one of each generation.
    pub(super) orders: Vec<RouterOrder>,
    /// Generations that the agent has gone back from.
    pub(super) failed: BTreeSet<u64>,
    /// Digests of what a planted bug has made of texts.
    changed: BTreeMap<TextDigest, TextDigest>,
    bugs: Vec<SmallBug>,
}

impl RouterAgent {
    pub(super) fn new(number: usize, first: FileText, bugs: &[SmallBug]) -> RouterAgent {
        let mut disk = AgentDisk::new(first);
        disk.is_written_in_place = bugs.contains(&SmallBug::WrittenInPlace);
        RouterAgent {
            number,
            disk,
            probation: Probation::default(),
            generation: None,
            text: TextReport::Loaded,
            loaded: None,
            suspects: Vec::new(),
            boot: number as u64,
            turns: 0,
            seen: 0,
            choice: ControllerChoice::new(CONTROLLERS),
            away_until_ms: 0,
            ordered: BTreeMap::new(),
            orders: Vec::new(),
            failed: BTreeSet::new(),
            changed: BTreeMap::new(),
            bugs: bugs.to_vec(),
        }
    }

    /// It is killed, and started again at that time with what it has kept.
    pub(super) fn restart(&mut self, at_ms: u64) {
        self.away_until_ms = at_ms;
        self.probation = self.disk.kept.clone();
        self.generation = self.probation.good().map(|good| good.generation).filter(|number| number.0 > 0);
        (self.text, self.loaded, self.seen) = (TextReport::Loaded, None, 0);
        (self.boot, self.turns) = (self.boot + 100, 0);
    }

    /// Looks at the router and its file. Returns the generation that the router has, if that is news.
    pub(super) fn look(&mut self, now: Now, process: Option<u64>, loaded: Option<&FileText>) -> Option<u64> {
        let given = |text: &FileText| {
            let digest = digest_of(&text.text);
            self.changed.get(&digest).cloned().unwrap_or(digest)
        };
        self.loaded = loaded.map(given);
        let file = Some(given(&self.disk.file));
        let (loaded, lost) = (self.loaded.clone(), Vec::new());
        let seen = RouterObservation { process, loaded, file, counts: None, lost };
        let actions = self.probation.on_observation(seen, now);
        self.carry_out(actions, now)
    }

    /// What it says to controllers.
    pub(super) fn report(&mut self) -> TurnReport {
        self.turns += 1;
        self.seen = seen(self.turns, self.seen);
        let router = RouterReport {
            router: router(self.number).parse().expect("a name"),
            view: VIEW.parse().expect("a name"),
            generation: self.generation,
            loaded: self.loaded.clone(),
            text: self.text.clone(),
            suspects: self.suspects.clone(),
            has_traffic: true,
            unasked: Vec::new(),
            trouble: None,
            client_address: None,
            has_cluster_file: false,
            page: None,
            figures: None,
        };
        let texts = self.disk.texts.keys().cloned().collect();
        report(
            format!("e{}", self.number),
            self.number,
            (self.boot, self.turns, self.seen),
            &self.choice,
            texts,
            Vec::new(),
            vec![router],
        )
    }

    /// Carries out orders. Returns as [`RouterAgent::look`] does.
    pub(super) fn obey(&mut self, orders: TurnOrders, now: Now) -> Option<u64> {
        self.seen = orders.version;
        if self.disk.is_full && !orders.texts.is_empty() {
            // The next turn says that they are missing.
            self.seen = 0;
            return None;
        }
        self.disk.texts.extend(orders.texts);
        let news = orders.routers.iter().filter_map(|order| self.on_order(order, now)).last();
        self.orders
            .extend(orders.routers.into_iter().filter(|order| self.disk.texts.contains_key(&order.digest)));
        news
    }

    /// Carries out one order, which may be late.
    pub(super) fn on_order(&mut self, order: &RouterOrder, now: Now) -> Option<u64> {
        if !self.disk.texts.contains_key(&order.digest) {
            return None;
        }
        self.ordered.entry(order.digest.clone()).or_default().insert(order.generation.0);
        if self.bugs.contains(&SmallBug::OlderTextTaken) && self.generation > Some(order.generation) {
            self.probation = Probation::default();
        }
        let target = GivenText { generation: order.generation, digest: order.digest.clone() };
        let actions = self.probation.on_target(target, now);
        if actions.iter().any(|action| matches!(action, AgentAction::Write(_))) {
            self.text = TextReport::Waiting;
        }
        self.carry_out(actions, now)
    }

    /// For people: what it says, and its last order.
    pub(super) fn state(&self) -> String {
        let order = self.orders.last().map_or(0, |order| order.generation.0);
        format!(
            "its agent has generation {:?} and says {:?}, and its last order was generation {order}",
            self.generation, self.text
        )
    }

    fn carry_out(&mut self, actions: Vec<AgentAction>, now: Now) -> Option<u64> {
        let mut news = None;
        for action in actions {
            let done = match action {
                AgentAction::Keep => self.disk.keep(&self.probation),
                AgentAction::Write(digest) => self.write(&digest),
                AgentAction::Report(report) => {
                    news = self.note(report).or(news);
                    Ok(())
                }
            };
            match done {
                Ok(()) => {}
                Err(DiskFault::Killed) => {
                    self.restart(now.ms() + 1_000);
                    return news;
                }
                // What follows stands on it; the next look does it again.
                Err(DiskFault::Full) => return news,
            }
        }
        news
    }

    fn write(&mut self, digest: &TextDigest) -> Result<(), DiskFault> {
        let good = self.probation.good().filter(|good| good.digest == *digest);
        let ordered = self.ordered.get(digest).and_then(|all| all.difference(&self.failed).last().copied());
        let generation = ordered.max(good.map(|good| good.generation.0)).unwrap_or(0);
        let Some(mut text) = self.disk.texts.get(digest).cloned() else { return Ok(()) };
        if self.bugs.contains(&SmallBug::ServersSorted) {
            text = with_sorted_servers(&text);
            self.changed.insert(digest_of(&text), digest.clone());
        }
        self.disk.write(FileText { text, generation })
    }

    fn note(&mut self, report: AgentReport) -> Option<u64> {
        match report {
            AgentReport::Loaded(text) => {
                (self.generation, self.text) = (Some(text.generation), TextReport::Loaded);
                self.loaded = Some(text.digest);
                return Some(text.generation.0);
            }
            AgentReport::Refused(text, reason) => {
                self.failed.insert(text.generation.0);
                self.text = TextReport::Refused { generation: text.generation, reason: reason.to_owned() };
            }
            AgentReport::Crashed(text, reason) => {
                self.failed.insert(text.generation.0);
                self.text = TextReport::Crashed { generation: text.generation, reason: reason.to_owned() };
            }
            AgentReport::Foreign(_) => self.text = TextReport::Foreign,
        }
        None
    }
}

/// A turn without news is answered after some time with what is known.
const ANSWERED_EVERY: u64 = 15;

/// The orders that an agent has seen, so that it is answered when it is time.
fn seen(turns: u64, seen: u64) -> u64 {
    if turns.is_multiple_of(ANSWERED_EVERY) { 0 } else { seen }
}

/// What the agent beside a server says.
pub(super) fn server_report(server: &mut SmallServer, number: usize) -> TurnReport {
    server.turns += 1;
    server.seen = seen(server.turns, server.seen);
    let process = if server.is_up { ProcessReport::Running { pid: 1 } } else { ProcessReport::Down };
    let member = MemberReport {
        member: server.id.clone(),
        process,
        flushes: server.flushes,
        is_kept_empty: server.is_kept_empty,
        hits: 0,
        misses: 0,
        has_cluster_file: false,
        sweep: Some(SweepReport { done: server.swept, trouble: None }),
        page: None,
        figures: None,
    };
    report(
        format!("h{number}"),
        number,
        (number as u64, server.turns, server.seen),
        &server.choice,
        Vec::new(),
        vec![member],
        Vec::new(),
    )
}

fn report(
    host: String,
    number: usize,
    (boot, turn, seen): (u64, u64, u64),
    choice: &ControllerChoice,
    texts: Vec<TextDigest>,
    members: Vec<MemberReport>,
    routers: Vec<RouterReport>,
) -> TurnReport {
    let (host, zone) = (host.parse().expect("a name"), zone(number).parse().expect("a name"));
    let stays = Some(choice.stays());
    TurnReport {
        host,
        zone,
        boot,
        turn,
        seen,
        wait_ms: None,
        stays,
        agent: None,
        tune: None,
        changes: None,
        standard: None,
        texts,
        members,
        routers,
    }
}

pub(super) fn digest_of(text: &str) -> TextDigest {
    router_digest(text).parse().expect("an MD5 is a digest")
}

fn router_digest(text: &str) -> String {
    ::router::md5_hex(text.as_bytes())
}

/// The text with the servers of its pool in the order of their names.
fn with_sorted_servers(text: &str) -> String {
    let Some((before, rest)) = text.split_once("\"servers\":[") else { return text.to_owned() };
    let Some((list, after)) = rest.split_once(']') else { return text.to_owned() };
    let mut servers: Vec<&str> = list.split(',').collect();
    servers.sort_unstable();
    format!("{before}\"servers\":[{}]{after}", servers.join(","))
}
