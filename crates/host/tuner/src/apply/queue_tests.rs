//! A device in memory whose queues come and go: with each change of their number, interrupts get other numbers, and what
//! was set of a queue is as the driver has it.

use super::*;
use crate::apply::journal::{BootAndNamespace, Journals, PlanState};
use crate::apply::rollback::{StepOutcome, undo};
use crate::observe::ethtool::Knob;
use crate::observe::shapes::Scratch;
use crate::plan::change::{Holds, Risk, Stage};
use crate::plan::signal::ExpectedSignal;
use os::CpuSet;

#[derive(Clone, Debug, PartialEq)]
struct Device {
    /// Steering of each queue.
    rps: Vec<String>,
    /// Affinity of each queue's interrupt.
    affinity: Vec<String>,
    /// Number of the first interrupt; grows with every change.
    first_irq: u32,
    /// What irqbalance leaves alone.
    banned: String,
    refuses: Option<Errno>,
}

const MOST: usize = 4;

fn device(queues: usize) -> Device {
    Device {
        rps: vec!["0".into(); queues],
        affinity: vec!["f".into(); queues],
        first_irq: 40,
        banned: "9".into(),
        refuses: None,
    }
}

fn channels() -> Setting {
    Setting::Device { nic: "eth0".into(), knob: Knob::Channels }
}

fn rps(queue: usize) -> Setting {
    Setting::mask(format!("/sys/class/net/eth0/queues/rx-{queue}/rps_cpus"))
}

fn handler(queue: usize) -> Setting {
    Setting::Interrupt { nic: "eth0".into(), handler: format!("eth0-TxRx-{queue}") }
}

impl Device {
    fn at(&mut self, setting: &Setting) -> io::Result<&mut String> {
        let none = || io::Error::from(Errno::NOENT);
        let number = |text: &str| text.parse::<usize>().unwrap();
        match setting {
            Setting::File { path, holds: Holds::Mask } => match path.strip_prefix("/proc/irq/") {
                Some(rest) => {
                    let irq = number(rest.strip_suffix("/smp_affinity").unwrap());
                    let queue = irq.checked_sub(self.first_irq as usize).ok_or_else(none)?;
                    self.affinity.get_mut(queue).ok_or_else(none)
                }
                None => {
                    let queue = path.strip_prefix("/sys/class/net/eth0/queues/rx-").unwrap();
                    self.rps.get_mut(number(queue.strip_suffix("/rps_cpus").unwrap())).ok_or_else(none)
                }
            },
            Setting::Interrupt { handler, .. } => {
                self.affinity.get_mut(number(handler.rsplit('-').next().unwrap())).ok_or_else(none)
            }
            Setting::Irqbalance { .. } => Ok(&mut self.banned),
            other => panic!("{other}"),
        }
    }
}

impl HostAccess for Device {
    fn read(&self, setting: &Setting) -> io::Result<String> {
        match *setting == channels() {
            true => Ok(format!("combined={} rx=0 tx=0", self.rps.len())),
            false => self.clone().at(setting).cloned(),
        }
    }

    fn write(&mut self, setting: &Setting, text: &str) -> io::Result<()> {
        if *setting != channels() {
            *self.at(setting)? = text.to_owned();
            return Ok(());
        }
        let combined = text.split_whitespace().find_map(|word| word.strip_prefix("combined=")).unwrap();
        let queues: usize = combined.parse().unwrap();
        if let Some(errno) = self.refuses {
            return Err(errno.into());
        }
        if queues > MOST {
            return Err(Errno::INVAL.into());
        }
        // Queues that stay keep their steering; a driver asks for all interrupts anew.
        self.rps.resize(queues, "0".into());
        self.affinity = vec!["f".into(); queues];
        self.first_irq += 10;
        Ok(())
    }

    fn interrupt(&self, _irq: u32) -> io::Result<(u64, CpuSet)> {
        Ok((0, CpuSet::new()))
    }

    fn reset_by(&self, setting: &Setting) -> Vec<Setting> {
        match *setting == channels() {
            true => (0..self.rps.len()).flat_map(|queue| [rps(queue), handler(queue)]).collect(),
            false => Vec::new(),
        }
    }
}

fn change(stage: Stage, setting: Setting, now: &str, wanted: &str) -> Change {
    let text = String::new;
    Change {
        stage,
        setting,
        now: now.into(),
        wanted: wanted.into(),
        why: text(),
        asked_by: text(),
        risk: Risk::Low,
        signal: ExpectedSignal::default(),
    }
}

fn queues(now: usize, wanted: usize) -> Vec<Change> {
    vec![change(Stage::Queues, channels(), &format!("combined={now}"), &format!("combined={wanted}"))]
}

/// By the numbers and queues that there are after the change.
fn afterwards() -> Vec<Change> {
    vec![
        change(Stage::Irqbalance, Setting::Irqbalance { pid: 7 }, "9", "9 50 53"),
        change(Stage::Affinity, Setting::mask("/proc/irq/53/smp_affinity"), "f", "8"),
        change(Stage::Steering, rps(3), "0", "c"),
    ]
}

fn begin(scratch: &Scratch) -> Journal {
    let place = BootAndNamespace { boot_id: "b".into(), network: None };
    Journals::new(scratch.path()).begin(&place, 0, None).unwrap()
}

/// But for numbers of interrupts, which cannot be restored.
fn assert_as_before(device: &Device, before: &Device) {
    assert_eq!(
        (&device.rps, &device.affinity, &device.banned),
        (&before.rps, &before.affinity, &before.banned)
    );
}

#[test]
fn what_depends_on_the_queues_is_done_with_the_new_ones_and_undone_before_them() {
    let scratch = Scratch::new("queues-more");
    let (mut host, mut journal) = (device(2), begin(&scratch));
    host.rps[1] = "3".into();
    host.affinity[1] = "2".into();
    let before = host.clone();
    let applied = apply_then(&mut host, &queues(2, 4), &mut journal, &|| false, || Ok(afterwards())).unwrap();
    assert_eq!((applied.done.len(), applied.pending), (4, vec![53]));
    assert_eq!(
        (host.rps[3].as_str(), host.affinity[3].as_str(), host.banned.as_str()),
        ("c", "8", "9 50 53")
    );
    assert_eq!(journal.state(), PlanState::Applied);

    let mut journal = Journal::open(journal.path()).unwrap().unwrap();
    let undone = undo(&mut host, &mut journal, "asked");
    assert!(undone.is_whole(), "{undone:?}");
    assert_as_before(&host, &before);
    assert_eq!(host.first_irq, 60, "the numbers are new once more, and the handler's name was enough");
}

#[test]
fn a_queue_that_vanished_has_its_settings_again_when_it_is_back() {
    let scratch = Scratch::new("queues-fewer");
    let (mut host, mut journal) = (device(4), begin(&scratch));
    host.rps[3] = "3".into();
    host.affinity[3] = "1".into();
    let before = host.clone();
    apply(&mut host, &queues(4, 2), &mut journal).unwrap();
    assert_eq!(host.rps.len(), 2);
    let undone = undo(&mut host, &mut journal, "asked");
    assert_as_before(&host, &before);
    assert!(undone.steps.contains(&(rps(3), StepOutcome::Restored)), "{undone:?}");
}

#[test]
fn what_fails_after_the_queues_have_changed_takes_them_back() {
    for failing in 0..=afterwards().len() {
        let scratch = Scratch::new("queues-fail");
        let (mut host, mut journal) = (device(2), begin(&scratch));
        host.affinity[0] = "1".into();
        let before = host.clone();
        let failed = apply_then(&mut host, &queues(2, 4), &mut journal, &|| false, || {
            let mut changes = afterwards();
            let gone = change(Stage::Steering, rps(9), "0", "1");
            changes.insert(failing, gone);
            Ok(changes)
        });
        let failed = failed.unwrap_err();
        assert!(failed.undone.is_whole(), "{failed}");
        assert_as_before(&host, &before);
    }
    let scratch = Scratch::new("queues-plan");
    let (mut host, mut journal) = (device(2), begin(&scratch));
    let error = || root::Error::Parse { path: "/x".into(), expected: "y", found: "z".into() };
    let failed = apply_then(&mut host, &queues(2, 4), &mut journal, &|| false, || Err(error())).unwrap_err();
    assert_eq!(failed.to_string(), "plan what follows; everything is as it was before");
    assert_as_before(&host, &device(2));
}

#[test]
fn a_crash_after_any_record_is_undone_from_the_journal_alone() {
    let scratch = Scratch::new("queues-crash");
    let (mut host, mut journal) = (device(4), begin(&scratch));
    host.rps[3] = "3".into();
    host.affinity[2] = "4".into();
    let before = host.clone();
    apply(&mut host, &queues(4, 2), &mut journal).unwrap();
    undo(&mut host, &mut journal, "asked");
    let text = std::fs::read_to_string(journal.path()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // From the announcement on; the change may have been made, or not.
    let announced = lines.iter().position(|line| line.contains("\"record\":\"step\"")).unwrap() + 1;
    for count in announced..=lines.len() {
        std::fs::write(journal.path(), lines[..count].concat()).unwrap();
        let mut journal = Journal::open(journal.path()).unwrap().unwrap();
        let undone = |step: &journal::JournalStep| step.undone;
        if journal.steps().iter().any(undone) {
            continue;
        }
        for changed in [false, true] {
            std::fs::write(journal.path(), lines[..count].concat()).unwrap();
            journal = Journal::open(journal.path()).unwrap().unwrap();
            let mut host = before.clone();
            if changed {
                host.write(&channels(), "combined=2").unwrap();
            }
            undo(&mut host, &mut journal, "crash");
            assert_as_before(&host, &before);
        }
    }
}

#[test]
fn refusals_of_a_driver_have_meanings() {
    for (wanted, refuses, said) in [
        (
            9,
            None,
            "write channels of eth0: the driver does not take it: it is beyond its limits, or a queue is in use (AF_XDP); everything is as it was before",
        ),
        (
            4,
            Some(Errno::BUSY),
            "write channels of eth0: the driver is busy: it is being reset, or XDP needs the queues that there are; everything is as it was before",
        ),
    ] {
        let scratch = Scratch::new("queues-refused");
        let (mut host, mut journal) = (Device { refuses, ..device(2) }, begin(&scratch));
        let failed = apply(&mut host, &queues(2, wanted), &mut journal).unwrap_err();
        assert_eq!(failed.to_string(), said);
    }
    let scratch = Scratch::new("queues-left");
    let (mut host, mut journal) = (Device { refuses: Some(Errno::OPNOTSUPP), ..device(2) }, begin(&scratch));
    let applied = apply(&mut host, &queues(2, 4), &mut journal).unwrap();
    assert_eq!(applied.left, [(channels(), "the driver cannot do this".to_owned())]);
}
