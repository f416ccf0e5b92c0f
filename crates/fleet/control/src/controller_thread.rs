//! The thread of a controller: messages, moments, and the threads beside it that watch its register and probe its members.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use os::clock::{Stopwatch, pause, unix_s};
use stdx::clock::Now;
use stdx::log_level::LogLevel;

use crate::controller::Controller;
use crate::decisions::FleetDecisions;
use crate::probe::{ProbeList, ProbeTarget};
use crate::register::{RegisterError, WatchStep};
use crate::service::pages::SharedFigures;
use crate::service::{ControlService, ControllerMessage};

/// Interval of moments: waves of rollouts are seconds long, and agents have their orders with their turns.
const TICK: Duration = Duration::from_millis(100);
/// Shortest time between two moments: each looks at much of the fleet, and 25,000 members send thousands of messages a second.
const TICK_MIN: Duration = Duration::from_millis(10);
/// Messages that are taken between two moments: some milliseconds of work.
const MESSAGES_PER_TICK: usize = 1000;
/// How long a watch waits before it looks whether it is still wanted.
const WATCH_FOR: Duration = Duration::from_secs(5);
/// Time until a register that was away is watched again.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// Interval of figures: they look at every member, of which there may be 25,000, and scrapes are 15 s apart.
const FIGURES_EVERY: Duration = Duration::from_secs(5);

/// The zero of a controller's clock lies before its start by more than the time for which replacements count, an hour as a
/// rule and 7 days at most: what has an age has a moment.
const BEFORE_START_MS: u64 = 8 * 86_400_000;

/// The present moment by the clock of a controller, which began to run when the stopwatch was started.
pub fn moment(clock: &Stopwatch) -> Now {
    Now { us: BEFORE_START_MS * 1000 + clock.passed().as_micros() as u64 }
}

/// Runs a controller until the service is gone, whose messages these are. `tls` says whether members speak TLS; `figures` are kept up to
/// date, if anybody reads them.
pub fn run_controller(
    mut controller: Controller,
    messages: &Receiver<Box<ControllerMessage>>,
    probes: &ProbeList,
    tls: bool,
    clock: Stopwatch,
    figures: Option<&SharedFigures>,
) {
    let now = || moment(&clock);
    let mut last = Stopwatch::start();
    let mut counted: Option<Stopwatch> = None;
    loop {
        match messages.recv_timeout(TICK) {
            Ok(first) => {
                // What comes meanwhile is taken with it.
                pause(TICK_MIN.saturating_sub(last.passed()));
                let (now, unix_s) = (now(), unix_s().cast_signed());
                controller.on_message(*first, now, unix_s);
                let begun = Stopwatch::start();
                for message in messages.try_iter().take(MESSAGES_PER_TICK) {
                    controller.on_message(*message, now, unix_s);
                    // A question may take long: what is due is not put off by the next one.
                    if begun.passed() >= TICK {
                        break;
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        last = Stopwatch::start();
        controller.tick(now(), unix_s().cast_signed());
        if let Some(figures) = figures
            && counted.as_ref().is_none_or(|counted| counted.passed() >= FIGURES_EVERY)
        {
            figures.set(controller.figures());
            counted = Some(Stopwatch::start());
        }
        for line in controller.take_log_lines() {
            controller.say(LogLevel::Warning, &line);
        }
        if let Some(targets) = controller.take_new_targets() {
            let target = |address: String| ProbeTarget { address, tls };
            let targets: BTreeMap<_, _> =
                targets.into_iter().map(|(member, address)| (member, target(address))).collect();
            probes.set(targets);
        }
    }
}

/// Starts a thread that tells a controller when its register has changed. It ends with the service.
///
/// # Errors
/// If the system has no thread left.
pub fn start_watch(decisions: FleetDecisions, service: &Arc<ControlService>) -> std::io::Result<()> {
    let service = Arc::downgrade(service);
    let thread = std::thread::Builder::new().name("watch".to_owned());
    thread.spawn(move || {
        while service.strong_count() > 0 {
            // Whatever was missed meanwhile is read.
            note(&service);
            if watch(&decisions, &service).is_err() {
                pause(WATCH_AGAIN);
            }
        }
    })?;
    Ok(())
}

fn note(service: &Weak<ControlService>) {
    if let Some(service) = service.upgrade() {
        service.note_change();
    }
}

fn watch(decisions: &FleetDecisions, service: &Weak<ControlService>) -> Result<(), RegisterError> {
    let mut watch = decisions.watch()?;
    while service.strong_count() > 0 {
        match watch.next(WATCH_FOR)? {
            WatchStep::Changes(_) => note(service),
            WatchStep::Quiet => {}
            WatchStep::Compacted(_) => return Ok(()),
        }
    }
    Ok(())
}
