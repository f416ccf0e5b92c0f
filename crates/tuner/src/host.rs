//! The seam between what is decided and the host that it is done to.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::time::Duration;

use rustix::io::Errno;

use crate::change::Setting;
use crate::cpu_set::CpuSet;
use crate::root::Root;
use crate::scheduling;

/// Longest wait for one read or write. The kernel answers in microseconds, but waits for the network's lock, which a
/// driver may hold for seconds while it resets a device.
const STEP_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest value of any setting.
const VALUE_LEN_MAX: u64 = 64 * 1024;

/// Something with settings.
pub trait Host {
    /// The text of a setting, byte for byte.
    fn read(&self, setting: &Setting) -> io::Result<String>;

    /// Writes a text.
    fn write(&mut self, setting: &Setting, text: &str) -> io::Result<()>;

    /// How often an interrupt has come, and which CPUs take it.
    fn interrupt(&self, irq: u32) -> io::Result<(u64, CpuSet)>;
}

/// This host, or a captured one.
#[derive(Clone, Debug)]
pub struct FileHost(Root);

impl FileHost {
    /// The host at a root.
    pub fn new(root: Root) -> FileHost {
        FileHost(root)
    }
}

impl Host for FileHost {
    fn read(&self, setting: &Setting) -> io::Result<String> {
        match setting {
            Setting::Thread { tid } => scheduling::read(*tid).map(|scheduling| scheduling.to_string()),
            Setting::File { path, .. } => {
                let path = self.0.path(path);
                in_time(move || {
                    let mut text = String::new();
                    std::fs::File::open(path)?.take(VALUE_LEN_MAX).read_to_string(&mut text)?;
                    Ok(text)
                })
            }
        }
    }

    fn write(&mut self, setting: &Setting, text: &str) -> io::Result<()> {
        match setting {
            Setting::Thread { tid } => {
                let wanted = text.parse().map_err(|_| io::Error::from(Errno::INVAL))?;
                scheduling::write(*tid, &wanted)
            }
            Setting::File { path, .. } => {
                let (path, text) = (self.0.path(path), text.to_owned());
                // One write, because the kernel takes each for a whole value; never a new file.
                in_time(move || {
                    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
                    match file.write(text.as_bytes())? {
                        len if len == text.len() => Ok(()),
                        _ => Err(io::ErrorKind::WriteZero.into()),
                    }
                })
            }
        }
    }

    fn interrupt(&self, irq: u32) -> io::Result<(u64, CpuSet)> {
        let read = |path: String| self.0.read(&path).map_err(io::Error::other);
        let counts = read(format!("/sys/kernel/irq/{irq}/per_cpu_count"))?.unwrap_or_default();
        let count = counts.split(',').filter_map(|count| count.trim().parse::<u64>().ok()).sum();
        let effective = read(format!("/proc/irq/{irq}/effective_affinity"))?.unwrap_or_default();
        Ok((count, CpuSet::parse_mask(&effective).unwrap_or_default()))
    }
}

/// Does it on a thread of its own, which is left behind if it takes too long: a system call that hangs cannot be called
/// back.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new().name("setting".into()).spawn(move || {
        // Nobody listens any more if it was too late.
        let _ = sender.send(work());
    })?;
    receiver.recv_timeout(STEP_TIME_MAX).unwrap_or_else(|_| Err(Errno::TIMEDOUT.into()))
}
