//! Rules, their explanations and their remedies.

use super::host::RuleInput;
use crate::Finding;
use crate::settings::profile::Profile;
use crate::settings::proposal::Propose;
use crate::settings::strategy::Strategy;

/// One rule.
pub(crate) struct Rule {
    /// Its explanation.
    pub(crate) explanation: Explanation,
    /// Its remedy.
    pub(crate) remedy: Remedy,
    /// Its function.
    pub(crate) find: fn(&RuleInput) -> Vec<Finding>,
}

/// The explanation of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    /// The rule's name: `softirq-one-core`.
    pub rule: &'static str,
    /// Its finding, in a few words.
    pub title: &'static str,
    /// Its figures, and their thresholds.
    pub evidence: &'static str,
    /// The meaning of that.
    pub meaning: &'static str,
    /// The remedy, and when not to use it.
    pub remedy: &'static str,
}

/// The remedy of a rule's findings: the only place that says what a plan changes for them.
#[derive(Clone, Copy)]
pub(crate) enum Remedy {
    /// None: an external limit, or good to know.
    ReportOnly,
    /// None that could be undone, or a matter of judgement: the plan describes it in words.
    ByHand,
    /// Settings that a plan changes.
    Settings(SettingsRemedy),
}

/// Settings as a remedy.
#[derive(Clone, Copy)]
pub(crate) struct SettingsRemedy {
    /// The settings, in this order.
    pub(crate) settings: &'static [Propose],
    /// The strategy or profile that is planned anew at boot, for changes that no file keeps.
    pub(crate) at_boot: Option<AtBoot>,
    /// Its place among the remedies of a plan.
    pub(crate) order: RemedyOrder,
}

/// The strategy or profile that proposes a remedy's settings without its finding.
#[derive(Clone, Copy)]
pub(crate) enum AtBoot {
    Strategy(Strategy),
    Profile(Profile),
}

/// The place of a remedy among the others of a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemedyOrder {
    /// Any: in the order of findings.
    Any,
    /// It moves interrupts, so it comes first: packets are steered to CPUs that do not take them, and these will be
    /// others.
    MovesInterrupts,
    /// It moves interrupts after a change of queues, by which the link may blink. It waits for interfaces whose interrupts
    /// the same plan moves over the queues that there are: that may be enough.
    AddsQueues,
    /// It waits for interfaces whose interrupts the same plan moves: it may not be needed then.
    AfterInterrupts,
    /// It waits where the finding's cause has a remedy, too, because it would hide the consequences of that cause.
    AfterCause,
}

impl Remedy {
    /// These settings.
    pub(super) const fn settings(settings: &'static [Propose]) -> Remedy {
        Remedy::Settings(SettingsRemedy { settings, at_boot: None, order: RemedyOrder::Any })
    }

    /// These settings, which this strategy proposes anew at boot.
    pub(super) const fn of_strategy(strategy: Strategy, settings: &'static [Propose]) -> Remedy {
        let at_boot = Some(AtBoot::Strategy(strategy));
        Remedy::Settings(SettingsRemedy { settings, at_boot, order: RemedyOrder::Any })
    }

    /// These settings, which this profile proposes anew at boot.
    pub(super) const fn of_profile(profile: Profile, settings: &'static [Propose]) -> Remedy {
        let at_boot = Some(AtBoot::Profile(profile));
        Remedy::Settings(SettingsRemedy { settings, at_boot, order: RemedyOrder::Any })
    }

    /// The same with another place in a plan.
    pub(super) const fn ordered(self, order: RemedyOrder) -> Remedy {
        match self {
            Remedy::Settings(remedy) => Remedy::Settings(SettingsRemedy { order, ..remedy }),
            other => other,
        }
    }

    /// The settings, if a plan changes any.
    pub(crate) fn planned(self) -> Option<SettingsRemedy> {
        match self {
            Remedy::Settings(remedy) => Some(remedy),
            Remedy::ReportOnly | Remedy::ByHand => None,
        }
    }
}
