//! Moments of controllers, agents and clients.

use std::time::Duration;

use control::{ProbeResult, TurnOrders};
use router::{ProcessFacts, ReportFacts};
use stdx::clock::Now;

use super::super::agents::server_report;
use super::super::askers::Askers;
use super::super::bug::SmallBug;
use super::super::shape::{CALM_MS, CLIENTS_FROM_MS, CONTROLLERS, KEYS, ROUTERS, SLOTS_GROWN};
use super::super::traffic::key;
use super::{Moment, SmallWorld};

/// Agents and controllers have a moment once in this time, and in the first minute, in which nothing happens, in that.
const EVERY_MS: u64 = 1_000;
const EVERY_MS_FIRST: u64 = 4_000;
/// The first minute's end.
const QUIET_UNTIL_MS: u64 = CLIENTS_FROM_MS - 5_000;

impl SmallWorld {
    pub(super) fn controller_moment(&mut self, now_ms: u64, at: usize) {
        let probe = |server: &super::super::members::SmallServer| {
            let answers = server.is_up && !server.is_cut_off;
            let answer = if answers { Ok(Duration::from_millis(1)) } else { Err("no answer".to_owned()) };
            ProbeResult { member: server.id.clone(), answer }
        };
        let probes = self.servers.0.iter().map(probe).collect();
        if self.bugs.contains(&SmallBug::HaltHoldsHealing) {
            self.controllers.hold_while_halted(at, now_ms);
        }
        self.controllers.tick(at, now_ms, probes);
        self.without_controllers_ms = match self.controllers.any_works() {
            true => None,
            false => self.without_controllers_ms.or(Some(now_ms)),
        };
        self.read_news(now_ms);
        self.queue.push(now_ms + every_ms(now_ms), Moment::Controller(at));
    }

    pub(super) fn server_agent_moment(&mut self, now_ms: u64, at: usize) {
        self.queue.push(now_ms + every_ms(now_ms), Moment::ServerAgent(at));
        self.servers.start_due(&mut self.net, now_ms);
        self.take_flush(at);
        self.take_sweep(at);
        if self.servers.0[at].is_cut_off {
            return;
        }
        let server = &mut self.servers.0[at];
        let report = server_report(server, at);
        if let Some(orders) = self.controllers.turn(at % CONTROLLERS, &mut server.choice, &report, now_ms) {
            self.obey_flush(at, &orders);
            self.obey_sweep(at, &orders);
        }
        self.read_news(now_ms);
    }

    fn take_flush(&mut self, at: usize) {
        let Some(wanted) = self.servers.0[at].flushing else { return };
        let askers = self.net.handler::<Askers>(self.askers);
        let Some(answer) = askers.take(2 * ROUTERS + at) else { return };
        let server = &mut self.servers.0[at];
        server.flushing = None;
        match answer.text.as_deref() {
            Some(b"OK\r\n") => (server.flushes, server.is_kept_empty) = (wanted, server.keeps_empty),
            // The order is asked for again.
            _ => server.seen = 0,
        }
    }

    fn obey_flush(&mut self, at: usize, orders: &TurnOrders) {
        let server = &mut self.servers.0[at];
        server.seen = orders.version;
        let wanted = orders.members.iter().map(|order| order.flushes).max().unwrap_or(0);
        // Who was kept empty is emptied once more: routers may have written to it since.
        let keeps_empty = orders.members.iter().any(|order| order.keep_empty);
        let is_due = wanted > server.flushes || keeps_empty || server.is_kept_empty;
        if !is_due || server.flushing.is_some() || server.sweeping.is_some() {
            return;
        }
        let wanted = wanted.max(server.flushes);
        server.keeps_empty = keeps_empty;
        if self.bugs.contains(&SmallBug::FlushAssumed) {
            (server.flushes, server.is_kept_empty) = (wanted, keeps_empty);
            return;
        }
        server.flushing = Some(wanted);
        self.ask(2 * ROUTERS + at, "flush_all\r\n");
    }

    fn take_sweep(&mut self, at: usize) {
        let Some(number) = self.servers.0[at].sweeping else { return };
        let askers = self.net.handler::<Askers>(self.askers);
        let Some(answer) = askers.take(2 * ROUTERS + at) else { return };
        let server = &mut self.servers.0[at];
        server.sweeping = None;
        match answer.text.as_deref() {
            Some(b"MN\r\n") => server.swept = number,
            // The order is asked for again.
            _ => server.seen = 0,
        }
    }

    /// An agent knows all keys, and deletes those of other slots. One question follows the other, so a flush comes first.
    fn obey_sweep(&mut self, at: usize, orders: &TurnOrders) {
        let Some(order) = orders.members.iter().find_map(|order| order.sweep.as_ref()) else { return };
        let server = &mut self.servers.0[at];
        if server.swept >= order.number || server.sweeping.is_some() {
            return;
        }
        if server.flushing.is_some() {
            server.seen = 0;
            return;
        }
        if self.bugs.contains(&SmallBug::SweepAssumed) {
            server.swept = order.number;
            return;
        }
        server.sweeping = Some(order.number);
        assert_eq!(order.slots, SLOTS_GROWN, "the layout that is read");
        let foreign = (0..KEYS).filter(|number| self.traffic.grown[*number] != order.own);
        let deletes: String = foreign.map(|number| format!("delete {} noreply\r\n", key(number))).collect();
        self.ask(2 * ROUTERS + at, &format!("{deletes}mn\r\n"));
    }

    fn ask(&mut self, asker: usize, question: &str) {
        self.net.handler::<Askers>(self.askers).ask(asker, question);
        self.net.nudge(self.askers);
    }

    pub(super) fn router_agent_moment(&mut self, now_ms: u64, at: usize) {
        self.queue.push(now_ms + every_ms(now_ms), Moment::RouterAgent(at));
        if self.agents[at].away_until_ms > now_ms {
            return;
        }
        let answer = self.net.handler::<Askers>(self.askers).take(ROUTERS + at);
        if let Some(text) = answer.and_then(|answer| answer.text) {
            self.agents[at].suspects = suspects(&String::from_utf8_lossy(&text));
            self.check_refusals(now_ms, at);
        }
        let now = Now::at_ms(now_ms);
        let process = self.routers[at].process.as_ref();
        let (starts, loaded) = (self.routers[at].starts, process.map(|process| &process.loaded));
        let news = self.agents[at].look(now, process.map(|_| starts), loaded);
        self.note_generation(now_ms, at, news);
        let report = self.agents[at].report();
        let choice = &mut self.agents[at].choice;
        let orders = self.controllers.turn(at % CONTROLLERS, choice, &report, now_ms);
        self.check_holder(now_ms, at);
        if let Some(orders) = orders {
            let news = self.agents[at].obey(orders, now);
            self.note_generation(now_ms, at, news);
        }
        self.ask(ROUTERS + at, "stats suspect_servers\r\n");
        self.read_news(now_ms);
    }

    /// A router looks at its file, and makes reports for whoever has asked.
    pub(super) fn router_moment(&mut self, now_ms: u64, at: usize) {
        let next_ms = if now_ms < QUIET_UNTIL_MS { QUIET_UNTIL_MS } else { now_ms };
        let next_ms = next_ms + 100 + self.prng.below(400);
        self.queue.push(next_ms, Moment::Router(at));
        self.let_load(now_ms, at);
        let Some(process) = &self.routers[at].process else { return };
        let now = self.net.now();
        let facts = || ReportFacts { now, unix_s: now.us / 1_000_000, process: ProcessFacts::default() };
        if !process.shared.serve_reports(facts).is_empty() {
            self.net.nudge(self.routers[at].host);
        }
    }

    pub(super) fn client_moment(&mut self, now_ms: u64, at: usize) {
        let askers = self.net.handler::<Askers>(self.askers);
        let (finished, next_ms) = self.traffic.moment(at, now_ms, askers, &mut self.prng);
        self.net.nudge(self.askers);
        self.queue.push(next_ms, Moment::Client(at));
        if let Some(finished) = finished {
            self.check_answer(now_ms, finished);
        }
        if now_ms > CALM_MS && self.run.converged_ms.is_none() && self.not_converged().is_none() {
            self.run.converged_ms = Some(now_ms - CALM_MS);
        }
    }
}

fn every_ms(now_ms: u64) -> u64 {
    if now_ms < QUIET_UNTIL_MS { EVERY_MS_FIRST } else { EVERY_MS }
}

/// Servers that a router does not ask any more, by its own list.
fn suspects(text: &str) -> Vec<String> {
    let suspect = |line: &str| {
        let (name, facts) = line.strip_prefix("STAT ")?.split_once(' ')?;
        facts.contains("status:tko").then(|| name.to_owned())
    };
    text.lines().filter_map(suspect).collect()
}
