//! Clock source: one that programs read without a system call.

use crate::observe::facts::ClockSource;
use crate::settings::change::{Risk, Setting, Stage};
use crate::settings::proposal::{ProposedChanges, Reason};
use crate::settings::scope::Scope;
use crate::settings::signal::ExpectedSignals;

/// Clock sources that the C library reads by itself, the best first.
const CLOCKS_FAST: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];

const FAST_CLOCK: Reason = Reason {
    why: "programs read this clock without a system call (vDSO)",
    risk: Risk::Moderate,
    signal: &[ExpectedSignals::words(
        "CPU time in the kernel falls, and the kernel's log does not call the clock unstable",
    )],
};

/// The best of the available ones.
pub(crate) fn better(source: &ClockSource) -> Option<&'static str> {
    CLOCKS_FAST.into_iter().find(|fast| source.available.iter().any(|available| available == fast))
}

/// The best clock source of the host.
pub(crate) fn fast(proposed: &mut ProposedChanges, scope: &Scope) {
    let source = &scope.facts().clock_source;
    if let (Some(now), Some(better)) = (&source.current, better(source)) {
        let setting = Setting::choice("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        proposed.propose(Stage::Sysctl, setting, now.clone(), better.into(), FAST_CLOCK);
    }
}
