//! Host access for plans: reading settings, writing them, and waiting for their effect.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::apply::undoable::other_unit;
use crate::observe::ethtool::{self, Knob};
use crate::observe::irqbalance;
use crate::observe::napi;
use crate::observe::probe;
use crate::observe::root::Root;
use crate::observe::scheduling;
use crate::plan::change::Setting;
use os::CpuSet;
use os::process_stat::{ProcessStat, field};

/// Longest wait for one read or write. The kernel answers in microseconds, but waits for the network's lock, which a
/// driver may hold for seconds while it resets a device.
const STEP_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest value of any setting.
const VALUE_LEN_MAX: u64 = 64 * 1024;

/// A host with settings.
pub trait HostAccess {
    /// The text of a setting, byte for byte.
    fn read(&self, setting: &Setting) -> io::Result<String>;

    /// Writes a text.
    fn write(&mut self, setting: &Setting, text: &str) -> io::Result<()>;

    /// The count of an interrupt's arrivals, and the CPUs that take it.
    fn interrupt(&self, irq: u32) -> io::Result<(u64, CpuSet)>;

    /// Settings that the kernel or a driver sets anew when this one is written.
    fn reset_by(&self, setting: &Setting) -> Vec<Setting>;

    /// Identity of the interrupt or thread of a setting, where the setting names it by a number that is used again
    /// when it has gone.
    fn identity(&self, _setting: &Setting) -> Option<String> {
        None
    }

    /// The kernel's number for an interface, which it keeps when it is renamed.
    fn interface(&self, _nic: &str) -> Option<u32> {
        None
    }

    /// The name that an interface has now.
    fn interface_name(&self, _number: u32) -> Option<String> {
        None
    }

    /// The other threads of a thread's process.
    fn others(&self, _tid: u32) -> io::Result<Vec<u32>> {
        Ok(Vec::new())
    }

    /// The kernel's form of a text.
    fn taken(&self, _setting: &Setting, text: &str) -> String {
        text.to_owned()
    }
}

/// This host, or a captured one.
#[derive(Clone, Debug)]
pub struct FileHost {
    root: Root,
    step_time_max: Duration,
}

impl FileHost {
    /// The host at a root.
    pub fn new(root: Root) -> FileHost {
        FileHost { root, step_time_max: STEP_TIME_MAX }
    }
}

impl HostAccess for FileHost {
    fn read(&self, setting: &Setting) -> io::Result<String> {
        match setting {
            Setting::Thread { tid } => scheduling::read(*tid).map(|scheduling| scheduling.to_string()),
            Setting::File { path, .. } => self.read_file(path),
            Setting::Interrupt { nic, handler } => self.read_file(&self.affinity(nic, handler)?),
            Setting::Device { nic, knob } => {
                self.live()?;
                let (nic, knob) = (nic.clone(), *knob);
                self.in_time(move || ethtool::read(&nic, knob).map(|parameters| parameters.to_string()))
            }
            Setting::Napi { nic, number } => {
                self.live()?;
                let (root, nic, number) = (self.root.clone(), nic.clone(), *number);
                self.in_time(move || napi::read(&root, &nic, number).map(|deferral| deferral.to_string()))
            }
            Setting::Irqbalance { pid } => {
                self.live()?;
                irqbalance::banned(*pid).map(|irqs| irqbalance::list(&irqs))
            }
            Setting::Listener { socket, limit } => {
                self.live()?;
                let (socket, limit) = (socket.clone(), *limit);
                self.in_time(move || socket.read(limit).map(|connections| connections.to_string()))
            }
        }
    }

    fn write(&mut self, setting: &Setting, text: &str) -> io::Result<()> {
        match setting {
            Setting::Thread { tid } => {
                let wanted = text.parse().map_err(|_| io::Error::from(Errno::INVAL))?;
                scheduling::write(*tid, &wanted)
            }
            Setting::File { path, .. } => self.write_file(path, text),
            Setting::Interrupt { nic, handler } => self.write_file(&self.affinity(nic, handler)?, text),
            Setting::Device { nic, knob } => {
                self.live()?;
                let wanted = knob.parse(text).map_err(|_| io::Error::from(Errno::INVAL))?;
                let (nic, knob) = (nic.clone(), *knob);
                self.in_time(move || ethtool::write(&nic, knob, &wanted))
            }
            Setting::Napi { nic, number } => {
                self.live()?;
                let wanted = text.parse().map_err(|_| io::Error::from(Errno::INVAL))?;
                let (root, nic, number) = (self.root.clone(), nic.clone(), *number);
                self.in_time(move || napi::write(&root, &nic, number, wanted))
            }
            Setting::Irqbalance { pid } => {
                self.live()?;
                let irqs: Result<_, _> = text.split_whitespace().map(str::parse).collect();
                irqbalance::ban(*pid, &irqs.map_err(|_| io::Error::from(Errno::INVAL))?)
            }
            Setting::Listener { socket, limit } => {
                self.live()?;
                let connections = text.trim().parse().map_err(|_| io::Error::from(Errno::INVAL))?;
                let (socket, limit) = (socket.clone(), *limit);
                self.in_time(move || socket.write(limit, connections))
            }
        }
    }

    fn interrupt(&self, irq: u32) -> io::Result<(u64, CpuSet)> {
        let read = |path: String| self.root.read(&path).map_err(io::Error::other);
        let counts = read(format!("/sys/kernel/irq/{irq}/per_cpu_count"))?.unwrap_or_default();
        let count = counts.split(',').filter_map(|count| count.trim().parse::<u64>().ok()).sum();
        let effective = read(format!("/proc/irq/{irq}/effective_affinity"))?.unwrap_or_default();
        Ok((count, CpuSet::parse_mask(&effective).unwrap_or_default()))
    }

    fn interface(&self, nic: &str) -> Option<u32> {
        self.root.value(&format!("/sys/class/net/{nic}/ifindex"), "a number").ok()?
    }

    fn interface_name(&self, number: u32) -> Option<String> {
        let names = self.root.names("/sys/class/net").ok()?;
        names.into_iter().find(|name| self.interface(name) == Some(number))
    }

    fn others(&self, tid: u32) -> io::Result<Vec<u32>> {
        self.live()?;
        scheduling::others(tid)
    }

    /// Isolated CPUs are taken out of the masks of receive queues since Linux 5.9 (net-sysfs.c,
    /// `rps_cpumask_housekeeping`); before, packets would disturb them. A mask of these alone is refused there, and
    /// must not become one of none, which would switch steering off.
    fn taken(&self, setting: &Setting, text: &str) -> String {
        let Some(Ok(mask)) = setting.is_receive_steering().then(|| CpuSet::parse_mask(text)) else {
            return text.to_owned();
        };
        let left = mask.without(&probe::isolated_cpus(&self.root));
        if left.is_empty() || left == mask { text.to_owned() } else { left.mask() }
    }

    fn reset_by(&self, setting: &Setting) -> Vec<Setting> {
        if let Setting::File { path, holds } = setting {
            let other = other_unit(path).map(|path| Setting::File { path: path.to_owned(), holds: *holds });
            return other.into_iter().chain(self.napis_below(path)).collect();
        }
        let Setting::Device { nic, knob: Knob::Channels | Knob::Rings } = setting else { return Vec::new() };
        let queues = format!("/sys/class/net/{nic}/queues");
        let names = self.root.names(&queues).unwrap_or_default();
        let files = names.iter().flat_map(|queue| {
            let file = |name| format!("{queues}/{queue}/{name}");
            match queue.starts_with("rx-") {
                true => [Setting::mask(file("rps_cpus")), Setting::number(file("rps_flow_cnt"))],
                false => [Setting::mask(file("xps_cpus")), Setting::mask(file("xps_rxqs"))],
            }
        });
        let mut handlers: Vec<String> =
            probe::handlers_of(&self.root, nic).into_iter().map(|(_, handler)| handler).collect();
        handlers.sort();
        // If several interrupts have this name, it does not identify one.
        let unique = handlers.chunk_by(|one, other| one == other).filter(|same| same.len() == 1).flatten();
        let interrupts =
            unique.map(|handler| Setting::Interrupt { nic: nic.clone(), handler: handler.clone() });
        files.chain(interrupts).chain(self.napis(nic)).collect()
    }

    fn identity(&self, setting: &Setting) -> Option<String> {
        let read = |path: String| self.root.read(&path).ok().flatten().filter(|text| !text.is_empty());
        if let Setting::Thread { tid } = setting {
            let stat = read(format!("/proc/{tid}/stat"))?;
            let started: u64 = ProcessStat::parse(&stat)?.field(field::STARTED)?;
            return Some(format!("begun {started}"));
        }
        read(format!("/sys/kernel/irq/{}/actions", setting.irq()?))
    }
}

impl FileHost {
    /// NAPIs that this file of their interface sets, all at once.
    fn napis_below(&self, path: &str) -> Vec<Setting> {
        let rest = path.strip_prefix("/sys/class/net/").and_then(|path| path.split_once('/'));
        match rest {
            Some((nic, "gro_flush_timeout" | "napi_defer_hard_irqs")) => self.napis(nic),
            _ => Vec::new(),
        }
    }

    fn napis(&self, nic: &str) -> Vec<Setting> {
        let numbers = napi::napis(&self.root, nic).into_keys();
        numbers.map(|number| Setting::Napi { nic: nic.to_owned(), number }).collect()
    }

    /// A setting without a file exists on this host alone.
    fn live(&self) -> io::Result<()> {
        if self.root.is_live() { Ok(()) } else { Err(Errno::OPNOTSUPP.into()) }
    }

    /// The file with the affinity of the interrupt that has this handler now.
    fn affinity(&self, nic: &str, handler: &str) -> io::Result<String> {
        let handlers = probe::handlers_of(&self.root, nic);
        let irq = handlers.into_iter().find(|(_, name)| name == handler).map(|(irq, _)| irq);
        irq.map(|irq| format!("/proc/irq/{irq}/smp_affinity")).ok_or(Errno::NOENT.into())
    }

    /// Does it on a thread of its own, which is abandoned if it takes too long: a system call that hangs cannot be
    /// cancelled. Where no thread can be started (a cgroup's limit on tasks), rollback is more important than the
    /// time limit.
    fn in_time<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (sender, receiver) = mpsc::channel();
        // A failed start does not return the closure.
        let work = Arc::new(Mutex::new(Some(work)));
        let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let its = Arc::clone(&work);
        let started = std::thread::Builder::new().name("setting".into()).spawn(move || {
            if let Some(work) = take(&its) {
                // The receiver is gone if it was too late.
                let _ = sender.send(work());
            }
        });
        match started {
            Ok(_) => {
                receiver.recv_timeout(self.step_time_max).unwrap_or_else(|_| Err(Errno::TIMEDOUT.into()))
            }
            Err(error) => take(&work).map_or(Err(error), |work| work()),
        }
    }

    fn read_file(&self, path: &str) -> io::Result<String> {
        let (root, path) = (self.root.clone(), path.to_owned());
        self.in_time(move || {
            let mut text = String::new();
            root.open(&path, OFlags::RDONLY)?.take(VALUE_LEN_MAX).read_to_string(&mut text)?;
            Ok(text)
        })
    }

    fn write_file(&self, path: &str, text: &str) -> io::Result<()> {
        let (root, path, text) = (self.root.clone(), path.to_owned(), text.to_owned());
        // One write, because the kernel takes each for a whole value; never a new file.
        self.in_time(move || {
            let mut file = root.open(&path, OFlags::WRONLY | OFlags::TRUNC)?;
            match file.write(text.as_bytes())? {
                len if len == text.len() => Ok(()),
                _ => Err(io::ErrorKind::WriteZero.into()),
            }
        })
    }
}

/// Whether two identities are of the same one. Devices that share an interrupt come and go independently.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.split(',').any(|handler| other.split(',').any(|other| other.trim() == handler.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::apply;
    use crate::apply::journal::{BootAndNamespace, Journals};
    use crate::apply::rollback::{StepOutcome, undo};
    use crate::observe::shapes::Scratch;
    use crate::plan::change::{Change, Risk, Stage};

    /// Moves an interrupt of eth0, lets its number be this handler's, and undoes it.
    #[track_caller]
    fn check(handler_then: &str, outcome: StepOutcome, affinity: &str) {
        let scratch = Scratch::new(&format!("identity-{handler_then}"));
        let file = |path: &str| scratch.path().join(path);
        for directory in ["proc/irq/38", "sys/kernel/irq/38"] {
            std::fs::create_dir_all(file(directory)).unwrap();
        }
        let handler = |name: &str| std::fs::write(file("sys/kernel/irq/38/actions"), name).unwrap();
        handler("eth0-rx-0\n");
        std::fs::write(file("proc/irq/38/smp_affinity"), "f\n").unwrap();
        let setting = Setting::mask("/proc/irq/38/smp_affinity");
        let change = Change {
            stage: Stage::Affinity,
            setting: setting.clone(),
            now: "f".into(),
            wanted: "2".into(),
            why: String::new(),
            asked_by: String::new(),
            risk: Risk::Low,
            signal: Default::default(),
        };
        let mut host = FileHost::new(Root::new(scratch.path()));
        let journals = Journals::new(file("state"));
        let place = BootAndNamespace { boot_id: "b".into(), network: None };
        let mut journal = journals.begin(&place, 0, None).unwrap();
        apply(&mut host, &[change], &mut journal).unwrap();
        handler(handler_then);
        let mut journal = journals.all().unwrap().remove(0);
        assert_eq!(journal.steps()[0].identity.as_deref(), Some("eth0-rx-0"));
        assert_eq!(undo(&mut host, &mut journal, "asked").steps, [(setting, outcome)]);
        assert_eq!(std::fs::read_to_string(file("proc/irq/38/smp_affinity")).unwrap(), affinity);
    }

    #[test]
    fn an_interrupts_affinity_is_restored_unless_its_number_is_another_ones() {
        check("eth0-rx-0", StepOutcome::Restored, "f\n");
        check("usb1,eth0-rx-0", StepOutcome::Restored, "f\n");
        check("nvme0q1", StepOutcome::Vanished, "2");
        // The interface is down: it still has its interrupt, and no handler.
        check("", StepOutcome::Restored, "f\n");
    }

    /// What is in the file of a receive queue's mask after it was applied.
    #[track_caller]
    fn check_steering(isolated: &str, nohz_full: &str, mask: &str, wanted: &str) {
        let scratch = Scratch::new(&format!("steering-{isolated}-{nohz_full}-{mask}"));
        let file = |path: &str, text: &str| {
            let path = scratch.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file("sys/devices/system/cpu/isolated", isolated);
        file("sys/devices/system/cpu/nohz_full", nohz_full);
        file("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n");
        let change = Change {
            stage: Stage::Steering,
            setting: Setting::mask("/sys/class/net/eth0/queues/rx-0/rps_cpus"),
            now: "0".into(),
            wanted: mask.into(),
            why: String::new(),
            asked_by: String::new(),
            risk: Risk::Low,
            signal: Default::default(),
        };
        let mut host = FileHost::new(Root::new(scratch.path()));
        let place = BootAndNamespace { boot_id: "b".into(), network: None };
        let mut journal = Journals::new(scratch.path().join("state")).begin(&place, 0, None).unwrap();
        apply(&mut host, std::slice::from_ref(&change), &mut journal).unwrap();
        assert_eq!(host.read(&change.setting).unwrap(), wanted);
        assert_eq!(journal.steps()[0].wanted, wanted, "what status and rollback compare with");
    }

    #[test]
    fn isolated_cpus_are_taken_out_of_a_receive_queues_mask_before_it_is_written_and_compared() {
        check_steering("", "(null)", "fe", "fe");
        check_steering("2-3", "", "fe", "f2");
        check_steering("2", "4-5", "fe", "ca");
        // The kernel refuses a mask of isolated CPUs alone; one of none would switch steering off.
        check_steering("0-7", "", "fe", "fe");
    }

    #[test]
    fn a_thread_is_known_by_when_it_began() {
        let host = FileHost::new(Root::new("/"));
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let identity = host.identity(&Setting::Thread { tid });
        assert!(identity.as_ref().is_some_and(|identity| identity.starts_with("begun ")), "{identity:?}");
        let later = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get() as u32);
        assert!(later.join().unwrap() != tid);
        assert_eq!(host.identity(&Setting::Thread { tid }), identity);
    }

    fn interrupt(scratch: &Scratch, irq: u32, handler: &str, affinity: &str) {
        let write = |path: String, text: &str| {
            let path = scratch.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(format!("sys/class/net/eth0/device/msi_irqs/{irq}"), "msix");
        write(format!("sys/kernel/irq/{irq}/actions"), handler);
        write(format!("proc/irq/{irq}/smp_affinity"), affinity);
    }

    #[test]
    fn an_interrupt_is_found_by_its_handler_under_another_number() {
        let scratch = Scratch::new("host-handler");
        interrupt(&scratch, 40, "eth0-TxRx-0", "1\n");
        interrupt(&scratch, 41, "eth0-TxRx-1", "2\n");
        let mut host = FileHost::new(Root::new(scratch.path()));
        let second = Setting::Interrupt { nic: "eth0".into(), handler: "eth0-TxRx-1".into() };
        assert_eq!(host.read(&second).unwrap(), "2\n");
        std::fs::write(scratch.path().join("sys/kernel/irq/41/actions"), "").unwrap();
        assert_eq!(Errno::from_io_error(&host.read(&second).unwrap_err()), Some(Errno::NOENT));
        interrupt(&scratch, 57, "eth0-TxRx-1", "f\n");
        host.write(&second, "2").unwrap();
        assert_eq!(std::fs::read_to_string(scratch.path().join("proc/irq/57/smp_affinity")).unwrap(), "2");
    }

    #[test]
    fn new_queues_reset_their_steering_and_their_interrupts() {
        let scratch = Scratch::new("host-reset");
        interrupt(&scratch, 40, "eth0-TxRx-0", "1\n");
        interrupt(&scratch, 41, "eth0-misc", "2\n");
        interrupt(&scratch, 42, "eth0-misc", "2\n");
        for queue in ["rx-0", "tx-0"] {
            std::fs::create_dir_all(scratch.path().join("sys/class/net/eth0/queues").join(queue)).unwrap();
        }
        let host = FileHost::new(Root::new(scratch.path()));
        let device = |knob| Setting::Device { nic: "eth0".into(), knob };
        let reset: Vec<String> =
            host.reset_by(&device(Knob::Channels)).iter().map(Setting::to_string).collect();
        let file = |name: &str| format!("/sys/class/net/eth0/queues/{name}");
        let wanted = [
            file("rx-0/rps_cpus"),
            file("rx-0/rps_flow_cnt"),
            file("tx-0/xps_cpus"),
            file("tx-0/xps_rxqs"),
            "affinity of eth0-TxRx-0 of eth0".to_owned(),
        ];
        assert_eq!(reset, wanted);
        assert!(host.reset_by(&device(Knob::Coalescing)).is_empty());
        // A captured host has no drivers, and this one is not meant.
        let error = host.read(&device(Knob::Channels)).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::OPNOTSUPP));
    }

    /// Row 19 of the failures in `tests/hosts`: a write that never returns (NTO #286).
    #[test]
    fn a_write_that_hangs_undoes_the_plan_and_leaves_what_rollback_can_finish() {
        let scratch = Scratch::new("host-hangs");
        const FILE: &str = "proc/sys/net/core/somaxconn";
        const PIPE: &str = "proc/sys/net/core/busy_read";
        let pipe = scratch.path().join(PIPE);
        std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        std::fs::write(scratch.path().join(FILE), "0\n").unwrap();
        let change = |path: &str| Change {
            stage: Stage::Sysctl,
            setting: Setting::number(format!("/{path}")),
            now: "0".into(),
            wanted: "1".into(),
            why: String::new(),
            asked_by: String::new(),
            risk: Risk::Low,
            signal: Default::default(),
        };
        // Answers the one read before the write: a write to a pipe without a reader blocks.
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::write(pipe, "0\n").unwrap()
        });
        let mut host =
            FileHost { step_time_max: Duration::from_secs(2), ..FileHost::new(Root::new(scratch.path())) };
        let journals = Journals::new(scratch.path().join("state"));
        let place = BootAndNamespace { boot_id: "b".into(), network: None };
        let mut journal = journals.begin(&place, 0, None).unwrap();
        let failed = apply(&mut host, &[change(FILE), change(PIPE)], &mut journal).unwrap_err();
        writer.join().unwrap();
        assert_eq!(failed.error.to_string(), format!("write /{PIPE}: no answer in 10 s"));
        assert!(!failed.undone.is_whole(), "the pipe does not answer either when it is to be undone");
        assert_eq!(std::fs::read_to_string(scratch.path().join(FILE)).unwrap(), "0\n");
        // It answers again, with the value that came too late.
        std::fs::rename(&pipe, scratch.path().join("gone")).unwrap();
        std::fs::write(&pipe, "1\n").unwrap();
        let mut journal = journals.all().unwrap().remove(0);
        assert!(undo(&mut host, &mut journal, "asked").is_whole());
        assert_eq!(std::fs::read_to_string(&pipe).unwrap(), "0\n");
    }
}
