//! Pages of controllers and agents over HTTP (`--metrics-listen`): metrics for Prometheus, and readiness.
//!
//! The threads that work write figures; a scrape reads them and waits for nobody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admin::Source;
use fleet::rollout::RolloutState;
use os::clock::Stopwatch;
use stdx::exposition::{Exposition, FamilyKind};

mod request_sums;

use crate::agent::AgentFigures;
use crate::controller::{ControllerFigures, TuneFigures};
use crate::identity::FleetIdentity;
use crate::service::ControlService;

/// A controller whose figures are older does not decide: its thread is held up.
const FIGURES_OLD: Duration = Duration::from_secs(30);

/// An agent without an accepted turn for so long is not heard by any controller. A turn takes 20 s at most.
const TURN_OLD: Duration = Duration::from_secs(60);

/// Figures of a controller, and when they were written.
#[derive(Clone, Default)]
pub struct SharedFigures(Arc<Mutex<Option<(Stopwatch, ControllerFigures)>>>);

impl SharedFigures {
    /// Replaces them.
    pub(crate) fn set(&self, figures: ControllerFigures) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Stopwatch::start(), figures));
    }

    fn get(&self) -> Option<(Duration, ControllerFigures)> {
        let shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.as_ref().map(|(written, figures)| (written.passed(), figures.clone()))
    }
}

/// Pages of a controller.
pub struct ControllerPages {
    figures: SharedFigures,
    service: Arc<ControlService>,
}

impl ControllerPages {
    /// Of these figures, and of the service that peers reach.
    pub fn new(figures: SharedFigures, service: Arc<ControlService>) -> ControllerPages {
        ControllerPages { figures, service }
    }
}

impl Source for ControllerPages {
    fn metrics(&self) -> String {
        let mut text = Exposition::default();
        text.single(
            "evenkeel_control_requests_refused_total",
            FamilyKind::Counter,
            "Requests of peers without a certificate of the fleet, or without the right to what they asked.",
            self.service.refusals(),
        );
        if let Some((age, figures)) = self.figures.get() {
            write_controller(&mut text, age, &figures);
        }
        text.finish()
    }

    fn readiness(&self) -> Result<(), String> {
        let (age, figures) = self.figures.get().ok_or("it begins")?;
        if age > FIGURES_OLD {
            return Err(format!("the thread that decides has not come round for {} s", age.as_secs()));
        }
        figures.register_away.map_or(Ok(()), |why| Err(format!("the register is away: {why}")))
    }

    fn report(&self, _: &str) -> Option<String> {
        None
    }
}

fn write_controller(text: &mut Exposition, age: Duration, figures: &ControllerFigures) {
    use FamilyKind::{Counter, Gauge};
    let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
    let mut single =
        |name: &str, kind, help, value: &dyn std::fmt::Display| text.single(name, kind, help, value);
    single(
        "evenkeel_control_figures_age_seconds",
        Gauge,
        "Age of the figures of this page; they are counted every 5 s while the controller decides.",
        &age.as_secs_f64(),
    );
    single(
        "evenkeel_control_generation",
        Gauge,
        "Number of the generation in force; 0 before the first.",
        &figures.generation.unwrap_or(0),
    );
    single(
        "evenkeel_control_register_away",
        Gauge,
        "1 while the register does not answer, and so nothing new is decided.",
        &u8::from(figures.register_away.is_some()),
    );
    single(
        "evenkeel_control_frozen_scopes",
        Gauge,
        "Scopes in which nothing changes until a person thaws.",
        &figures.frozen_scopes,
    );
    single(
        "evenkeel_control_quarantined",
        Gauge,
        "Members and hosts that take no slot for a while.",
        &figures.held,
    );
    if let Some(oldest_ms) = figures.oldest_turn_ms {
        single(
            "evenkeel_control_oldest_turn_seconds",
            Gauge,
            "Time since the last turn of the agent that has been silent for longest; absent before the first turn of any.",
            &seconds(oldest_ms),
        );
    }
    single(
        "evenkeel_control_turns_total",
        Counter,
        "Turns of agents that were taken, also from other controllers.",
        &figures.turns,
    );
    single(
        "evenkeel_control_audit_failures_total",
        Counter,
        "Acts and results that could not be written to the audit log.",
        &figures.audit_failures,
    );
    if let Some(end_s) = figures.certificate_end_s {
        single(
            "evenkeel_control_certificate_end_seconds",
            Gauge,
            "End of the controller's certificate, in seconds since 1970.",
            &end_s,
        );
    }
    let mut agents = text.family(
        "evenkeel_control_agents",
        Gauge,
        "Agents that were heard of, by whether they are heard.",
    );
    agents.sample(&[("state", "heard")], figures.agents - figures.silent_agents);
    agents.sample(&[("state", "silent")], figures.silent_agents);
    let mut states = text.family(
        "evenkeel_control_rollout_state",
        Gauge,
        "1 for the state of the rollout of the generation in force.",
    );
    for word in RolloutState::WORDS {
        states.sample(&[("state", word)], u8::from(figures.rollout == Some(word)));
    }
    let counts = [
        ("evenkeel_control_members", "Members by state.", &figures.members),
        ("evenkeel_control_routers", "Routers by state.", &figures.routers),
    ];
    for (name, help, counts) in counts {
        let mut family = text.family(name, Gauge, help);
        counts.iter().for_each(|(state, count)| family.sample(&[("state", state)], count));
    }
    request_sums::write(text, &figures.requests);
    write_tuning(text, &figures.tune);
    write_changes(text, figures);
    let mut decisions = text.family(
        "evenkeel_control_decisions_total",
        Counter,
        "Changes that were asked for or decided here, by kind and by what has come of them.",
    );
    for ((kind, result), count) in &figures.decisions {
        decisions.sample(&[("kind", kind), ("result", result)], count);
    }
}

fn write_changes(text: &mut Exposition, figures: &ControllerFigures) {
    let mut changes = text.family(
        "evenkeel_control_host_changes",
        FamilyKind::Gauge,
        "Changes of hosts that are on their way, by state; waiting: for an objective or a gate of which it is not known that it is fulfilled.",
    );
    figures.changes.iter().for_each(|(state, count)| changes.sample(&[("state", state)], count));
    let mut hosts = text.family(
        "evenkeel_control_host_change_hosts",
        FamilyKind::Gauge,
        "Hosts of changes that are on their way: changed as they say, told to change, told to be as before, left out, or not told yet.",
    );
    figures.change_hosts.iter().for_each(|(state, count)| hosts.sample(&[("state", state)], count));
    let mut standards = text.family(
        "evenkeel_control_standard_hosts",
        FamilyKind::Gauge,
        "Hosts for which the policy has a standard of tuning, by how they are.",
    );
    figures.standard_hosts.iter().for_each(|(state, count)| standards.sample(&[("state", state)], count));
    text.single(
        "evenkeel_control_standard_waiting_hosts",
        FamilyKind::Gauge,
        "Hosts whose standard of tuning waits for a person.",
        figures.standards_waiting,
    );
}

fn write_tuning(text: &mut Exposition, figures: &TuneFigures) {
    let mut hosts = text.family(
        "evenkeel_control_tune_hosts",
        FamilyKind::Gauge,
        "Hosts with an agent by what is known of their last tune check: given, or the cause why not.",
    );
    figures.hosts.iter().for_each(|(word, count)| hosts.sample(&[("answer", word)], count));
    let mut findings = text.family(
        "evenkeel_control_tune_findings",
        FamilyKind::Gauge,
        "Hosts on which the tuner has found this; of more than 100 different ones, those of most hosts.",
    );
    for ((rule, severity), count) in &figures.findings {
        findings.sample(&[("rule", &**rule), ("severity", severity.word())], count);
    }
    if let Some(oldest_s) = figures.oldest_s {
        text.single(
            "evenkeel_control_tune_oldest_check_seconds",
            FamilyKind::Gauge,
            "Age of the oldest tune check of a host; absent before the first.",
            oldest_s,
        );
    }
}

/// Pages of an agent.
pub struct AgentPages {
    figures: Arc<AgentFigures>,
    certificate_end_s: Option<Arc<AtomicU64>>,
    beside: Vec<(FleetIdentity, Arc<AtomicU64>)>,
}

impl AgentPages {
    /// Of these figures; the end of the agent's certificate is in seconds since 1970, 0 while it is not known.
    pub fn new(figures: Arc<AgentFigures>, certificate_end_s: Option<Arc<AtomicU64>>) -> AgentPages {
        AgentPages { figures, certificate_end_s, beside: Vec::new() }
    }

    /// With the ends of certificates that it renews for servers and routers beside it.
    #[must_use]
    pub fn beside(mut self, beside: Vec<(FleetIdentity, Arc<AtomicU64>)>) -> AgentPages {
        self.beside = beside;
        self
    }
}

impl Source for AgentPages {
    fn metrics(&self) -> String {
        use FamilyKind::{Counter, Gauge};
        let mut text = Exposition::default();
        let figures = &self.figures;
        text.single(
            "evenkeel_agent_turn_age_seconds",
            Gauge,
            "Time since a controller has answered a turn; since the start before the first one.",
            figures.turn_age().as_secs_f64(),
        );
        let mut turns = text.family(
            "evenkeel_agent_turns_total",
            Counter,
            "Turns, by whether a controller has answered with orders.",
        );
        let (answered, failed) = figures.turns();
        turns.sample(&[("result", "answered")], answered);
        turns.sample(&[("result", "failed")], failed);
        let mut pages = text.family(
            "evenkeel_agent_page_reads_total",
            Counter,
            "Readings of the pages of figures of servers and routers, by whether they were whole and understood.",
        );
        let (read, failed) = figures.pages();
        pages.sample(&[("result", "read")], read);
        pages.sample(&[("result", "failed")], failed);
        text.single(
            "evenkeel_agent_orders_total",
            Counter,
            "Orders for servers and routers of this host in answers of controllers; the same may come again.",
            figures.orders(),
        );
        let end_s = self.certificate_end_s.as_ref().map(|end_s| end_s.load(Ordering::Relaxed));
        if let Some(end_s) = end_s.filter(|end_s| *end_s > 0) {
            text.single(
                "evenkeel_agent_certificate_end_seconds",
                Gauge,
                "End of the agent's certificate, in seconds since 1970.",
                end_s,
            );
        }
        let ends = self.beside.iter().map(|(whose, end_s)| (whose, end_s.load(Ordering::Relaxed)));
        let ends: Vec<_> = ends.filter(|(_, end_s)| *end_s > 0).collect();
        text.single(
            "evenkeel_agent_beside_certificates_missing",
            Gauge,
            "Certificates of servers and routers that the agent has to see to, and that are not there or cannot be read.",
            (self.beside.len() - ends.len()) as u64,
        );
        if !ends.is_empty() {
            let mut family = text.family(
                "evenkeel_agent_beside_certificate_end_seconds",
                Gauge,
                "End of the certificate of a server or router that the agent renews, in seconds since 1970.",
            );
            for (whose, end_s) in ends {
                family.sample(&[("role", whose.role.word()), ("id", whose.id.as_str())], end_s);
            }
        }
        text.finish()
    }

    fn readiness(&self) -> Result<(), String> {
        match self.figures.turn_age() {
            age if age <= TURN_OLD && self.figures.turns().0 > 0 => Ok(()),
            age => Err(format!("no controller has answered for {} s", age.as_secs())),
        }
    }

    fn report(&self, _: &str) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use stdx::exposition::read;

    use super::*;

    #[test]
    fn a_controller_is_ready_while_it_decides_and_its_register_answers() {
        let (service, _messages) =
            ControlService::new(Arc::default(), "prod".parse().expect("a name"), Arc::new(|_, _: &str| {}));
        let shared = SharedFigures::default();
        let pages = ControllerPages::new(shared.clone(), service);
        assert_eq!(pages.readiness(), Err("it begins".to_owned()));
        let decided = [(("apply", "done"), 2), (("apply", "refused"), 1)];
        let mut figures = ControllerFigures {
            generation: Some(7),
            rollout: Some("halted"),
            members: [("serving", 3), ("spare", 1)].into(),
            routers: [("current", 2)].into(),
            decisions: decided.into(),
            ..ControllerFigures::default()
        };
        shared.set(figures.clone());
        assert_eq!(pages.readiness(), Ok(()));
        let text = pages.metrics();
        read(&text).expect("Prometheus reads it");
        for line in [
            "evenkeel_control_generation 7",
            "evenkeel_control_register_away 0",
            "evenkeel_control_rollout_state{state=\"halted\"} 1",
            "evenkeel_control_rollout_state{state=\"done\"} 0",
            "evenkeel_control_members{state=\"serving\"} 3",
            "evenkeel_control_routers{state=\"current\"} 2",
            "evenkeel_control_decisions_total{kind=\"apply\",result=\"done\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("certificate_end"), "it has none: {text}");
        figures.register_away = Some("etcd: connection refused".to_owned());
        shared.set(figures);
        assert_eq!(pages.readiness(), Err("the register is away: etcd: connection refused".to_owned()));
    }

    #[test]
    fn an_agent_is_ready_when_a_controller_has_answered() {
        let figures = Arc::new(AgentFigures::new());
        let pages = AgentPages::new(Arc::clone(&figures), Some(Arc::new(AtomicU64::new(1_900_000_000))));
        assert_eq!(pages.readiness(), Err("no controller has answered for 0 s".to_owned()));
        figures.note_turn(false);
        figures.note_turn(true);
        figures.note_orders(3);
        assert_eq!(pages.readiness(), Ok(()));
        let text = pages.metrics();
        read(&text).expect("Prometheus reads it");
        for line in [
            "evenkeel_agent_turns_total{result=\"answered\"} 1",
            "evenkeel_agent_turns_total{result=\"failed\"} 1",
            "evenkeel_agent_orders_total 3",
            "evenkeel_agent_certificate_end_seconds 1900000000",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
