//! Draft of a plan: the one place that orders, merges and refuses proposals, and says why.
//!
//! A finding, a strategy and a profile arrive in the same form: a requester, a list of settings, and the scope in which
//! they are proposed. The order is that of [`complete`]; of two proposals for a setting, the first decides.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::{Plan, PlanRequest};
use crate::diagnose::finding::{Finding, RemedyStatus, Severity};
use crate::diagnose::rules::{self, Remedy, RemedyOrder, SettingsRemedy};
use crate::observe::cpu_model::CpuModel;
use crate::observe::facts::{Facts, Nic};
use crate::observe::irqbalance;
use crate::settings::change::{Change, Holds, PlanRefusal, Setting, Stage};
use crate::settings::interrupts;
use crate::settings::profile::Profile;
use crate::settings::proposal::ProposedChanges;
use crate::settings::scope::{FindingSubject, Scope};
use crate::settings::steering;
use crate::settings::strategy::Strategy;
use os::CpuSet;

/// The reason why a finding has no change in the plan.
const SET_ALREADY: &str = "every remedy for it is in force already";

/// The reason why queues are not added in the same plan.
pub(super) const SPREAD_BEFORE_QUEUES: &str = "its interrupts are spread over the present queues first: look again \
     under load, for more queues may not be needed then, and the link may blink when they are added";

/// The reason why packets are not steered in the same plan.
pub(super) const SPREAD_FIRST: &str =
    "its interrupts are spread first: look again under load, for steering may not be needed then";

/// The reason why a setting of a container's host is not changed.
const READ_ONLY: &str = "it is mounted read-only, as in most containers: make the plan on the host itself";

/// Stages whose changes depend on the chosen CPUs.
const OF_CPUS: [Stage; 4] = [Stage::Queues, Stage::Irqbalance, Stage::Affinity, Stage::Steering];

/// A plan in the making.
struct Draft<'a> {
    facts: &'a Facts,
    asked: &'a PlanRequest<'a>,
    nics: &'a [&'a Nic],
    model: CpuModel<'a>,
    plan: Plan,
    /// Requested settings, each with its first requester.
    taken: BTreeMap<Setting, String>,
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
    let with_remedy = fixable.filter_map(|found| Some((found, rules::remedy(&found.0.rule)?)));
    let mut remedies: Vec<(&(Finding, Option<&str>), Remedy)> = with_remedy.collect();
    remedies.sort_by_key(|(_, remedy)| place(*remedy));
    let mut draft = Draft::new(facts, asked, nics);
    for ((finding, cause), remedy) in remedies {
        match remedy {
            Remedy::ReportOnly => {}
            Remedy::ByHand => draft.merge(by_hand(finding)),
            Remedy::Settings(remedy) => draft.add_remedy(finding, *cause, remedy),
        }
    }
    asked.strategy.into_iter().for_each(|strategy| draft.add_strategy(strategy));
    asked.profile.into_iter().for_each(|profile| draft.add_profile(profile));
    draft.finish()
}

/// Interrupts are moved first, then those of new queues, then the rest.
fn place(remedy: Remedy) -> u8 {
    match remedy.planned().map(|remedy| remedy.order) {
        Some(RemedyOrder::MovesInterrupts) => 0,
        Some(RemedyOrder::AddsQueues) => 1,
        Some(RemedyOrder::Any | RemedyOrder::AfterInterrupts | RemedyOrder::AfterCause) | None => 2,
    }
}

/// The host after the change.
pub(super) fn move_interrupt(facts: &mut Facts, change: &Change) {
    let (Some(irq), Ok(cpus)) = (change.setting.irq(), CpuSet::parse_mask(&change.wanted)) else { return };
    for interrupt in facts.interrupts.iter_mut().filter(|interrupt| interrupt.irq == irq) {
        interrupt.affinity = cpus.clone();
        interrupt.effective = cpus.clone();
    }
}

/// The remedy in words.
fn by_hand(finding: &Finding) -> ProposedChanges {
    let remedy = rules::explain(&finding.rule).map_or("", |explanation| explanation.remedy);
    let advice = format!("{} ({}): {}", finding.rule, finding.subject, remedy.trim_end_matches('.'));
    ProposedChanges { advice: vec![advice], ..ProposedChanges::default() }
}

impl<'a> Draft<'a> {
    fn new(facts: &'a Facts, asked: &'a PlanRequest<'a>, nics: &'a [&'a Nic]) -> Draft<'a> {
        Draft {
            facts,
            asked,
            nics,
            model: CpuModel::new(facts, asked.measured.clone(), asked.choice.clone()),
            plan: Plan::default(),
            taken: BTreeMap::new(),
            moved: facts.clone(),
            moved_irqs: BTreeSet::new(),
            spread: BTreeSet::new(),
            gathered: CpuSet::new(),
        }
    }

    /// The host with the interrupts where the plan puts them.
    fn then(&self) -> CpuModel<'_> {
        self.model.after(&self.moved, self.moved_irqs.iter().copied())
    }

    /// The scope of the whole plan.
    fn scope<'s>(&'s self, then: &'s CpuModel<'s>) -> Scope<'s> {
        let PlanRequest { live, accept_risk, whole, disks, .. } = *self.asked;
        Scope { then, live, accept_risk, whole, named_disks: disks, ..Scope::all(&self.model, self.nics) }
    }

    fn add_strategy(&mut self, strategy: Strategy) {
        let proposed = ProposedChanges::of(strategy.name(), strategy.settings(), &self.scope(&self.then()));
        self.gathered = proposed.irq_cpus.clone();
        self.merge(proposed);
    }

    fn add_profile(&mut self, profile: Profile) {
        let then = self.then();
        let scope = Scope { kinds: profile.kinds(), ..self.scope(&then) };
        let proposed = ProposedChanges::of(profile.asked_by(), profile.settings(), &scope);
        self.merge(proposed);
    }

    /// Adds the remedy of a finding, or the reason against it. `cause` is the rule of the finding that this one follows
    /// from.
    fn add_remedy(&mut self, finding: &Finding, cause: Option<&str>, remedy: SettingsRemedy) {
        if let Some(cause) = cause.filter(|cause| hides(remedy, cause)) {
            let reason =
                format!("it follows from {cause}, which is remedied first: check again under load then");
            return self.refuse(&finding.subject, &finding.rule, &reason);
        }
        let Some(nics) = self.concerned(finding, remedy) else { return };
        let subject = FindingSubject { name: &finding.subject, is_note: finding.severity == Severity::Note };
        let then = self.then();
        let scope = Scope { nics, finding: Some(subject), ..self.scope(&then) };
        let proposed = ProposedChanges::of(&finding.rule, remedy.settings, &scope);
        self.note_interrupts(finding, remedy, &proposed);
        let is_bare = proposed.refusals.is_empty() && proposed.advice.is_empty();
        let is_so = !proposed.changes.is_empty() && !proposed.changes.iter().any(Change::is_due);
        if is_so && is_bare && !self.asked.whole {
            self.refuse(&finding.subject, &finding.rule, SET_ALREADY);
        }
        self.merge(proposed);
    }

    /// The interfaces that a remedy is about: the finding's, or all of the plan if it names none. None: the finding is
    /// about an interface that is not part of the plan, or that has to wait.
    fn concerned(&mut self, finding: &Finding, remedy: SettingsRemedy) -> Option<Vec<&'a Nic>> {
        let is_named = |nic: &&Nic| nic.name == finding.subject;
        let mut nics: Vec<&Nic> = self.nics.iter().copied().filter(is_named).collect();
        if nics.is_empty() {
            if self.facts.nic(&finding.subject).is_some() {
                return None;
            }
            nics = self.nics.to_vec();
        }
        let reason = match remedy.order {
            RemedyOrder::AfterInterrupts => SPREAD_FIRST,
            RemedyOrder::AddsQueues => SPREAD_BEFORE_QUEUES,
            RemedyOrder::Any | RemedyOrder::MovesInterrupts | RemedyOrder::AfterCause => return Some(nics),
        };
        let (wait, go): (Vec<&Nic>, Vec<&Nic>) =
            nics.into_iter().partition(|nic| self.spread.contains(nic.name.as_str()));
        wait.iter().for_each(|nic| self.refuse(&nic.name, &finding.rule, reason));
        (!go.is_empty()).then_some(go)
    }

    /// Keeps where the proposed changes put interrupts.
    fn note_interrupts(&mut self, finding: &Finding, remedy: SettingsRemedy, proposed: &ProposedChanges) {
        proposed.changes.iter().for_each(|change| move_interrupt(&mut self.moved, change));
        self.moved_irqs.extend(proposed.changes.iter().filter_map(|change| change.setting.irq()));
        let moves = [RemedyOrder::MovesInterrupts, RemedyOrder::AddsQueues].contains(&remedy.order);
        if moves && proposed.changes.iter().any(Change::is_due) {
            let named = self.nics.iter().filter(|nic| nic.name == finding.subject);
            self.spread.extend(named.map(|nic| nic.name.as_str()));
        }
    }

    /// Adds what is not requested yet, with its requester.
    fn merge(&mut self, proposed: ProposedChanges) {
        for change in proposed.changes {
            let mut asked_by = change.asked_by.clone();
            // The intent at boot needs the chosen CPUs.
            let (of_cpus, chosen) = (OF_CPUS.contains(&change.stage), self.asked.choice.typed());
            if of_cpus && !asked_by.ends_with(&chosen) {
                asked_by.push_str(&chosen);
            }
            let Entry::Vacant(first) = self.taken.entry(change.setting.clone()) else { continue };
            first.insert(asked_by.clone());
            #[cfg(test)]
            assert!(crate::apply::undoable::is_ours(&change.setting), "{} is missing there", change.setting);
            if self.asked.whole || change.is_due() {
                self.plan.changes.push(Change { asked_by, ..change });
            }
        }
        for PlanRefusal { subject, asked_by, reason } in proposed.refusals {
            self.refuse(&subject, &asked_by, &reason);
        }
        for advice in proposed.advice {
            if !self.plan.advice.contains(&advice) {
                self.plan.advice.push(advice);
            }
        }
    }

    /// Says why something is not planned: once, however many ask for it.
    fn refuse(&mut self, subject: &str, asked_by: &str, reason: &str) {
        let is_same = |other: &PlanRefusal| other.subject == subject && other.reason == reason;
        if !self.plan.refusals.iter().any(is_same) {
            let (subject, asked_by) = (subject.to_owned(), asked_by.to_owned());
            self.plan.refusals.push(PlanRefusal { subject, asked_by, reason: reason.to_owned() });
        }
    }

    fn finish(mut self) -> Plan {
        // Findings are about devices, and none of these is one.
        let asks_for_devices = self.asked.strategy.is_none() && self.asked.profile.is_none();
        if self.nics.is_empty() && self.facts.nics.iter().any(|nic| nic.up) && asks_for_devices {
            self.refuse("network", "findings", &self.facts.why_no_device());
        }
        self.merge(self.left_alone());
        // Within a stage, the order of the requests is kept.
        self.plan.changes.sort_by_key(|change| change.stage);
        self.refuse_read_only();
        self.leave_to_services();
        self.plan
    }

    /// irqbalance would move back the interrupts that the plan places: they are added to those that it leaves alone. The
    /// requester of a place is the requester of this, too.
    fn left_alone(&self) -> ProposedChanges {
        let placed: BTreeMap<u32, &String> =
            self.taken.iter().filter_map(|(setting, by)| Some((setting.irq()?, by))).collect();
        let mut proposed = ProposedChanges::default();
        if let (Some(irqbalance), Some((_, by))) = (&self.facts.irqbalance, placed.first_key_value()) {
            proposed.asked_by = (*by).clone();
            let wanted = &irqbalance.banned | &placed.keys().copied().collect();
            let (now, wanted) = (irqbalance::list(&irqbalance.banned), irqbalance::list(&wanted));
            let setting = Setting::Irqbalance { pid: irqbalance.pid };
            proposed.propose(Stage::Irqbalance, setting, now, wanted, interrupts::LEFT_ALONE);
        }
        proposed
    }

    /// In a container, a plan would fail at its first step. What needs a setting that cannot be changed is left out with
    /// it: alone it would do nothing, or harm.
    fn refuse_read_only(&mut self) {
        let facts = self.facts;
        let place = |change: &Change| facts.read_only_place(&change.setting.to_string());
        let (refused, changes): (Vec<Change>, Vec<Change>) =
            std::mem::take(&mut self.plan.changes).into_iter().partition(|change| place(change).is_some());
        let missing = |change: &Change| refused.iter().find(|refused| needs(facts, change, refused));
        let (stranded, mut changes): (Vec<Change>, Vec<Change>) =
            changes.into_iter().partition(|change| missing(change).is_some());
        // The host's table of flows is for those of queues.
        if stranded.iter().any(remembers_flows) && !changes.iter().any(remembers_flows) {
            changes.retain(|change| change.setting != Setting::sysctl(steering::ENTRIES, Holds::Number));
        }
        self.plan.changes = changes;
        for change in &refused {
            self.refuse(place(change).unwrap_or_default(), &change.asked_by, READ_ONLY);
        }
        for change in &stranded {
            let subject = change.setting.nic().map_or_else(|| change.setting.to_string(), str::to_owned);
            let (needed, place) = (missing(change).expect("it is stranded"), missing(change).and_then(place));
            let reason = format!(
                "{} needs {}, and {} is mounted read-only: make the plan on the host itself",
                change.setting,
                needed.setting,
                place.unwrap_or_default()
            );
            self.refuse(&subject, &change.asked_by, &reason);
        }
    }

    /// The other CPUs, where interrupts are kept to some: by choice, or because a strategy gathers them.
    fn leave_to_services(&mut self) {
        let model = &self.model;
        let irqs = model.choice.irq_cpus.clone().unwrap_or_default().or(&self.gathered);
        if model.choice.is_free() && irqs.is_empty() {
            return;
        }
        // Interrupts that the plan does not move stay where they are; on all CPUs, they leave nothing to choose from.
        let all = irqs.or(&self.taking());
        let irqs = if model.for_services(&all).and(&all).is_empty() { all } else { irqs };
        let mut proposed = ProposedChanges::default();
        if model.choice.irq_cpus.is_some() && irqs != model.online {
            interrupts::keep_off(&mut proposed, model, &irqs);
        }
        self.plan.service_cpus = Some(model.for_services(&irqs).into());
        self.merge(proposed);
    }

    /// CPUs that take interrupts of interfaces once the changes are made.
    fn taking(&self) -> CpuSet {
        let (model, changes) = (&self.model, &self.plan.changes);
        let mut moved = self.facts.clone();
        changes.iter().for_each(|change| move_interrupt(&mut moved, change));
        let then = model.after(&moved, changes.iter().filter_map(|change| change.setting.irq()));
        moved.nics.iter().fold(CpuSet::new(), |cpus, nic| cpus.or(&then.irq_cpus(nic)))
    }
}

/// Whether a queue remembers flows with it: half of RFS, of which the host's table is the other one.
fn remembers_flows(change: &Change) -> bool {
    change.setting.to_string().ends_with("/rps_flow_cnt")
}

/// Whether a change has its effect only with another one of the same plan, or does harm without it.
fn needs(facts: &Facts, change: &Change, other: &Change) -> bool {
    let moved = other.setting.irq();
    let entries = Setting::sysctl(steering::ENTRIES, Holds::Number);
    match change.stage {
        Stage::Steering if remembers_flows(change) && other.setting == entries => true,
        // Packets are steered, and sent, around the CPUs that the plan gives to interrupts.
        Stage::Steering => {
            let irqs = facts.interrupts.iter().filter(|interrupt| Some(interrupt.irq) == moved);
            irqs.filter_map(|interrupt| interrupt.device.as_deref())
                .any(|nic| change.setting.nic() == Some(nic))
        }
        // Interrupts that stay where irqbalance has put them are left to it.
        Stage::Irqbalance => moved.is_some(),
        _ => false,
    }
}

/// Whether a remedy would hide the consequences of its cause, which has a remedy, too.
fn hides(remedy: SettingsRemedy, cause: &str) -> bool {
    remedy.order == RemedyOrder::AfterCause && rules::remedy(cause).and_then(Remedy::planned).is_some()
}
