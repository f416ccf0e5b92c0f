//! Agent inside a subject's virtual machine: it applies a network strategy and samples the machine again and again.
//!
//! ```text
//! guest (on the host) ─► QEMU ─► init.sh ─► inside
//!         ◄── the console: the subject listens, changes left out, settings changed since
//!         ◄── a second serial port: the samples, each a line of JSON
//! ```

use crate::error::Error;
use crate::guest::{LEFT, LISTENS, MOVED};
use crate::record::Sample;
use crate::trial::halt::Halt;
use crate::trial::sampler::{Moment, cost_s, sample};
use crate::trial::settings::HostSettings;
use os::clock::Stopwatch;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tuner::Root;

/// The agent's task.
#[derive(Clone, Debug)]
pub struct GuestTask {
    /// The strategy's name.
    pub strategy: String,
    /// The machine's interface.
    pub nic: String,
    /// The subject's process, which listens by now.
    pub subject: u32,
    /// The file for the samples: the serial port.
    pub samples: PathBuf,
    /// Time from a sample to the next, as far as nothing delays it; each has the time when it ended.
    pub every: Duration,
    /// For the journal of the strategy, which ends with the machine.
    pub state: PathBuf,
}

/// Runs until the machine is switched off. `tell` takes a line for the console.
pub fn inside(asked: &GuestTask, halt: &Halt, tell: &mut dyn FnMut(&str)) -> Result<Infallible, Error> {
    let root = Root::new("/");
    let mut facts = tuner::probe(&root, &[asked.subject])?;
    let mut settings = HostSettings::enter(&asked.state)?;
    let left = settings.follow("the strategy", &asked.strategy, Some(&asked.nic), &facts)?;
    left.iter().for_each(|line| tell(&format!("{LEFT}{line}")));
    tell(LISTENS);
    let port = OpenOptions::new().append(true).open(&asked.samples);
    let mut port = port.map_err(Error::io("open", &asked.samples))?;
    // Other interrupts are not sampled, and each would be a file to read.
    facts.interrupts.retain(|irq| irq.device.as_ref() == Some(&asked.nic));
    let (clock, mut moved) = (Stopwatch::start(), BTreeSet::new());
    let mut last = Moment::of_cpus(&root, &facts, clock)?;
    loop {
        halt.pause(asked.every)?;
        let now = Moment::of_cpus(&root, &facts, clock)?;
        let said = GuestSample { sample: sample(&facts, &last, &now), cost_s: cost_s() };
        write(&mut port, &said).map_err(Error::io("write to", &asked.samples))?;
        last = now;
        for line in settings.moved() {
            if moved.insert(line.clone()) {
                tell(&format!("{MOVED}{line}"));
            }
        }
    }
}

/// A line of the serial port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GuestSample {
    pub(crate) sample: Sample,
    /// CPU-seconds that sampling has cost so far.
    pub(crate) cost_s: f64,
}

fn write(port: &mut impl Write, said: &GuestSample) -> std::io::Result<()> {
    let line = serde_json::to_string(said).expect("it is plain data") + "\n";
    port.write_all(line.as_bytes())
}

/// All lines that the machine has completed so far.
pub(crate) fn said(path: &Path) -> Result<Vec<GuestSample>, Error> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    let text = String::from_utf8_lossy(&bytes);
    let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
    let parse = |line: &str| {
        serde_json::from_str(line).map_err(|source| Error::Json { path: path.to_owned(), source })
    };
    whole.lines().map(parse).collect()
}

/// The samples after the first this many, with time and cost counted from there: the load began before the next.
pub(crate) fn after(mut said: Vec<GuestSample>, before: usize) -> Vec<GuestSample> {
    let last = before.checked_sub(1).and_then(|last| said.get(last));
    let (began_s, cost_s) = last.map_or((0.0, 0.0), |last| (last.sample.at_s, last.cost_s));
    said.drain(..before.min(said.len()));
    for it in &mut said {
        it.sample.at_s -= began_s;
        it.cost_s -= cost_s;
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn samples_come_over_a_serial_port_and_count_from_the_loads_beginning() {
        let scratch = Scratch::new("inside-samples");
        let path = scratch.path().join("samples");
        let mut text = Vec::new();
        for at_s in [1.0, 2.25, 3.5] {
            let sample = Sample { at_s, net_rx: vec![7, 0], ..Sample::default() };
            write(&mut text, &GuestSample { sample, cost_s: at_s / 4.0 }).expect("in memory");
        }
        // The port ends lines as a terminal does, and the machine is in the middle of one.
        let text = String::from_utf8(text).expect("JSON").replace('\n', "\r\n") + "{\"sample\": {\"at_";
        std::fs::write(&path, text).expect("written");
        let all = said(&path).expect("three samples");
        let times = |before| -> Vec<(f64, f64)> {
            after(all.clone(), before).iter().map(|it| (it.sample.at_s, it.cost_s)).collect()
        };
        assert_eq!(times(0), [(1.0, 0.25), (2.25, 0.5625), (3.5, 0.875)]);
        assert_eq!((times(1), times(3)), (vec![(1.25, 0.3125), (2.5, 0.625)], vec![]));
        std::fs::write(&path, "hm\n").expect("written");
        let error = said(&path).expect_err("no sample").to_string();
        assert!(error.starts_with("understand "), "{error}");
    }
}
