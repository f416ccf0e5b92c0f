//! The host's counters beside a server's own, for its metrics.
//!
//! They are read when a page is built, on a thread of their own: a driver that hangs, or a file of /proc that blocks, holds
//! up a page once, for [`WAIT_MAX`], and no page after that until it answers. What comes too late is not shown: a counter
//! that is shown although it was not read would look like a device that does nothing.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stdx::exposition::{Exposition, FamilyKind};
use tuner::observe::read::devices;
use tuner::{Reading, Root, report};

/// A reading takes a millisecond; on a host with 32 interfaces of 64 queues, on which all CPUs are busy, some tens.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// Reads a host's counters when asked. Its thread ends with the process.
pub(crate) struct HostSampler {
    exchange: Arc<Exchange>,
}

#[derive(Default)]
struct Exchange {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    /// A reading is wanted, or is being made.
    Asked,
    /// `None`: the host could not be read.
    Read(Option<Box<Reading>>),
}

impl HostSampler {
    /// Starts the thread. The host is only read when a page is wanted.
    pub(crate) fn start(root: Root) -> io::Result<HostSampler> {
        let exchange = Arc::new(Exchange::default());
        let sampler = HostSampler { exchange: Arc::clone(&exchange) };
        std::thread::Builder::new().name("host".into()).spawn(move || exchange.serve(&root))?;
        Ok(sampler)
    }

    /// The host's families in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        let (mut text, reading) = (Exposition::default(), self.exchange.ask());
        let help = "Whether the host's counters could be read in time; if not, the families of the host are missing.";
        text.single("evenkeel_host_sampled", FamilyKind::Gauge, help, u8::from(reading.is_some()));
        if let Some(reading) = reading {
            report::counters(&reading, &mut text);
        }
        text.finish()
    }
}

impl Exchange {
    /// A reading that began after this call; `None` if there was none in time, or the last one has not ended yet.
    fn ask(&self) -> Option<Box<Reading>> {
        let mut state = self.state();
        if matches!(*state, State::Asked) {
            return None;
        }
        *state = State::Asked;
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, WAIT_MAX, |state| matches!(state, State::Asked));
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        match std::mem::take(&mut *state) {
            State::Read(reading) => reading,
            unanswered => {
                *state = unanswered;
                None
            }
        }
    }

    fn serve(&self, root: &Root) -> ! {
        loop {
            let idle = self.changed.wait_while(self.state(), |state| !matches!(state, State::Asked));
            drop(idle.unwrap_or_else(PoisonError::into_inner));
            // Counters are written as they are: no rate is computed from the moment.
            let reading = devices(root, 0).ok().map(Box::new);
            *self.state() = State::Read(reading);
            self.changed.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::clock::{Stopwatch, pause};
    use std::path::PathBuf;
    use std::process::Command;

    /// A host with one disk, whose counters come out of a pipe: whoever opens it waits for a writer.
    fn host_that_hangs(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("evenkeel-sampler-{name}-{}", std::process::id()));
        for made in ["proc", "sys/block/sda"] {
            std::fs::create_dir_all(directory.join(made)).expect("a directory");
        }
        let made = Command::new("mkfifo").arg(directory.join("proc/diskstats")).status();
        assert!(made.expect("mkfifo").success());
        directory
    }

    #[test]
    fn a_host_that_hangs_holds_up_one_page_and_is_shown_again_when_it_answers() {
        let directory = host_that_hangs("hangs");
        let sampler = HostSampler::start(Root::new(&directory)).expect("a thread");
        let page = sampler.metrics();
        assert!(page.contains("evenkeel_host_sampled 0\n") && !page.contains("disk"), "{page}");
        let watch = Stopwatch::start();
        for _ in 0..1000 {
            assert!(sampler.metrics().contains("evenkeel_host_sampled 0\n"));
        }
        assert!(watch.passed() < 1000 * WAIT_MAX / 2, "each of them waited");
        // It answers what it was asked long ago, which is not shown, and then what it is asked.
        let answers = "8 0 sda 10 0 0 30 5 0 0 7 3 40 0\n";
        let pipe = directory.join("proc/diskstats");
        // A reader is done when nobody has the pipe open for writing: whoever writes again at once would keep it reading.
        std::thread::spawn(move || {
            while std::fs::write(&pipe, answers).is_ok() {
                pause(Duration::from_millis(10));
            }
        });
        let minute = Stopwatch::start();
        let page = loop {
            let page = sampler.metrics();
            if page.contains("evenkeel_host_sampled 1\n") || minute.passed().as_secs() > 60 {
                break page;
            }
            pause(Duration::from_millis(10));
        };
        assert!(page.contains("evenkeel_host_disk_in_flight{disk=\"sda\"} 3\n"), "{page}");
        let _ = std::fs::remove_dir_all(&directory);
    }

    #[test]
    fn without_a_host_nothing_is_shown_as_zero() {
        let sampler = HostSampler::start(Root::new("/nowhere")).expect("a thread");
        let page = sampler.metrics();
        assert_eq!(stdx::exposition::read(&page).map(|families| families.len()), Ok(1), "{page}");
        assert!(page.ends_with("evenkeel_host_sampled 0\n"));
    }

    #[test]
    fn this_host_has_cpus() {
        let sampler = HostSampler::start(Root::new("/")).expect("a thread");
        let read = || Some(sampler.metrics()).filter(|page| page.contains("evenkeel_host_sampled 1\n"));
        let page = (0..240).find_map(|_| read()).expect("within a minute");
        assert!(page.contains("evenkeel_host_softirq_seconds_total{cpu=\"0\"}"), "{page}");
        stdx::exposition::read(&page).expect("it is as the format wants it");
    }
}
