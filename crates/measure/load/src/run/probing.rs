//! Probes beside a load that other machines make: they ask from here, where nothing else keeps the CPU busy.
//!
//! Leverich's mutilate measures like this: agents load the server, and the master, which does not, measures its
//! latency.

use super::Runner;
use super::gathered::All;
use super::window::DRAIN_MAX;
use super::workers::Task;
use crate::engine::files;
use crate::report::follower::GLANCE;
use crate::report::summary::{Probed, Probing};
use crate::run::shared::{Phase, RunState, Start};
use crate::types::clock::now_ns;
use crate::types::error::Error;
use crate::types::probes::Probes;
use crate::workload::plan::RunPlan;
use os::cpu_time;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};

/// Running probes. Dropping this ends them.
pub(crate) struct Prober<'scope> {
    shared: Arc<RunState>,
    thread: Option<ScopedJoinHandle<'scope, Result<Probing, Error>>>,
    probing: Option<Probing>,
}

impl<'scope> Prober<'scope> {
    /// Opens their connections.
    pub(crate) fn start(
        scope: &'scope Scope<'scope, '_>,
        plan: &'scope RunPlan,
        asked: Probes,
    ) -> Result<Prober<'scope>, Error> {
        files::allow(asked.connections)?;
        let shared = Arc::new(RunState::new(1, Phase::WarmUp));
        let (sender, ready) = channel();
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name(String::from("probes")).spawn_scoped(scope, move || {
            Runner { plan }.probe(asked, &theirs, sender).map_err(|error| Error::Probe(Box::new(error)))
        })?;
        let mut prober = Prober { shared, thread: Some(thread), probing: None };
        match ready.recv() {
            Ok(()) => Ok(prober),
            // It has returned its error: `join` finds it.
            Err(_) => prober.join().and(Err(Error::Panic)),
        }
    }

    pub(crate) fn begin(&self, start: Start) {
        self.shared.begin(start);
    }

    /// The error of the probes, if there is one.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        let has_ended = self.thread.as_ref().is_some_and(ScopedJoinHandle::is_finished);
        if has_ended { self.join() } else { Ok(()) }
    }

    /// No more requests: the load has changed.
    pub(crate) fn end(&self) {
        self.shared.drain();
    }

    pub(crate) fn finish(mut self) -> Result<Probing, Error> {
        self.end();
        self.join()?;
        self.probing.take().ok_or(Error::Panic)
    }

    fn join(&mut self) -> Result<(), Error> {
        if let Some(thread) = self.thread.take() {
            self.probing = Some(thread.join().map_err(|_| Error::Panic)??);
        }
        Ok(())
    }
}

impl Drop for Prober<'_> {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Runner<'_> {
    /// From the connections to the last reply; `ready` is sent when the probes can begin.
    fn probe(&self, asked: Probes, shared: &RunState, ready: Sender<()>) -> Result<Probing, Error> {
        // No thread of the load is before theirs here.
        let task = Task { index: 0, ..self.probes(asked, shared) };
        self.with_workers(vec![task], None, |reports| {
            let mut all = All::new(0, 1);
            all.wait_ready(reports)?;
            // The receiver is gone when an agent failed first; then nothing begins, either.
            let _ = ready.send(());
            let Some(Start { window_ns, .. }) = shared.start() else { return Err(Error::Left) };
            all.wait_all(reports, window_ns.start)?;
            let (host, time, before) = (cpu_time::of_host(), shared.workers[0].time(), shared.total().0);
            shared.open(now_ns());
            // An early end is visible in the phase alone.
            while shared.phase() == Phase::Measure
                && now_ns() < window_ns.end
                && !all.wait_all(reports, window_ns.end.min(now_ns() + GLANCE.as_nanos() as u64))?
            {
            }
            let closed_ns = match shared.phase() {
                Phase::Measure => window_ns.end,
                _ => now_ns(),
            };
            let time = shared.workers[0].time().since(time);
            let completed = shared.total().0.saturating_sub(before);
            let steal = cpu_time::of_host().stolen_since(host);
            shared.drain();
            all.wait_all(reports, now_ns() + DRAIN_MAX.as_nanos() as u64)?;
            shared.stop();
            while !all.wait_all(reports, u64::MAX)? {}
            all.checked()?;
            let probed = Probed { tally: all.probes.tally, time, completed };
            let seconds = closed_ns.saturating_sub(window_ns.start) as f64 / 1e9;
            Ok(Probing { figures: probed.figures(self.plan, seconds, steal), seconds: all.probes.seconds })
        })
    }
}
