//! Draft of a plan: proposals for findings, a strategy and a profile, added one after the other.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Setting, Stage};
use super::proposal::ProposedChanges;
use super::strategy::{self, Strategy, queues, turns};
use super::{Plan, PlanRequest, Taken, listen_queue, move_interrupt, remedy};
use crate::diagnose::finding::{Finding, RemedyStatus, Severity};
use crate::diagnose::rules::{self, Remedy};
use crate::observe::cpu_load::BUSY_PERCENT;
use crate::observe::cpu_model::CpuModel;
use crate::observe::facts::{Facts, Nic};
use crate::observe::irqbalance;
use crate::plan::profile::Profile;
use os::CpuSet;

/// The reason why a finding has no change in the plan.
const SET_ALREADY: &str = "every remedy for it is in force already";

/// The reason why packets are not steered in the same plan.
pub(super) const SPREAD_FIRST: &str =
    "its interrupts are spread first: look again under load, for steering may not be needed then";

/// A plan in the making.
struct Draft<'a> {
    facts: &'a Facts,
    asked: &'a PlanRequest<'a>,
    nics: &'a [&'a Nic],
    model: CpuModel<'a>,
    plan: Plan,
    taken: Taken,
    /// The host with the interrupts where the plan puts them, and which these are.
    moved: Facts,
    moved_irqs: BTreeSet<u32>,
    /// Interfaces whose interrupts the plan spreads.
    spread: BTreeSet<&'a str>,
    /// CPUs to which a strategy gathers interrupts.
    gathered: CpuSet,
}

/// All changes for the request, in their order, queues included.
pub(super) fn complete(facts: &Facts, asked: &PlanRequest, nics: &[&Nic]) -> Plan {
    let each = rules::unfold(asked.findings);
    let fixable = each.iter().filter(|(finding, _)| finding.verdict == RemedyStatus::Fixable);
    let mut findings: Vec<&(Finding, Option<&str>)> = fixable.collect();
    // Interrupts go first: packets are steered to CPUs that do not take them, and these will be others.
    findings.sort_by_key(|(finding, _)| !moves_interrupts(finding));
    let mut draft = Draft::new(facts, asked, nics);
    for (finding, cause) in findings {
        draft.add_finding(finding, *cause);
    }
    if let Some(strategy) = asked.strategy {
        draft.add_strategy(strategy);
    }
    if let Some(profile) = asked.profile {
        draft.add(profile.changes(facts, asked.live), None);
    }
    draft.finish()
}

impl<'a> Draft<'a> {
    fn new(facts: &'a Facts, asked: &'a PlanRequest<'a>, nics: &'a [&'a Nic]) -> Draft<'a> {
        Draft {
            facts,
            asked,
            nics,
            model: CpuModel::new(facts, asked.measured.clone(), asked.choice.clone()),
            plan: Plan::default(),
            taken: Taken::new(),
            moved: facts.clone(),
            moved_irqs: BTreeSet::new(),
            spread: BTreeSet::new(),
            gathered: CpuSet::new(),
        }
    }

    fn add(&mut self, proposed: ProposedChanges, rule: Option<&str>) {
        self.plan.add(proposed, rule, self.asked, &mut self.taken);
    }

    fn refuse(&mut self, finding: &Finding, reason: &str) {
        self.plan.refuse(&finding.subject, &finding.rule, reason);
    }

    /// Adds the remedy of a finding, or the reason against it. `cause` is the rule of the finding that this one follows from.
    fn add_finding(&mut self, finding: &Finding, cause: Option<&str>) {
        if let Some(cause) = cause.filter(|cause| hides(&finding.rule, cause)) {
            let reason =
                format!("it follows from {cause}, which is remedied first: check again under load then");
            return self.refuse(finding, &reason);
        }
        let Some(remedy) = rules::remedy(&finding.rule) else { return };
        if remedy == Remedy::ByHand {
            self.add(by_hand(finding), None);
        }
        if !remedy.is_planned() {
            return;
        }
        let about: Vec<&'a Nic> =
            self.nics.iter().copied().filter(|nic| nic.name == finding.subject).collect();
        if about.is_empty() && self.facts.nic(&finding.subject).is_some() {
            // It concerns an interface that is not part of the plan.
            return;
        }
        let concerned = if about.is_empty() { self.nics } else { &about };
        if let Some(reason) = reason_against(&self.model, finding, concerned) {
            return self.refuse(finding, &reason);
        }
        let (proposed, rule) = match remedy {
            Remedy::Steering => (self.steering(finding, concerned), Some(finding.rule.as_str())),
            Remedy::FewerInterrupts => self.fewer_interrupts(finding, concerned),
            _ => (self.remedied(remedy, finding, concerned, &about), Some(finding.rule.as_str())),
        };
        self.note_interrupts(finding, &proposed, &about);
        let is_bare = proposed.refusals.is_empty() && proposed.advice.is_empty();
        let is_so = !proposed.changes.is_empty() && !proposed.changes.iter().any(Change::is_due);
        if is_so && is_bare && !self.asked.whole {
            self.refuse(finding, SET_ALREADY);
        }
        self.add(proposed, rule);
    }

    /// Steering for interfaces whose interrupts the plan does not spread.
    fn steering(&mut self, finding: &Finding, concerned: &[&Nic]) -> ProposedChanges {
        let (wait, go): (Vec<&Nic>, Vec<&Nic>) =
            concerned.iter().partition(|nic| self.spread.contains(nic.name.as_str()));
        wait.iter().for_each(|nic| self.plan.refuse(&nic.name, &finding.rule, SPREAD_FIRST));
        if go.is_empty() {
            return ProposedChanges::default();
        }
        Strategy::RpsRfs.changes(&self.model.after(&self.moved, self.moved_irqs.iter().copied()), &go)
    }

    /// Deferred interrupts or, where these are not to be had, coalesced ones. The latter have no rule of their own: a search for
    /// its strategy would find the former.
    fn fewer_interrupts<'f>(
        &self,
        finding: &'f Finding,
        concerned: &[&Nic],
    ) -> (ProposedChanges, Option<&'f str>) {
        let first = Strategy::Defer50.changes(&self.model, concerned);
        let second = Strategy::Coalesce.changes(&self.model, concerned);
        match first.changes.is_empty() && !second.changes.is_empty() {
            true => (second, None),
            false => (first, Some(&finding.rule)),
        }
    }

    /// The changes of every other remedy. `about` is the interface that the finding names, `concerned` all that it is about.
    fn remedied(
        &self,
        remedy: Remedy,
        finding: &Finding,
        concerned: &[&Nic],
        about: &[&Nic],
    ) -> ProposedChanges {
        let (facts, live) = (self.facts, self.asked.live);
        let then = self.model.after(&self.moved, self.moved_irqs.iter().copied());
        match remedy {
            Remedy::Queues => Strategy::Queues.changes(&then, concerned),
            Remedy::Rings => Strategy::Rings.changes(&then, concerned),
            Remedy::Spread => Strategy::Spread.changes(&then, concerned),
            Remedy::Xps => Strategy::Xps.changes(&then, concerned),
            Remedy::Limits => Profile::Generic.changes(facts, live),
            Remedy::AcceptQueue => listen_queue::queue_remedy(facts, finding, live),
            Remedy::FastOpen => listen_queue::fast_open_remedy(facts, finding, live),
            Remedy::NoSteering => strategy::unsteered(about),
            Remedy::Resteering => strategy::resteered(&then, about),
            Remedy::Flows => strategy::flows(facts, about),
            Remedy::Turns => turns::remedy(&self.model, finding),
            Remedy::Backlog => remedy::backlog(facts),
            Remedy::HugePages => remedy::huge_pages(facts),
            Remedy::Swappiness => remedy::swappiness(facts),
            Remedy::DirtyPages => remedy::dirty_pages(facts),
            Remedy::IoScheduler => remedy::io_scheduler(facts, finding),
            Remedy::IoMerges => remedy::io_merges(facts, finding),
            Remedy::ReadAhead => remedy::read_ahead(facts, finding),
            Remedy::Clock => remedy::clock(facts),
            Remedy::Steering | Remedy::FewerInterrupts | Remedy::ReportOnly | Remedy::ByHand => {
                ProposedChanges::default()
            }
        }
    }

    /// Keeps where the proposed changes put interrupts.
    fn note_interrupts(&mut self, finding: &Finding, proposed: &ProposedChanges, about: &[&'a Nic]) {
        proposed.changes.iter().for_each(|change| move_interrupt(&mut self.moved, change));
        self.moved_irqs.extend(proposed.changes.iter().filter_map(|change| change.setting.irq()));
        if moves_interrupts(finding) && proposed.changes.iter().any(Change::is_due) {
            self.spread.extend(about.iter().map(|nic| nic.name.as_str()));
        }
    }

    fn add_strategy(&mut self, strategy: Strategy) {
        let mut proposed = match strategy {
            Strategy::SchedFifo if self.asked.accept_risk => strategy::first_at_risk(&self.model),
            _ => strategy.changes(&self.model, self.nics),
        };
        if self.asked.whole {
            queues::as_long_as_now(&mut proposed);
        }
        self.gathered = proposed.irq_cpus.clone();
        self.add(proposed, None);
    }

    fn finish(mut self) -> Plan {
        let left_alone = left_alone(self.facts, &self.taken);
        self.add(left_alone, None);
        // Within a stage, the strategy's order is kept.
        self.plan.changes.sort_by_key(|change| change.stage);
        self.plan.refuse_read_only(self.facts);
        self.plan.leave_to_services(&self.model, &self.gathered);
        self.plan
    }
}

fn hides(rule: &str, cause: &str) -> bool {
    rules::remedy(rule).is_some_and(Remedy::hides_its_cause)
        && rules::remedy(cause).is_some_and(Remedy::is_planned)
}

fn moves_interrupts(finding: &Finding) -> bool {
    rules::remedy(&finding.rule).is_some_and(Remedy::moves_interrupts)
}

/// The remedy in words.
fn by_hand(finding: &Finding) -> ProposedChanges {
    let remedy = rules::explain(&finding.rule).map_or("", |explanation| explanation.remedy);
    let advice = format!("{} ({}): {}", finding.rule, finding.subject, remedy.trim_end_matches('.'));
    ProposedChanges { advice: vec![advice], ..ProposedChanges::default() }
}

/// The reason why a finding should not be remedied in its rule's way.
fn reason_against(model: &CpuModel, finding: &Finding, nics: &[&Nic]) -> Option<String> {
    match finding.rule.as_str() {
        "queues-few" if finding.severity == Severity::Note => Some(
            "the fewest queues that do not overflow are the most efficient, and its CPUs have time"
                .to_owned(),
        ),
        "ring-overrun" => {
            let cpus = nics.iter().fold(CpuSet::new(), |cpus, nic| cpus.or(&model.receiving(nic)));
            let percent = cpus.iter().filter_map(|cpu| model.interrupts_percent().get(&cpu)).max()?;
            (f64::from(*percent) >= BUSY_PERCENT).then(|| {
                format!(
                    "the CPU that empties its ring is busy with interrupts ({percent} %): a longer ring would only \
                     delay the drops, so spread its packets first"
                )
            })
        }
        _ => None,
    }
}

/// irqbalance would move back the interrupts that the plan places: they are added to those that it leaves alone. The
/// requester of a place is the requester of this, too.
fn left_alone(facts: &Facts, taken: &Taken) -> ProposedChanges {
    let placed: BTreeMap<u32, &String> =
        taken.iter().filter_map(|(setting, by)| Some((setting.irq()?, by))).collect();
    let mut proposed = ProposedChanges::default();
    if let (Some(irqbalance), Some((_, by))) = (&facts.irqbalance, placed.first_key_value()) {
        proposed.asked_by = (*by).clone();
        let wanted = &irqbalance.banned | &placed.keys().copied().collect();
        let (now, wanted) = (irqbalance::list(&irqbalance.banned), irqbalance::list(&wanted));
        let setting = Setting::Irqbalance { pid: irqbalance.pid };
        proposed.propose(Stage::Irqbalance, setting, now, wanted, strategy::LEFT_ALONE);
    }
    proposed
}
