//! Faults of the world of changes, drawn from a seed. Times are seconds.

use fleet::waves::SignalSource;
use stdx::prng::Prng;

use super::desks::DeathPoint;
use super::shape::{CONTROLLERS, WaveShape};

/// Faults begin when canaries do.
pub(super) const FIRST_FAULT_S: u64 = 60;

/// One fault.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum WaveFault {
    HostReboots {
        host: usize,
        for_s: u64,
        loses_it: bool,
    },
    HostIsDeaf {
        host: usize,
        for_s: u64,
    },
    /// As soon as it has the change, it hears nothing for so long: the change has cut it off.
    HostIsCutOff {
        host: usize,
        for_s: u64,
    },
    DiskIsFull {
        host: usize,
    },
    PlanDiffers {
        host: usize,
    },
    StepsAside {
        host: usize,
    },
    Leaves {
        host: usize,
    },
    ZoneFreezes {
        zone: usize,
    },
    ZoneThaws {
        zone: usize,
    },
    ControllerDies {
        controller: usize,
        at: DeathPoint,
        for_s: u64,
    },
    ControllerIsCut {
        controller: usize,
        for_s: u64,
    },
    ControllerLosesRegister {
        controller: usize,
        for_s: u64,
    },
    ClockJumps {
        controller: usize,
    },
    RegisterStops {
        for_s: u64,
    },
    Signal(SignalSource),
    PersonUndoes,
    PersonResumes,
    SecondChange,
}

impl WaveFault {
    /// Somebody speaks for or against the change, or wants another one.
    fn is_of_people(&self) -> bool {
        use WaveFault::*;
        matches!(self, Signal(_) | PersonUndoes | PersonResumes | SecondChange)
    }
}

/// Faults with their seconds, in order.
pub(super) fn script(seed: u64, shape: &WaveShape) -> Vec<(u64, WaveFault)> {
    let mut prng = Prng::new(seed ^ 0xfa17);
    let mut script = Vec::new();
    let plan = shape.faults;
    while script.iter().filter(|(_, fault)| !matches!(fault, WaveFault::ZoneThaws { .. })).count()
        < plan.count
    {
        let at = FIRST_FAULT_S + prng.below(plan.length_s);
        let host = prng.below(shape.size.hosts as u64) as usize;
        let controller = prng.below(CONTROLLERS as u64) as usize;
        let for_s = 5 + prng.below(200);
        let fault = draw(&mut prng, host, controller, for_s);
        if fault.is_of_people() && !plan.has_people {
            continue;
        }
        script.push((at, fault));
        if let Some((_, WaveFault::ZoneFreezes { zone })) = script.last() {
            let zone = *zone;
            script.push((at + for_s + 60, WaveFault::ZoneThaws { zone }));
        }
    }
    script.sort_by_key(|(at, _)| *at);
    script
}

fn draw(prng: &mut Prng, host: usize, controller: usize, for_s: u64) -> WaveFault {
    match prng.below(28) {
        0..=3 => WaveFault::HostReboots { host, for_s, loses_it: prng.below(2) == 0 },
        4 | 5 => WaveFault::HostIsDeaf { host, for_s: for_s + 120 },
        6 | 7 => WaveFault::DiskIsFull { host },
        8 => WaveFault::PlanDiffers { host },
        9 => WaveFault::StepsAside { host },
        10 => WaveFault::Leaves { host },
        11 | 12 => WaveFault::ZoneFreezes { zone: prng.below(3) as usize },
        13 => WaveFault::ControllerDies { controller, at: DeathPoint::Now, for_s },
        14 | 15 => WaveFault::ControllerDies { controller, at: DeathPoint::BeforeWrite, for_s },
        16 | 17 => WaveFault::ControllerDies { controller, at: DeathPoint::AfterWrite, for_s },
        18 => WaveFault::ControllerIsCut { controller, for_s },
        19 => WaveFault::ControllerLosesRegister { controller, for_s },
        20 => WaveFault::ClockJumps { controller },
        21 => WaveFault::RegisterStops { for_s },
        22 => {
            WaveFault::Signal(if prng.below(2) == 0 { SignalSource::Guard } else { SignalSource::Objective })
        }
        23 => WaveFault::PersonUndoes,
        24 => WaveFault::PersonResumes,
        25 | 26 => WaveFault::HostIsCutOff { host, for_s: for_s + 30 },
        _ => WaveFault::SecondChange,
    }
}
