//! What to change, in order, and nothing that is so already.
//!
//! Pure: from [`Facts`] and what was asked for to a [`Plan`]. Asked for can be a strategy, a profile, and whatever
//! findings have a strategy that mends them; who asks first for a setting has it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::accept;
use crate::change::{Change, Refusal, Setting, Stage};
use crate::cpu_set::CpuSet;
use crate::facts::{Facts, Nic};
use crate::finding::{Finding, Severity, Verdict};
use crate::mend;
use crate::profile::Profile;
use crate::strategy::{self, Strategy, Wishes, queues, turns};
use crate::{Series, irqbalance, masks, rules};

/// What a plan is to be made from.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    /// A layout.
    pub strategy: Option<Strategy>,
    /// A kind of service.
    pub profile: Option<Profile>,
    /// What was found.
    pub findings: &'a [Finding],
    /// The only interface that is meant; `None`: all physical ones that are up.
    pub nic: Option<&'a str>,
    /// The only processes that are meant; none: all data servers.
    pub pids: &'a [u32],
    /// Also what is so already: it has to be so after the next start, too.
    pub whole: bool,
    /// Whether listeners of running programs may be changed.
    pub live: bool,
    /// How busy CPUs are with interrupts, in percent, where it was measured.
    pub interrupts_percent: BTreeMap<u32, u32>,
}

/// What to change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// In the order in which they are to be made.
    pub changes: Vec<Change>,
    /// What was asked for and is not planned.
    #[serde(default)]
    pub refusals: Vec<Refusal>,
    /// What no live setting can do.
    #[serde(default)]
    pub advice: Vec<String>,
    /// What is still to be planned, once the changes are made: they give queues and interrupts other numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Intent>,
}

/// What a plan was made for, to be planned again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// A layout.
    pub strategy: Option<Strategy>,
    /// A kind of service.
    pub profile: Option<Profile>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Whether listeners of running programs may be changed.
    #[serde(default)]
    pub live: bool,
    /// The only processes that were meant; none: all data servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// The interfaces that were meant. One whose queues are made anew may be down for a moment.
    pub nics: Vec<String>,
}

/// What mends what a rule finds.
const MENDS: [(&str, Mend); 26] = [
    ("queues-few", Mend::Strategy(Strategy::Queues)),
    ("ring-overrun", Mend::Strategy(Strategy::Rings)),
    ("rps-redundant", Mend::NoSteering),
    ("rps-harmful", Mend::NoSteering),
    ("softirq-one-core", Mend::Strategy(Strategy::RpsRfs)),
    ("irqs-piled-up", Mend::Strategy(Strategy::Spread)),
    ("rps-missing", Mend::Strategy(Strategy::RpsRfs)),
    ("rfs-off", Mend::Strategy(Strategy::RpsRfs)),
    ("rfs-half-set", Mend::Strategy(Strategy::RpsRfs)),
    ("xps-missing", Mend::Strategy(Strategy::Xps)),
    ("xps-crossed", Mend::Strategy(Strategy::Xps)),
    ("interrupt-per-packet", Mend::Either(Strategy::Defer50, Strategy::Coalesce)),
    (THREADS_WAIT, Mend::Settings(turns::mend)),
    ("accept-overflow", Mend::AcceptQueue),
    ("backlog-small", Mend::AcceptQueue),
    ("somaxconn-low", Mend::Profile(Profile::Generic)),
    ("syn-queue-full", Mend::Profile(Profile::Generic)),
    ("fast-open-off", Mend::FastOpen),
    ("backlog-dropped", Mend::Settings(mend::backlog)),
    ("huge-pages-always", Mend::Settings(mend::huge_pages)),
    ("swappiness-high", Mend::Settings(mend::swappiness)),
    ("dirty-pages-many", Mend::Settings(mend::dirty_pages)),
    ("io-scheduler", Mend::Settings(mend::io_scheduler)),
    ("io-merges", Mend::Settings(mend::io_merges)),
    ("read-ahead-large", Mend::Settings(mend::read_ahead)),
    ("clock-slow", Mend::Settings(mend::clock)),
];

/// The rule whose mend shortens turns of one service.
const THREADS_WAIT: &str = "scheduling-delay";

/// The rules whose mends move interrupts.
const INTERRUPTS_MOVE: [&str; 2] = ["irqs-piled-up", "queues-few"];

/// Rules whose remedy is not a setting that can be taken back, or one that is a matter of judgement: a plan says it in
/// words.
const BY_HAND: [&str; 10] = [
    "irqbalance-moves",
    "budget-squeezed",
    "queues-uneven",
    "realtime-everywhere",
    "swapping",
    "memory-pressure",
    "allocator-libc",
    "mount-options",
    "conntrack-full",
    "governor-slow",
];

#[derive(Clone, Copy)]
enum Mend {
    Strategy(Strategy),
    /// The second where the first cannot be had.
    Either(Strategy, Strategy),
    Profile(Profile),
    NoSteering,
    Settings(fn(&Facts, &Finding) -> Wishes),
    /// Of the listener that the finding is about.
    AcceptQueue,
    /// Of the listener that the finding is about, else of all for which it may be good.
    FastOpen,
}

/// The strategy that was asked for, by itself or by the rule of a finding.
pub fn strategy_behind(asked_by: &str) -> Option<Strategy> {
    let of_rule = MENDS.iter().find_map(|(rule, mend)| match mend {
        Mend::Strategy(strategy) | Mend::Either(strategy, _) if *rule == asked_by => Some(*strategy),
        Mend::Settings(_) if *rule == asked_by && asked_by == THREADS_WAIT => Some(Strategy::SchedSlice),
        _ => None,
    });
    Strategy::named(asked_by).or(of_rule)
}

/// The profile that a finding's rule asked for.
pub fn profile_behind(asked_by: &str) -> Option<Profile> {
    MENDS.iter().find_map(|(rule, mend)| match mend {
        _ if *rule != asked_by => None,
        Mend::Profile(profile) => Some(*profile),
        Mend::AcceptQueue => Some(Profile::Generic),
        Mend::FastOpen => Some(Profile::Memcached),
        Mend::Strategy(_) | Mend::Either(..) | Mend::NoSteering | Mend::Settings(_) => None,
    })
}

/// How busy CPUs are with interrupts of both kinds, for [`Asked`].
pub fn interrupts_percent(series: &Series) -> BTreeMap<u32, u32> {
    rules::loads(series).into_iter().map(|(cpu, load)| (cpu, load.interrupts() as u32)).collect()
}

/// Makes a plan. One that gives an interface other queues holds nothing else: what depends on them is planned by
/// [`rest`] when they are there.
pub fn plan(facts: &Facts, asked: &Asked) -> Plan {
    let narrowed = narrowed(facts, asked.pids);
    let facts = narrowed.as_ref().unwrap_or(facts);
    let nics = meant(facts, asked.nic);
    let mut plan = complete(facts, asked, &nics);
    let renews = |change: &Change| change.stage == Stage::Queues;
    if !asked.whole && plan.changes.iter().any(renews) {
        plan.changes.retain(renews);
        plan.then = Some(Intent {
            strategy: asked.strategy,
            profile: asked.profile,
            findings: asked.findings.to_vec(),
            live: asked.live,
            pids: asked.pids.to_vec(),
            nics: nics.iter().map(|nic| nic.name.clone()).collect(),
        });
    }
    plan
}

/// What is left to do when a plan's queues are there: everything but queues.
pub fn rest(facts: &Facts, intent: &Intent) -> Plan {
    let narrowed = narrowed(facts, &intent.pids);
    let facts = narrowed.as_ref().unwrap_or(facts);
    let nics: Vec<&Nic> = facts.nics.iter().filter(|nic| intent.nics.contains(&nic.name)).collect();
    // Rings were all that these asked for, and would be doubled once more.
    let of_rings = |finding: &Finding| strategy_behind(&finding.rule) == Some(Strategy::Rings);
    let findings: Vec<Finding> =
        intent.findings.iter().filter(|finding| !of_rings(finding)).cloned().collect();
    let asked = Asked {
        strategy: intent.strategy.filter(|strategy| *strategy != Strategy::Rings),
        profile: intent.profile,
        findings: &findings,
        live: intent.live,
        ..Asked::default()
    };
    let mut plan = complete(facts, &asked, &nics);
    plan.changes.retain(|change| change.stage != Stage::Queues);
    plan
}

/// Settings that somebody has asked for, and who was the first.
type Taken = BTreeMap<Setting, String>;

fn complete(facts: &Facts, asked: &Asked, nics: &[&Nic]) -> Plan {
    let mut plan = Plan::default();
    let mut taken = Taken::new();
    let mut findings: Vec<&Finding> =
        asked.findings.iter().filter(|finding| finding.verdict == Verdict::Fixable).collect();
    // Interrupts go first: packets are steered to CPUs that do not take them, and these will be others.
    findings.sort_by_key(|finding| !moves_interrupts(finding));
    let mut moved = facts.clone();
    let mut spread: BTreeSet<&str> = BTreeSet::new();
    for finding in findings {
        if BY_HAND.contains(&finding.rule.as_str()) {
            plan.add(by_hand(finding), None, asked.whole, &mut taken);
        }
        let Some((_, mend)) = MENDS.iter().find(|(rule, _)| *rule == finding.rule) else { continue };
        let about: Vec<&Nic> = nics.iter().copied().filter(|nic| nic.name == finding.subject).collect();
        if about.is_empty() && facts.nic(&finding.subject).is_some() {
            // It is about an interface that is not meant.
            continue;
        }
        let concerned: &[&Nic] = if about.is_empty() { nics } else { &about };
        if let Some(reason) = reason_against(facts, finding, concerned, &asked.interrupts_percent) {
            plan.refuse(&finding.subject, &finding.rule, &reason);
            continue;
        }
        let mut rule = Some(finding.rule.as_str());
        let wishes = match mend {
            Mend::Strategy(Strategy::RpsRfs) => {
                let (wait, go): (Vec<&Nic>, Vec<&Nic>) =
                    concerned.iter().partition(|nic| spread.contains(nic.name.as_str()));
                wait.iter().for_each(|nic| plan.refuse(&nic.name, &finding.rule, SPREAD_FIRST));
                if go.is_empty() { Wishes::default() } else { Strategy::RpsRfs.changes(&moved, &go) }
            }
            Mend::Either(first, second) => {
                let (first, second) = (first.changes(facts, concerned), second.changes(facts, concerned));
                match first.changes.is_empty() && !second.changes.is_empty() {
                    true => {
                        // Who looks for the strategy behind the rule would find the first.
                        rule = None;
                        second
                    }
                    false => first,
                }
            }
            Mend::Strategy(strategy) => strategy.changes(&moved, concerned),
            Mend::Profile(profile) => profile.changes(facts, asked.live),
            Mend::AcceptQueue => accept::mend_queue(facts, finding, asked.live),
            Mend::FastOpen => accept::mend_fast_open(facts, finding, asked.live),
            Mend::NoSteering => strategy::unsteered(&about),
            Mend::Settings(wishes) => wishes(facts, finding),
        };
        wishes.changes.iter().for_each(|change| move_interrupt(&mut moved, change));
        if moves_interrupts(finding) && wishes.changes.iter().any(Change::is_due) {
            spread.extend(about.iter().map(|nic| nic.name.as_str()));
        }
        plan.add(wishes, rule, asked.whole, &mut taken);
    }
    if let Some(strategy) = asked.strategy {
        let mut wishes = strategy.changes(facts, nics);
        if asked.whole {
            queues::as_long_as_now(&mut wishes);
        }
        plan.add(wishes, None, asked.whole, &mut taken);
    }
    if let Some(profile) = asked.profile {
        plan.add(profile.changes(facts, asked.live), None, asked.whole, &mut taken);
    }
    plan.add(left_alone(facts, &taken), None, asked.whole, &mut taken);
    // The order inside of a stage is the one that the strategy gave.
    plan.changes.sort_by_key(|change| change.stage);
    plan.refuse_read_only(facts);
    plan
}

/// Why packets are not steered in the same plan.
const SPREAD_FIRST: &str =
    "its interrupts are spread first: look again under load, for steering may not be needed then";

fn moves_interrupts(finding: &Finding) -> bool {
    INTERRUPTS_MOVE.contains(&finding.rule.as_str())
}

/// The remedy in words.
fn by_hand(finding: &Finding) -> Wishes {
    let remedy = rules::explain(&finding.rule).map_or("", |explanation| explanation.remedy);
    let advice = format!("{} ({}): {}", finding.rule, finding.subject, remedy.trim_end_matches('.'));
    Wishes { advice: vec![advice], ..Wishes::default() }
}

/// The host as it will be once the change is made.
fn move_interrupt(facts: &mut Facts, change: &Change) {
    let (Some(irq), Ok(cpus)) = (change.setting.irq(), CpuSet::parse_mask(&change.wanted)) else { return };
    for interrupt in facts.interrupts.iter_mut().filter(|interrupt| interrupt.irq == irq) {
        interrupt.affinity = cpus.clone();
        interrupt.effective = cpus.clone();
    }
}

/// Why a finding is better not mended in the way that its rule knows.
fn reason_against(
    facts: &Facts,
    finding: &Finding,
    nics: &[&Nic],
    interrupts_percent: &BTreeMap<u32, u32>,
) -> Option<String> {
    match finding.rule.as_str() {
        "queues-few" if finding.severity == Severity::Note => Some(
            "the fewest queues that do not overflow are the most efficient, and its CPUs have time"
                .to_owned(),
        ),
        "ring-overrun" => {
            let cpus =
                nics.iter().fold(CpuSet::new(), |cpus, nic| cpus.or(&masks::receiving_cpus(facts, nic)));
            let percent = cpus.iter().filter_map(|cpu| interrupts_percent.get(&cpu)).max()?;
            (f64::from(*percent) >= rules::BUSY_PERCENT).then(|| {
                format!(
                    "the CPU that empties its ring is busy with interrupts ({percent} %): a longer ring would only \
                     delay the drops, so spread its packets first"
                )
            })
        }
        _ => None,
    }
}

/// irqbalance would move back the interrupts that are given a place: they are added to those that it leaves alone. Who
/// asked for a place asks for this.
fn left_alone(facts: &Facts, taken: &Taken) -> Wishes {
    let placed: BTreeMap<u32, &String> =
        taken.iter().filter_map(|(setting, by)| Some((setting.irq()?, by))).collect();
    let mut wishes = Wishes::default();
    if let (Some(irqbalance), Some((_, by))) = (&facts.irqbalance, placed.first_key_value()) {
        wishes.asked_by = (*by).clone();
        let wanted = &irqbalance.banned | &placed.keys().copied().collect();
        let (now, wanted) = (irqbalance::list(&irqbalance.banned), irqbalance::list(&wanted));
        let setting = Setting::Irqbalance { pid: irqbalance.pid };
        wishes.wish(Stage::Irqbalance, setting, now, wanted, strategy::LEFT_ALONE);
    }
    wishes
}

impl Plan {
    fn refuse(&mut self, subject: &str, asked_by: &str, reason: &str) {
        let is_same = |other: &Refusal| other.subject == subject && other.reason == reason;
        if !self.refusals.iter().any(is_same) {
            let (subject, asked_by) = (subject.to_owned(), asked_by.to_owned());
            self.refusals.push(Refusal { subject, asked_by, reason: reason.to_owned() });
        }
    }

    /// In a container, a plan would fail at its first step.
    fn refuse_read_only(&mut self, facts: &Facts) {
        let place = |change: &Change| {
            let path = change.setting.to_string();
            let holds =
                |place: &&String| path.strip_prefix(place.as_str()).is_some_and(|rest| rest.starts_with('/'));
            facts.read_only.iter().find(holds)
        };
        let (refused, changes) =
            std::mem::take(&mut self.changes).into_iter().partition(|change| place(change).is_some());
        self.changes = changes;
        let refused: Vec<Change> = refused;
        for change in refused {
            let reason = "it is mounted read-only, as in most containers: make the plan on the host itself";
            let place = place(&change).cloned().unwrap_or_default();
            self.refuse(&place, &change.asked_by, reason);
        }
    }

    fn add(&mut self, wishes: Wishes, rule: Option<&str>, whole: bool, taken: &mut Taken) {
        for change in wishes.changes {
            let asked_by = rule.map_or(change.asked_by.clone(), str::to_owned);
            let Entry::Vacant(first) = taken.entry(change.setting.clone()) else { continue };
            first.insert(asked_by.clone());
            if whole || change.is_due() {
                self.changes.push(Change { asked_by, ..change });
            }
        }
        for refusal in wishes.refusals {
            let asked_by = rule.map_or(refusal.asked_by, str::to_owned);
            let known = |other: &Refusal| other.subject == refusal.subject && other.reason == refusal.reason;
            if !self.refusals.iter().any(known) {
                self.refusals.push(Refusal { asked_by, ..refusal });
            }
        }
        for advice in wishes.advice {
            if !self.advice.contains(&advice) {
                self.advice.push(advice);
            }
        }
    }
}

/// The host with these processes as its only services; `None`: as it is.
fn narrowed(facts: &Facts, pids: &[u32]) -> Option<Facts> {
    let mut facts = (!pids.is_empty()).then(|| facts.clone())?;
    facts.services.retain(|service| pids.contains(&service.pid));
    Some(facts)
}

/// The interface that was named, or those that carry the host's traffic.
fn meant<'f>(facts: &'f Facts, name: Option<&str>) -> Vec<&'f Nic> {
    let Some(name) = name else { return facts.nics.iter().filter(|nic| nic.is_wire()).collect() };
    let mut below = Vec::new();
    facts.nic(name).into_iter().for_each(|nic| devices_below(facts, nic, &mut below));
    match below.is_empty() {
        true => facts.nic(name).into_iter().collect(),
        false => below,
    }
}

/// The interfaces with a device that one stands on: queues and interrupts of a bond or a VLAN are theirs, and so are
/// those of Azure's synthetic interface, although it has a device itself.
fn devices_below<'f>(facts: &'f Facts, nic: &'f Nic, found: &mut Vec<&'f Nic>) {
    if !nic.physical || !nic.lower.is_empty() {
        let lower = nic.lower.iter().filter_map(|name| facts.nic(name));
        return lower.for_each(|nic| devices_below(facts, nic, found));
    }
    if !found.iter().any(|other| other.name == nic.name) {
        found.push(nic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Listener, Service, Thread};
    use crate::finding::Severity;
    use crate::shapes::{ENA, Shape};

    const HOST: Shape = Shape { cpus: 32, threads: 1, nodes: 2, queues: 4, irqs: ENA };

    fn finding(rule: &str, verdict: Verdict) -> Finding {
        Finding {
            rule: rule.into(),
            severity: Severity::Warning,
            subject: "eth0".into(),
            cause: String::new(),
            effect: String::new(),
            verdict,
            evidence: Vec::new(),
        }
    }

    #[track_caller]
    fn check(findings: &[Finding], wanted: &[(&str, &str)]) {
        let plan = plan(&HOST.facts(), &Asked { findings, ..Asked::default() });
        let file = |change: &Change| change.setting.to_string().rsplit('/').next().unwrap().to_owned();
        let mut said: Vec<_> =
            plan.changes.iter().map(|change| (file(change), change.asked_by.clone())).collect();
        said.dedup();
        let wanted: Vec<_> = wanted.iter().map(|(file, by)| (file.to_string(), by.to_string())).collect();
        assert_eq!(said, wanted);
    }

    #[test]
    fn findings_are_mended_in_the_order_of_stages() {
        check(
            &[finding("xps-missing", Verdict::Fixable), finding("irqs-piled-up", Verdict::Fixable)],
            &[("smp_affinity", "irqs-piled-up"), ("xps_cpus", "xps-missing")],
        );
    }

    /// Two queues of eight, a ring of 1,024 of 8,192.
    fn with_queues_to_spare() -> Facts {
        let mut facts = Shape { cpus: 8, threads: 1, nodes: 1, queues: 2, irqs: ENA }.facts();
        let nic = &mut facts.nics[0];
        (nic.channels, nic.channels_max, nic.rx_ring) = (Some(2), Some(8), Some((1024, 8192)));
        facts.memory_bytes = 64 << 30;
        facts
    }

    fn settings(plan: &Plan) -> Vec<String> {
        plan.changes.iter().map(|change| format!("{} {}", change.setting, change.wanted)).collect()
    }

    #[test]
    fn a_plan_with_other_queues_holds_them_alone_and_the_rest_follows_from_what_is_there_then() {
        let rules = ["queues-few", "xps-missing", "ring-overrun"];
        let findings = rules.map(|rule| finding(rule, Verdict::Fixable));
        let facts = with_queues_to_spare();
        let first = plan(&facts, &Asked { findings: &findings, ..Asked::default() });
        assert_eq!(settings(&first), ["channels of eth0 combined=8", "rings of eth0 rx=4096"]);
        let text = serde_json::to_string(&first).unwrap();
        let first: Plan = serde_json::from_str(&text).unwrap();

        let mut facts = Shape { cpus: 8, threads: 1, nodes: 1, queues: 8, irqs: ENA }.facts();
        // The interface may still be down.
        (facts.nics[0].channels, facts.nics[0].channels_max, facts.nics[0].up) = (Some(8), Some(8), false);
        let then = rest(&facts, &first.then.unwrap());
        assert_eq!((then.changes.len(), then.then.is_none()), (16, true), "{:?}", settings(&then));
        assert_eq!(settings(&then)[3], "/proc/irq/43/smp_affinity 8");
        assert!(then.changes.iter().all(|change| change.stage != Stage::Queues) && then.refusals.is_empty());
        let whole =
            plan(&with_queues_to_spare(), &Asked { findings: &findings, whole: true, ..Asked::default() });
        assert!(whole.then.is_none() && whole.changes.len() > 1, "what is to last is said as a whole");
    }

    #[test]
    fn queues_without_load_and_rings_of_a_busy_cpu_are_left() {
        let facts = with_queues_to_spare();
        let planned = |finding: Finding, percent: u32| {
            let interrupts_percent = BTreeMap::from([(0, percent), (1, 0)]);
            plan(&facts, &Asked { findings: &[finding], interrupts_percent, ..Asked::default() })
        };
        let note = Finding { severity: Severity::Note, ..finding("queues-few", Verdict::Fixable) };
        assert_eq!(planned(note, 0).refusals.len(), 1);
        let overrun = || finding("ring-overrun", Verdict::Fixable);
        assert_eq!(settings(&planned(overrun(), 5)), ["rings of eth0 rx=4096"]);
        let busy = planned(overrun(), 70);
        assert_eq!((busy.changes.len(), busy.refusals[0].asked_by.as_str()), (0, "ring-overrun"));
        assert!(busy.refusals[0].reason.contains("(70 %)"), "{:?}", busy.refusals);
    }

    #[test]
    fn who_asks_for_a_place_asks_irqbalance_to_respect_it() {
        let mut facts = HOST.facts();
        facts.irqbalance = Some(crate::facts::Irqbalance { pid: 7, banned: [9].into() });
        let made = |findings: &[Finding]| plan(&facts, &Asked { findings, ..Asked::default() }).changes;
        let changes =
            made(&[finding("xps-missing", Verdict::Fixable), finding("irqs-piled-up", Verdict::Fixable)]);
        let (told, by) = (&changes[0], changes[0].asked_by.as_str());
        assert_eq!((told.wanted.as_str(), by), ("9 40 41 42 43", "irqs-piled-up"));
        assert_eq!(changes[1].stage, Stage::Affinity);
        assert!(
            made(&[finding("xps-missing", Verdict::Fixable)])
                .iter()
                .all(|change| change.stage == Stage::Steering)
        );
    }

    #[test]
    fn where_interrupts_cannot_be_put_off_the_device_gathers_packets() {
        let mut facts = with_queues_to_spare();
        facts.nics[0].coalescing = Some(crate::facts::Coalescing::default());
        let findings = [finding("interrupt-per-packet", Verdict::Fixable)];
        let made = plan(&facts, &Asked { findings: &findings, ..Asked::default() });
        assert_eq!(settings(&made), ["coalescing of eth0 rx-usecs=50"]);
        assert_eq!(made.changes[0].asked_by, "coalesce");
        (facts.nics[0].defer_hard_irqs, facts.nics[0].gro_flush_timeout_ns) = (Some(0), Some(0));
        facts.kernel.version = (6, 1);
        let made = plan(&facts, &Asked { findings: &findings, ..Asked::default() });
        assert_eq!((made.changes.len(), made.changes[0].asked_by.as_str()), (2, "interrupt-per-packet"));
    }

    #[test]
    fn what_cannot_be_mended_here_asks_for_nothing() {
        check(&[finding("xps-missing", Verdict::NotHere { reason: String::new() })], &[]);
        check(&[finding("allowance-exceeded", Verdict::Fixable)], &[]);
    }

    /// What a finding about a listener asks for, with live changes allowed.
    #[track_caller]
    fn check_listener(rule: &str, subject: &str, wanted: &[&str]) {
        let listener = |port: u16, backlog| Listener {
            address: format!("0.0.0.0:{port}"),
            port,
            inode: port.into(),
            backlog,
            pid: Some(8),
            started: Some(1),
            fast_open: Some(0),
            ..Listener::default()
        };
        let mut facts = HOST.facts();
        facts.kernel.version = (6, 1);
        facts.sysctls = ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_fastopen"]
            .map(|name| (name.to_owned(), "128".to_owned()))
            .into();
        facts.services = vec![Service { pid: 8, name: "memcached".into(), ..Service::default() }];
        facts.listeners = vec![listener(1, 128), listener(2, 128), listener(3, 4096)];
        let finding = Finding { subject: subject.into(), ..finding(rule, Verdict::Fixable) };
        let plan = plan(&facts, &Asked { findings: &[finding], live: true, ..Asked::default() });
        let last = |change: &Change| change.setting.to_string().rsplit('/').next().unwrap().to_owned();
        let said = plan.changes.iter().map(last);
        let refused = plan.refusals.iter().map(|refusal| format!("no: {}", refusal.subject));
        assert_eq!(said.chain(refused).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn a_listeners_queue_is_mended_after_the_limits_that_cut_it() {
        let limits = ["somaxconn", "tcp_max_syn_backlog"];
        let backlog = |port| format!("backlog of 0.0.0.0:{port} (PID 8, socket {port})");
        let (one, two) = (backlog(1), backlog(2));
        let wanted = [limits[0], limits[1], &one];
        check_listener("accept-overflow", "0.0.0.0:1", &wanted);
        check_listener("backlog-small", "0.0.0.0:1", &wanted);
        check_listener("accept-overflow", "accept queues", &[limits[0], limits[1], &one, &two]);
        check_listener("accept-overflow", "0.0.0.0:3", &[limits[0], limits[1], "no: 0.0.0.0:3"]);
    }

    #[test]
    fn fast_open_is_allowed_on_the_host_and_then_asked_of_the_listener() {
        let queue = |port| format!("Fast Open queue of 0.0.0.0:{port} (PID 8, socket {port})");
        let (one, two, three) = (queue(1), queue(2), queue(3));
        check_listener("fast-open-off", "0.0.0.0:1", &["tcp_fastopen", &one]);
        check_listener("fast-open-off", "net.ipv4.tcp_fastopen", &["tcp_fastopen", &one, &two, &three]);
    }

    #[test]
    fn who_is_named_is_meant_alone() {
        let mut facts = HOST.facts();
        facts.kernel.version = (6, 18);
        let service = |pid| Service {
            pid,
            name: "memcached".into(),
            threads: vec![Thread { tid: pid, ..Thread::default() }],
            ..Service::default()
        };
        facts.services = vec![service(7), service(8)];
        let threads = |asked: &Asked| plan(&facts, asked).changes.into_iter().map(|change| change.setting);
        let slice = Asked { strategy: Some(Strategy::SchedSlice), ..Asked::default() };
        assert_eq!(threads(&slice).count(), 2);
        let wanted = [Setting::Thread { tid: 8 }];
        assert!(threads(&Asked { pids: &[8], ..slice }).eq(wanted.clone()));
        let delayed =
            Finding { subject: "memcached (PID 8)".into(), ..finding("scheduling-delay", Verdict::Fixable) };
        assert!(threads(&Asked { findings: &[delayed], ..Asked::default() }).eq(wanted));
    }

    #[test]
    fn only_rules_that_there_are_ask_for_anything() {
        for rule in MENDS.iter().map(|(rule, _)| *rule).chain(BY_HAND).chain(REPORTS) {
            assert!(rules::explain(rule).is_some(), "{rule}");
        }
    }

    /// Rules with nothing to mend: limits from outside, and what is good to know.
    const REPORTS: [&str; 14] = [
        "agents",
        "allowance-exceeded",
        "cpu-stolen",
        "cpu-throttled",
        "disk-saturated",
        "elephant-flow",
        "kernel-old",
        "packet-taxes",
        "packets-per-core",
        "raid-degraded",
        "raid0-chunk-small",
        "scheduler-replaced",
        "sysctl-dead",
        "device-dropped",
    ];

    #[test]
    fn every_rule_has_a_mend_or_is_advice_to_do_by_hand_or_only_reports() {
        for rule in rules::explanations().map(|explanation| explanation.rule) {
            let is_mended = MENDS.iter().any(|(mended, _)| *mended == rule);
            let ways = usize::from(is_mended)
                + usize::from(BY_HAND.contains(&rule))
                + usize::from(REPORTS.contains(&rule));
            assert_eq!(ways, 1, "{rule}: put it into MENDS, BY_HAND or REPORTS");
        }
    }

    #[test]
    fn what_has_no_setting_is_said_in_words() {
        let findings = [finding("mount-options", Verdict::Fixable), finding("agents", Verdict::Fixable)];
        let advice = plan(&HOST.facts(), &Asked { findings: &findings, ..Asked::default() }).advice;
        assert_eq!(
            advice,
            ["mount-options (eth0): noatime in /etc/fstab, and fstrim.timer in place of discard"]
        );
    }

    #[test]
    fn interrupts_are_spread_before_anybody_thinks_of_steering() {
        let findings = [finding("rps-missing", Verdict::Fixable), finding("irqs-piled-up", Verdict::Fixable)];
        let asked = Asked { findings: &findings, ..Asked::default() };
        let mut facts = HOST.facts();
        let first = plan(&facts, &asked);
        assert!(first.changes.iter().all(|change| change.setting.irq().is_some()), "{:?}", first.changes);
        assert_eq!(
            (first.refusals[0].subject.as_str(), first.refusals[0].reason.as_str()),
            ("eth0", SPREAD_FIRST)
        );

        first.changes.iter().for_each(|change| move_interrupt(&mut facts, change));
        let then = plan(&facts, &asked);
        let masks = then.changes.iter().filter(|change| change.setting.to_string().ends_with("rps_cpus"));
        assert!(masks.clone().count() == 4 && masks.clone().all(|change| change.wanted == "fff0"), "4-15");
    }

    #[test]
    fn a_synthetic_interface_means_the_function_below() {
        let mut facts = HOST.facts();
        let synthetic = Nic { name: "eth9".into(), lower: vec!["eth0".into()], ..facts.nics[0].clone() };
        facts.nics.push(synthetic);
        let asked = Asked { strategy: Some(Strategy::Xps), nic: Some("eth9"), ..Asked::default() };
        let changes = plan(&facts, &asked).changes;
        assert!(
            changes.len() == 4 && changes.iter().all(|change| change.setting.to_string().contains("/eth0/"))
        );
    }

    #[test]
    fn what_is_found_on_one_interface_is_not_mended_on_another() {
        let findings = [finding("xps-missing", Verdict::Fixable)];
        let mut facts = HOST.facts();
        facts.nics.push(Nic { name: "eth1".into(), ..facts.nics[0].clone() });
        let asked = |nic| Asked { findings: &findings, nic: Some(nic), ..Asked::default() };
        assert_eq!(plan(&facts, &asked("eth0")).changes.len(), 4);
        assert_eq!(plan(&facts, &asked("eth1")).changes, []);
    }

    #[test]
    fn what_is_mounted_read_only_is_left_to_the_host() {
        let mut facts = HOST.facts();
        facts.read_only = vec!["/proc/sys".into(), "/sys".into(), "/proc/ir".into()];
        let asked = Asked { strategy: Some(Strategy::Xps), ..Asked::default() };
        let refused = plan(&facts, &asked);
        assert_eq!((refused.changes.len(), refused.refusals.len()), (0, 1));
        assert_eq!(refused.refusals[0].subject, "/sys");
        let asked = Asked { strategy: Some(Strategy::Spread), ..Asked::default() };
        assert_eq!(plan(&facts, &asked).changes.len(), 4, "/proc/irq is another place");
    }

    #[test]
    fn what_is_so_already_is_left_out() {
        let asked = Asked { strategy: Some(Strategy::Spread), ..Asked::default() };
        let mut facts = HOST.facts();
        for _ in 0..4 {
            let before = plan(&facts, &asked).changes;
            let Some(first) = before.first() else { break };
            let irq = first.setting.irq().unwrap();
            let cpus = CpuSet::parse_mask(&first.wanted).unwrap();
            facts.interrupts.iter_mut().find(|other| other.irq == irq).unwrap().affinity = cpus;
            assert_eq!(plan(&facts, &asked).changes, before[1..]);
        }
        assert!(plan(&facts, &asked).changes.is_empty());
    }

    #[test]
    fn a_vlan_on_a_bond_means_the_devices_below() {
        let mut facts = HOST.facts();
        let stacked = |name: &str, lower: &str| Nic {
            name: name.into(),
            up: true,
            lower: vec![lower.into()],
            ..Nic::default()
        };
        facts.nics.extend([stacked("bond0", "eth0"), stacked("bond0.7", "bond0"), stacked("br0", "gone")]);
        let named = |nic| {
            plan(&facts, &Asked { strategy: Some(Strategy::Spread), nic: Some(nic), ..Asked::default() })
        };
        assert!(!named("eth0").changes.is_empty());
        assert_eq!(named("bond0.7"), named("eth0"));
        assert_eq!(named("br0").refusals[0].subject, "br0");
    }

    #[test]
    fn an_interface_that_is_not_there_is_refused() {
        let asked = Asked { strategy: Some(Strategy::Xps), nic: Some("eth9"), ..Asked::default() };
        let plan = plan(&HOST.facts(), &asked);
        assert_eq!((plan.changes.len(), plan.refusals.len()), (0, 1));
    }
}
