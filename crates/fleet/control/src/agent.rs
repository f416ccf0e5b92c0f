//! An agent: beside the servers and routers of one host, it carries out what controllers decide, and reports.
//!
//! ```text
//! thread "agent"   every second: look at routers and servers ─► Probation ─► write, put back, empty ─► report
//! thread "turns"   report ─► a controller, which waits ─► orders ─► thread "agent"
//! thread "pages"   every 5 seconds: pages of figures ─► the next look
//! thread "tuning"  once an hour and when asked: the tuner as a process ─► report
//! thread "changes" orders of changes of the host ─► the tuner as a process ─► report
//! ```
//!
//! It decides nothing but what it must without controllers: whether a text stays in a router ([`fleet::probation`]). Without
//! controllers everything goes on with what is on its disk.

mod beside_router;
mod beside_server;
mod changes;
mod cluster_file;
mod controllers;
mod figures;
mod pages;
mod server_stats;
mod settings;
mod state;
mod sweep;
mod tuning;
mod upgrade;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::service::SayLine;
use fleet::{HostId, TextDigest};
use os::clock::Stopwatch;
use stdx::clock::Now;

use crate::service::turn::{MemberReport, RouterReport, TurnReport};
use beside_router::BesideRouter;
use beside_server::BesideServer;
use changes::{ChangeDesk, ChangeDeskError};
use cluster_file::HeldText;
use controllers::{Controllers, HeardOrders};
use pages::{Pages, RouterPage, ServerPage};
use settings::SharedReport;
use state::{AgentStateError, AgentStore};
use tuning::TuningDesk;

/// Interval of looks at routers and servers.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same while a router is about to load a text.
const LOOK_SOON: Duration = Duration::from_millis(20);
/// How often news is said, one look after the other: a controller closes a connection that was idle for a minute, and the first attempt
/// finds that out. Without controllers, looks must not wait for more of them.
const NEWS_TRIES: u32 = 2;
/// Orders that wait: a newer one replaces what is older, so two are enough.
const ORDERS_MAX: usize = 2;

pub use controllers::ControllerChoice;
pub use figures::AgentFigures;
pub use pages::MetricsPlace;
pub use settings::{
    AgentProgram, AgentRouter, AgentServer, AgentSettings, ProcessLook, TuneSettings, UpgradeSettings,
    UpgradedKind, UpgradedMember,
};
pub use upgrade::{HostProgram, HostUpgrade};

/// Why an agent does not begin.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Its folder is of no use.
    #[error("begin as the agent of {host}")]
    State {
        /// The host.
        host: HostId,
        /// Why.
        source: AgentStateError,
    },
    /// The system has no thread left.
    #[error("start a thread of the agent")]
    Thread(#[source] std::io::Error),
}

/// Starts the threads of an agent, which end with the process. Returns its figures.
///
/// # Errors
/// If its state cannot be read: an agent that has forgotten what failed would try it again.
pub fn start_agent(settings: AgentSettings) -> Result<Arc<AgentFigures>, AgentError> {
    let failed = |source| AgentError::State { host: settings.host.clone(), source };
    let store = AgentStore::open(&settings.folder).map_err(failed)?;
    let (figures, clock) = (Arc::new(AgentFigures::new()), Stopwatch::start());
    let mut pages =
        Pages::new(settings.tls.current(), clock, Arc::clone(&figures), Arc::clone(&settings.say));
    let routers: Result<Vec<BesideRouter>, AgentStateError> = settings
        .routers
        .iter()
        .map(|router| {
            let page =
                router.metrics.as_ref().map(|at| pages.watch::<RouterPage>(router.router.as_str(), at));
            BesideRouter::new(router.clone(), page, store.clone())
        })
        .collect();
    let routers = routers.map_err(failed)?;
    let servers: Result<Vec<BesideServer>, AgentStateError> = settings
        .servers
        .iter()
        .map(|server| {
            let page =
                server.metrics.as_ref().map(|at| pages.watch::<ServerPage>(server.member.as_str(), at));
            BesideServer::new(server.clone(), page, store.clone())
        })
        .collect();
    let servers = servers.map_err(failed)?;
    let own = settings.upgrade.as_ref().and_then(|upgrade| upgrade.agent.clone());
    let report = TurnReport {
        host: settings.host.clone(),
        zone: settings.zone.clone(),
        boot: settings.boot,
        turn: 0,
        seen: 0,
        wait_ms: None,
        stays: None,
        agent: Some(Box::new(AgentProgram::report(settings.upgrade.as_ref()))),
        tune: None,
        changes: None,
        standard: None,
        texts: Vec::new(),
        members: Vec::new(),
        routers: Vec::new(),
    };
    let shared = Arc::new(Mutex::new(report));
    let controllers = || Controllers::new(&settings, Arc::clone(&figures));
    let (quick, patient, say) = (controllers(), controllers(), Arc::clone(&settings.say));
    let (sender, orders) = sync_channel(ORDERS_MAX);
    let upgrade =
        || Some(HostUpgrade::new(settings.upgrade.clone()?, store.clone(), Arc::clone(&settings.say)));
    let changes = ChangeDesk::start(&settings.tune, upgrade(), &store, Arc::clone(&settings.say));
    let changes = changes.map_err(|error| match error {
        ChangeDeskError::State(source) => failed(source),
        ChangeDeskError::Thread(error) => AgentError::Thread(error),
    })?;
    let tuning = TuningDesk::start(&settings.host, settings.tune.clone(), upgrade());
    let tuning = tuning.map_err(AgentError::Thread)?;
    if let (Some(own), Some(upgrade)) = (&own, &settings.upgrade) {
        let proof = (store.clone(), Arc::clone(&figures));
        own.prove(upgrade.within, proof, Arc::clone(&settings.say)).map_err(AgentError::Thread)?;
    }
    let mut agent = Agent {
        routers,
        servers,
        tuning,
        changes,
        shared: Arc::clone(&shared),
        quick,
        figures: Arc::clone(&figures),
        say,
        clock,
    };
    pages.start().map_err(AgentError::Thread)?;
    // Before the first turn: what a host has is a part of what it says.
    agent.look();
    let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
    spawn("agent").spawn(move || agent.run(&orders)).map_err(AgentError::Thread)?;
    let turns = move || patient.take_turns(&shared, &sender);
    spawn("turns").spawn(turns).map_err(AgentError::Thread)?;
    Ok(figures)
}

struct Agent {
    routers: Vec<BesideRouter>,
    servers: Vec<BesideServer>,
    tuning: TuningDesk,
    changes: ChangeDesk,
    shared: SharedReport,
    quick: Controllers,
    figures: Arc<AgentFigures>,
    say: SayLine,
    clock: Stopwatch,
}

impl Agent {
    fn run(mut self, orders: &Receiver<HeardOrders>) {
        let mut tries = 0;
        loop {
            let is_waiting = self.routers.iter().any(BesideRouter::is_waiting);
            match orders.recv_timeout(if is_waiting { LOOK_SOON } else { LOOK_EVERY }) {
                Ok(orders) => self.carry_out(orders),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.look() {
                tries = NEWS_TRIES;
            }
            if tries > 0 {
                tries -= 1;
                // Controllers wait for it; the turn that is under way says what was before. If it does not arrive, the
                // next one says the same.
                if let Some(orders) = self.quick.turn(&self.shared, Some(0)) {
                    tries = 0;
                    self.carry_out(orders);
                }
            }
        }
    }

    fn carry_out(&mut self, heard: HeardOrders) {
        let HeardOrders { orders, turn } = heard;
        let now = self.now();
        self.figures.note_orders(orders.routers.len() + orders.members.len() + orders.lists.len());
        for order in &orders.routers {
            if let Some(router) = self.routers.iter_mut().find(|router| router.id() == &order.router) {
                router.on_order(order, orders.texts.get(&order.digest), now, &*self.say);
            }
        }
        for order in &orders.members {
            let text =
                order.cluster_file.as_ref().and_then(|digest| self.cluster_text(digest, &orders.texts));
            if let Some(server) = self.servers.iter_mut().find(|server| server.id() == &order.member) {
                server.on_order(order, text, &self.say);
            }
        }
        for order in &orders.lists {
            let text = self.cluster_text(&order.digest, &orders.texts);
            if let Some(router) = self.routers.iter_mut().find(|router| router.id() == &order.router) {
                router.on_list(order, text, &*self.say);
            }
        }
        self.tuning.on_orders(orders.tune);
        self.changes.on_orders(orders.changes, orders.standard, turn);
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).seen = orders.version;
    }

    /// The text of a cluster's file: it is not sent if another server or router of the host has it.
    fn cluster_text(&self, digest: &TextDigest, sent: &BTreeMap<TextDigest, String>) -> Option<Arc<str>> {
        if let Some(text) = sent.get(digest) {
            return Some(text.as_str().into());
        }
        self.held().find(|(held, _)| held == digest).map(|(_, text)| Arc::clone(text))
    }

    /// Texts of files for clients with auto-discovery.
    fn held(&self) -> impl Iterator<Item = &HeldText> {
        let of_routers = self.routers.iter().filter_map(BesideRouter::held);
        self.servers.iter().filter_map(BesideServer::held).chain(of_routers)
    }

    /// Looks at all, and writes the report. Whether there is news that controllers wait for.
    fn look(&mut self) -> bool {
        let now = self.now();
        for router in &mut self.routers {
            router.look(now, &*self.say);
        }
        let members: Vec<_> = self.servers.iter_mut().map(|server| server.look(now, &*self.say)).collect();
        let routers: Vec<_> = self.routers.iter().map(BesideRouter::report).collect();
        let (tune, has_new_tune) = self.tuning.report();
        let mut report = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = news_of_routers(&report.routers) != news_of_routers(&routers)
            || news_of_members(&report.members) != news_of_members(&members);
        let files: BTreeSet<&TextDigest> = self.held().map(|(digest, _)| digest).collect();
        let texts = self.routers.iter().flat_map(BesideRouter::texts);
        report.texts = texts.chain(files.into_iter().cloned()).collect();
        (report.members, report.routers, report.tune) = (members, routers, Some(tune));
        let has_new_word = self.changes.report(&mut report);
        is_news || has_new_tune || has_new_word
    }

    fn now(&self) -> Now {
        Now { us: self.clock.passed().as_micros() as u64 }
    }
}

/// What controllers wait for in reports of servers: not their figures.
fn news_of_members(members: &[MemberReport]) -> Vec<MemberReport> {
    let bare = |member: &MemberReport| MemberReport { hits: 0, misses: 0, figures: None, ..member.clone() };
    members.iter().map(bare).collect()
}

/// What controllers wait for in reports of routers: neither their figures, nor which servers they do not ask, by which nothing is
/// decided sooner.
fn news_of_routers(routers: &[RouterReport]) -> Vec<RouterReport> {
    let bare = |router: &RouterReport| RouterReport { unasked: Vec::new(), figures: None, ..router.clone() };
    routers.iter().map(bare).collect()
}

#[cfg(test)]
mod tests;
