//! Beside one router: its file, its probation, its report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleet::figures::{RouterPageTally, RouterTally};
use fleet::probation::{
    AgentAction, AgentReport, GivenText, LostServer, Probation, RouterCounts, RouterObservation,
};
use fleet::{GenerationNumber, RouterId, TextDigest};
use stdx::clock::Now;
use stdx::log_level::LogLevel;

use super::cluster_file::{ClusterFile, HeldText};
use super::pages::{MetricsPlace, PageTally, is_foreign};
use super::settings::AgentRouter;
use super::state::{AgentStateError, AgentStore};
use crate::routers::router_client::{RouterClient, digest_of};
use crate::routers::router_file::RouterFile;
use crate::service::turn::{ListOrder, ProcessReport, RouterOrder, RouterReport, TextReport, UNASKED_MAX};
use crate::words::in_full;

/// Time for a router's answers: some hundred microseconds on the same host, more when it reads a large file.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Texts that are held: the one in force, the one before, and those of orders that were not carried out.
const TEXTS_MAX: usize = 8;

/// Looks without a request after which a router has no traffic: half a minute.
const QUIET_LOOKS: u32 = 30;
/// Interval in which a server that is not asked was not asked lately: the question has all servers in its answer.
const ASKED_EVERY_MS: u64 = 30_000;

/// A router and what is known of it.
pub(super) struct BesideRouter {
    router: AgentRouter,
    file: RouterFile,
    client: RouterClient,
    store: AgentStore,
    probation: Probation,
    /// The newest ones last.
    texts: Vec<TextDigest>,
    loaded: Option<TextDigest>,
    generation: Option<GenerationNumber>,
    text: TextReport,
    suspects: Vec<String>,
    /// Requests that it had answered at the last look, and looks since when there are no more.
    requests: u64,
    quiet_looks: u32,
    /// Requests to each server, since when, and the servers without any between the last two questions.
    asked: BTreeMap<String, u64>,
    asked_at: Option<Now>,
    unasked: Vec<String>,
    /// The last trouble with the disk, which is said once.
    trouble: Option<String>,
    /// Why the text of the last order is not kept: no look at the router mends it, only an order with a text that is.
    order_trouble: Option<String>,
    list: Option<ClusterFile>,
    figures: FiguresBeside,
}

/// What is read of its figures.
struct FiguresBeside {
    page: Option<PageTally<RouterPageTally>>,
    has_foreign_page: bool,
    /// By its last answer; none before the first.
    tally: Option<RouterTally>,
}

impl BesideRouter {
    /// With what was kept.
    pub(super) fn new(
        router: AgentRouter,
        page: Option<PageTally<RouterPageTally>>,
        store: AgentStore,
    ) -> Result<BesideRouter, AgentStateError> {
        let kept: Option<Probation> = store.load(&name(&router.router))?;
        let file = RouterFile::new(&router.file);
        let begun = kept.as_ref().and_then(Probation::good).map(|good| &good.digest);
        if let Some(first) = &router.first_text
            && begun.is_none_or(|begun| *begun == digest_of(first.as_bytes()))
        {
            begin_file(&file, first, &store)?;
        }
        let list = router.cluster_file.clone().map(ClusterFile::new);
        let client = RouterClient::new(router.place.clone(), ANSWER_WITHIN);
        let probation = kept.unwrap_or_default();
        let good = probation.good().cloned();
        let (generation, texts) = match good {
            Some(good) => (Some(good.generation).filter(|number| number.0 > 0), vec![good.digest]),
            None => (None, Vec::new()),
        };
        Ok(BesideRouter {
            router,
            file,
            client,
            store,
            probation,
            texts,
            loaded: None,
            generation,
            text: TextReport::Loaded,
            suspects: Vec::new(),
            requests: 0,
            quiet_looks: QUIET_LOOKS,
            asked: BTreeMap::new(),
            asked_at: None,
            unasked: Vec::new(),
            trouble: None,
            order_trouble: None,
            list,
            figures: FiguresBeside { page, has_foreign_page: false, tally: None },
        })
    }

    pub(super) fn id(&self) -> &RouterId {
        &self.router.router
    }

    /// Whether it is about to load a text.
    pub(super) fn is_waiting(&self) -> bool {
        self.text == TextReport::Waiting
    }

    /// Texts that controllers need not send.
    pub(super) fn texts(&self) -> Vec<TextDigest> {
        self.texts.iter().filter(|digest| self.store.text(digest).is_some()).cloned().collect()
    }

    /// What controllers are told.
    pub(super) fn report(&self) -> RouterReport {
        RouterReport {
            router: self.router.router.clone(),
            view: self.router.view.clone(),
            generation: self.generation,
            loaded: self.loaded.clone(),
            text: self.text.clone(),
            suspects: self.suspects.clone(),
            has_traffic: self.quiet_looks < QUIET_LOOKS,
            unasked: self.unasked.clone(),
            trouble: self.order_trouble.clone().or_else(|| self.trouble.clone()),
            client_address: self.router.client_address.clone(),
            has_cluster_file: self.list.is_some(),
            page: self.router.metrics.as_ref().map(MetricsPlace::address),
            figures: self.figures.tally.clone().map(Box::new),
        }
    }

    /// The text of its list of routers.
    pub(super) fn held(&self) -> Option<&HeldText> {
        self.list.as_ref()?.held()
    }

    /// Writes its list of routers.
    pub(super) fn on_list(
        &mut self,
        order: &ListOrder,
        text: Option<Arc<str>>,
        say: &dyn Fn(LogLevel, &str),
    ) {
        if let Some(list) = &mut self.list {
            list.carry_out(self.router.router.as_str(), &order.digest, text, say);
        }
    }

    /// Takes an order with its text, if it was sent.
    pub(super) fn on_order(
        &mut self,
        order: &RouterOrder,
        text: Option<&String>,
        now: Now,
        say: &dyn Fn(LogLevel, &str),
    ) {
        if let Some(text) = text {
            let before = self.order_trouble.take();
            self.order_trouble = self.keep(order, text).err();
            if let Some(why) = &self.order_trouble {
                if before.as_ref() != Some(why) {
                    say(LogLevel::Warning, &format!("{}: {why}", self.router.router));
                }
                return;
            }
            self.note_text(&order.digest);
        }
        if self.store.text(&order.digest).is_none() {
            // The next turn says that it is missing.
            return;
        }
        let target = GivenText { generation: order.generation, digest: order.digest.clone() };
        let actions = self.probation.on_target(target, now);
        if actions.iter().any(|action| matches!(action, AgentAction::Write(_))) {
            self.text = TextReport::Waiting;
        }
        self.carry_out(actions, say);
    }

    fn keep(&self, order: &RouterOrder, text: &str) -> Result<(), String> {
        if digest_of(text.as_bytes()) != order.digest {
            return Err(format!("the text of generation {} is damaged", order.generation));
        }
        self.store.keep_text(&order.digest, text).map_err(|error| in_full(&error))
    }

    /// Looks at the router and its file.
    pub(super) fn look(&mut self, now: Now, say: &dyn Fn(LogLevel, &str)) {
        let process = match (self.router.process)() {
            ProcessReport::Running { pid } => Some(u64::from(pid)),
            _ => None,
        };
        self.loaded = process.and_then(|_| self.client.loaded().ok());
        let counts = self.loaded.as_ref().and_then(|_| self.client.counts().ok());
        if self.figures.note(counts, process, now) {
            say(LogLevel::Warning, &format!("{}: its page is another process's", self.router.router));
        }
        self.note_traffic(counts);
        self.note_asked(now);
        let file = match self.file.read() {
            Ok(text) => text.map(|text| digest_of(&text)),
            Err(error) => return self.trouble(in_full(&error), say),
        };
        if file.is_none() && self.probation.good().is_none() && self.text != TextReport::Waiting {
            // Nothing was ever there.
            return;
        }
        let (loaded, lost) = (self.loaded.clone(), self.lost());
        let seen = RouterObservation { process, loaded, file, counts, lost };
        let actions = self.probation.on_observation(seen, now);
        self.carry_out(actions, say);
    }

    /// Our own questions are not requests of this kind.
    fn note_traffic(&mut self, counts: Option<RouterCounts>) {
        let requests = counts.map_or(0, |counts| counts.requests);
        self.quiet_looks = if requests > self.requests { 0 } else { self.quiet_looks.saturating_add(1) };
        self.requests = requests;
        self.suspects = match self.loaded {
            Some(_) => self.client.suspects().unwrap_or_default(),
            None => Vec::new(),
        };
    }

    /// Finds the servers that it has not asked since the question before. Too many of them are none: what is not named counts as
    /// asked.
    fn note_asked(&mut self, now: Now) {
        if self.loaded.is_none() || self.asked_at.is_some_and(|at| now.ms() < at.ms() + ASKED_EVERY_MS) {
            return;
        }
        self.asked_at = Some(now);
        // Without an answer, what was known stays.
        let Ok(servers) = self.client.servers() else { return };
        self.probation.note_servers(servers.names);
        let asked = servers.asked;
        let is_unasked = |(address, count): &(&String, &u64)| self.asked.get(*address) == Some(count);
        let unasked: Vec<String> =
            asked.iter().filter(is_unasked).map(|(address, _)| address.clone()).collect();
        self.unasked = if unasked.len() > UNASKED_MAX { Vec::new() } else { unasked };
        self.asked = asked;
    }

    /// Servers that it has lost, by its own names. The question is asked only when there are some: its answer has all servers.
    fn lost(&self) -> Vec<LostServer> {
        match self.suspects.is_empty() {
            true => Vec::new(),
            false => self.client.lost().unwrap_or_default(),
        }
    }

    fn carry_out(&mut self, actions: Vec<AgentAction>, say: &dyn Fn(LogLevel, &str)) {
        for action in actions {
            let done = match action {
                AgentAction::Keep => self
                    .store
                    .keep(&name(&self.router.router), &self.probation)
                    .map_err(|error| in_full(&error)),
                AgentAction::Write(digest) => self.write(&digest),
                AgentAction::Report(report) => {
                    self.note(report, say);
                    Ok(())
                }
            };
            if let Err(why) = done {
                // What follows stands on it; the next look does it again.
                return self.trouble(why, say);
            }
        }
        self.trouble = None;
    }

    fn write(&self, digest: &TextDigest) -> Result<(), String> {
        let text = match self.store.text(digest) {
            Some(text) => text,
            // The file that was there before the first order is the only one that was not sent.
            None => return Err(format!("the text {digest} is not kept")),
        };
        self.file.write(text.as_bytes()).map_err(|error| in_full(&error))
    }

    fn note(&mut self, report: AgentReport, say: &dyn Fn(LogLevel, &str)) {
        let router = self.router.router.clone();
        match report {
            AgentReport::Loaded(text) => {
                say(LogLevel::Info, &format!("{router} has loaded generation {}", text.generation));
                (self.generation, self.text) = (Some(text.generation), TextReport::Loaded);
                self.loaded = Some(text.digest);
            }
            AgentReport::Refused(text, reason) => {
                say(LogLevel::Warning, &format!("{router} refuses generation {}: {reason}", text.generation));
                self.text = TextReport::Refused { generation: text.generation, reason: reason.to_owned() };
            }
            AgentReport::Crashed(text, reason) => {
                say(
                    LogLevel::Warning,
                    &format!("{router} is back from generation {}: {reason}", text.generation),
                );
                self.text = TextReport::Crashed { generation: text.generation, reason: reason.to_owned() };
            }
            AgentReport::Foreign(_) => {
                say(
                    LogLevel::Warning,
                    &format!("{router}: somebody else has written {}", self.router.file.display()),
                );
                self.text = TextReport::Foreign;
            }
        }
    }

    /// Holds a text, and forgets the oldest ones that are not in force.
    fn note_text(&mut self, digest: &TextDigest) {
        self.texts.retain(|other| other != digest);
        self.texts.push(digest.clone());
        let good = self.probation.good().map(|good| good.digest.clone());
        while self.texts.len() > TEXTS_MAX {
            let oldest = self.texts.iter().position(|other| Some(other) != good.as_ref());
            let oldest = self.texts.remove(oldest.expect("only one of them is in force"));
            self.store.forget_text(&oldest);
        }
    }

    fn trouble(&mut self, why: String, say: &dyn Fn(LogLevel, &str)) {
        if self.trouble.as_ref() != Some(&why) {
            say(LogLevel::Warning, &format!("{}: {why}", self.router.router));
        }
        self.trouble = Some(why);
    }
}

impl FiguresBeside {
    /// Takes the router's answer, if there is one. Whether its page has become another process's.
    fn note(&mut self, counts: Option<RouterCounts>, pid: Option<u64>, now: Now) -> bool {
        if let Some(RouterCounts { requests, errors, .. }) = counts {
            let (requests, errors) = (Some(requests), Some(errors));
            self.tally = Some(RouterTally { at_ms: now.ms(), pid, requests, errors, page: None });
        }
        let Some(tally) = &mut self.tally else { return false };
        let page = self.page.as_ref().and_then(PageTally::last);
        let is_foreign = page.as_ref().is_some_and(|page| is_foreign(page.pid, pid));
        tally.page = page.filter(|_| !is_foreign);
        let was_foreign = std::mem::replace(&mut self.has_foreign_page, is_foreign);
        is_foreign && !was_foreign
    }
}

/// Writes the first text if there is no file. It is kept, so that the router can go back to it from the first order.
fn begin_file(file: &RouterFile, text: &str, store: &AgentStore) -> Result<(), AgentStateError> {
    if file.read()?.is_none() {
        store.keep_text(&digest_of(text.as_bytes()), text)?;
        file.write(text.as_bytes())?;
    }
    Ok(())
}

fn name(router: &RouterId) -> String {
    format!("router-{router}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PeerPlace;
    use std::fs;
    use std::path::Path;

    const FIRST: &str = "{\"route\": \"ErrorRoute\"}";

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("evenkeel-first-text-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a folder");
        path
    }

    /// An agent beside a router that does not run.
    fn begin(folder: &Path) -> BesideRouter {
        let router = AgentRouter {
            router: "r1".parse().expect("a name"),
            view: "main".parse().expect("a name"),
            metrics: None,
            file: folder.join("route.json"),
            first_text: Some(FIRST.to_owned()),
            place: PeerPlace { address: format!("unix:{}", folder.join("none.sock").display()), tls: None },
            process: Arc::new(|| ProcessReport::Down),
            client_address: None,
            cluster_file: None,
        };
        let store = AgentStore::open(&folder.join("agent")).expect("a store");
        BesideRouter::new(router, None, store).expect("it begins")
    }

    #[test]
    fn a_router_without_a_file_has_the_first_text() {
        let folder = folder("none");
        let mut beside = begin(&folder);
        assert_eq!(fs::read_to_string(folder.join("route.json")).expect("a file"), FIRST);
        beside.look(Now::at_ms(0), &|_, line| panic!("{line}"));
        assert_eq!(beside.report().text, TextReport::Loaded, "it is no other writer's file");
        assert_eq!(beside.store.text(&digest_of(FIRST.as_bytes())).as_deref(), Some(FIRST));
    }

    #[test]
    fn a_file_that_is_there_stays() {
        let folder = folder("there");
        fs::write(folder.join("route.json"), "{}").expect("a file");
        begin(&folder);
        assert_eq!(fs::read_to_string(folder.join("route.json")).expect("a file"), "{}");
    }

    #[test]
    fn the_first_text_comes_again_until_there_is_an_order() {
        let folder = folder("again");
        begin(&folder).look(Now::at_ms(0), &|_, line| panic!("{line}"));
        fs::remove_file(folder.join("route.json")).expect("it is there");
        begin(&folder);
        assert_eq!(fs::read_to_string(folder.join("route.json")).expect("a file"), FIRST);
    }

    #[test]
    fn what_is_missing_after_an_order_is_what_the_order_said() {
        let folder = folder("order");
        let mut beside = begin(&folder);
        beside.look(Now::at_ms(0), &|_, line| panic!("{line}"));
        let text = "{\"route\": \"NullRoute\"}".to_owned();
        let order = RouterOrder {
            router: "r1".parse().expect("a name"),
            generation: GenerationNumber(1),
            digest: digest_of(text.as_bytes()),
        };
        beside.on_order(&order, Some(&text), Now::at_ms(1), &|_, line| panic!("{line}"));
        fs::remove_file(folder.join("route.json")).expect("it is there");
        begin(&folder).look(Now::at_ms(2), &|_, line| panic!("{line}"));
        assert_eq!(fs::read_to_string(folder.join("route.json")).expect("a file"), text);
    }
}
