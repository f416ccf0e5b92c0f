//! A disk in memory that fails by rules, for tests of what uses a disk.
//!
//! ```
//! use flash::faulty::{Fault, FaultRule, MemoryDisk};
//! use flash::{AlignedBytes, Disk};
//!
//! let disk = MemoryDisk::new(1, 64 << 10, 7);
//! let mut bytes = AlignedBytes::zeroed(4096);
//! let rule = disk.fail(FaultRule::new(Fault::ReadError).range(8192..12288).times(1));
//! assert!(disk.read(0, 8192, &mut bytes).is_err(), "once");
//! assert!(disk.read(0, 8192, &mut bytes).is_ok());
//! assert_eq!(disk.strikes(rule), 1);
//! ```
//!
//! The same seed and the same calls in the same order give the same failures. With several threads the order is theirs.

mod draws;
mod platter;
mod rule;
#[cfg(test)]
mod tests;

use crate::disk::{Disk, assert_aligned, beyond_the_end, is_within, no_space_beyond_the_end, no_such_device};
use draws::Draws;
use platter::Platter;
use rule::{Access, SetRule};
pub use rule::{Fault, FaultRule, RuleNumber};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A test waits so long for calls that hang. Only a failure takes it.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Devices in memory, for tests. Everything can be changed at any time, by calls from any thread.
pub struct MemoryDisk {
    state: Mutex<State>,
    /// Calls begin or cease to hang, or may.
    changed: Condvar,
}

struct State {
    devices: Vec<MemoryDevice>,
    rules: Vec<SetRule>,
    draws: Draws,
}

struct MemoryDevice {
    platter: Platter,
    condition: Condition,
    /// How often it has been removed: a call that hangs does not survive that.
    removals: u64,
    /// Calls that hang.
    hanging: usize,
    counts: DiskCounts,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Works,
    Hangs,
    Removed,
}

/// How a device is after its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComesBack {
    /// All bytes are 0, as of another device in its place.
    Empty,
    /// With what had been written.
    WithContents,
}

/// Calls of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Reads, with those that fail or hang.
    pub reads: u64,
    /// Writes, with those that fail or hang.
    pub writes: u64,
    /// Bytes of reads that were reported as done.
    pub bytes_read: u64,
    /// Bytes of writes that were reported as done, be it true or not.
    pub bytes_written: u64,
    /// Reads and writes that were reported as failed.
    pub errors: u64,
}

impl MemoryDisk {
    /// So many devices of this size, whose bytes are all 0. A device takes memory as it is written.
    pub fn new(devices: usize, device_bytes: u64, seed: u64) -> MemoryDisk {
        let device = || MemoryDevice {
            platter: Platter::new(device_bytes),
            condition: Condition::Works,
            removals: 0,
            hanging: 0,
            counts: DiskCounts::default(),
        };
        let devices = (0..devices).map(|_| device()).collect();
        let state = State { devices, rules: Vec::new(), draws: Draws::new(seed) };
        MemoryDisk { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Sets a rule, which is in force from the next call on, beside all that are.
    pub fn fail(&self, rule: FaultRule) -> RuleNumber {
        let mut state = self.state();
        state.rules.push(SetRule::new(rule));
        RuleNumber(state.rules.len() - 1)
    }

    /// Ends a rule.
    pub fn end(&self, rule: RuleNumber) {
        self.state().rules[rule.0].end();
    }

    /// Ends all rules.
    pub fn end_all(&self) {
        self.state().rules.iter_mut().for_each(SetRule::end);
    }

    /// How often a rule has made a call fail.
    pub fn strikes(&self, rule: RuleNumber) -> u64 {
        self.state().rules[rule.0].strikes()
    }

    /// Flips so many bits of a range, as a device forgets what was written.
    pub fn flip_bits(&self, device: usize, range: Range<u64>, bits: u64) {
        let state = &mut *self.state();
        state.draws.flip_bits(state.devices[device].platter.bytes_mut(range), bits);
    }

    /// What a device has, whatever its condition is. This is not counted as a read.
    pub fn contents(&self, device: usize, range: Range<u64>) -> Vec<u8> {
        self.state().devices[device].platter.bytes(range).to_vec()
    }

    /// Changes what a device has, whatever its condition is: what an older write left, for example.
    pub fn set_contents(&self, device: usize, position: u64, bytes: &[u8]) {
        let range = position..position + bytes.len() as u64;
        self.state().devices[device].platter.bytes_mut(range).copy_from_slice(bytes);
    }

    /// Lets all later calls of a device block until [`MemoryDisk::release`], or until it is removed.
    ///
    /// # Panics
    /// If the device is removed.
    pub fn hang(&self, device: usize) {
        self.change(device, |condition| {
            assert!(condition != Condition::Removed, "device {device} is removed: its calls fail");
            Condition::Hangs
        });
    }

    /// Lets a device's calls go on. Those that hang are carried out now.
    pub fn release(&self, device: usize) {
        self.change(device, |condition| match condition {
            Condition::Hangs => Condition::Works,
            other => other,
        });
    }

    /// Blocks until so many calls of a device hang.
    ///
    /// # Panics
    /// After a minute.
    pub fn wait_for_hanging(&self, device: usize, calls: usize) {
        let too_few = |state: &mut State| state.devices[device].hanging < calls;
        let (state, timeout) = self
            .changed
            .wait_timeout_while(self.state(), WAIT_MAX, too_few)
            .unwrap_or_else(PoisonError::into_inner);
        let hanging = state.devices[device].hanging;
        drop(state);
        assert!(!timeout.timed_out(), "{hanging} calls of device {device} hang, not {calls}");
    }

    /// Takes a device away: all its calls fail with `ENXIO`, those that hang, too.
    pub fn remove(&self, device: usize) {
        self.state().devices[device].removals += 1;
        self.change(device, |_| Condition::Removed);
    }

    /// Brings a device back.
    pub fn bring_back(&self, device: usize, how: ComesBack) {
        if how == ComesBack::Empty {
            self.state().devices[device].platter.clear();
        }
        self.change(device, |_| Condition::Works);
    }

    /// The calls of a device so far.
    pub fn counts(&self, device: usize) -> DiskCounts {
        self.state().devices[device].counts
    }

    fn change(&self, device: usize, to: impl FnOnce(Condition) -> Condition) {
        let condition = &mut self.state().devices[device].condition;
        *condition = to(*condition);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that fails in one thread may look at the disk in another.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, lets it hang, and carries it out with the device that is there then.
    fn call(
        &self,
        device: usize,
        access: Access,
        len: usize,
        carry_out: impl FnOnce(&mut State) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = self.state();
        state.devices.get_mut(device).ok_or_else(no_such_device)?.counts.begin(access);
        let (mut state, is_there) = self.until_it_works(state, device);
        let result = if is_there { carry_out(&mut state) } else { Err(Errno::NXIO.into()) };
        state.devices[device].counts.end(access, len, result.is_ok());
        result
    }

    /// Waits while the device hangs. Returns whether it is still there.
    fn until_it_works<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        device: usize,
    ) -> (MutexGuard<'s, State>, bool) {
        let removals = state.devices[device].removals;
        let hangs = |state: &mut State| {
            let device = &state.devices[device];
            device.condition == Condition::Hangs && device.removals == removals
        };
        if hangs(&mut state) {
            state.devices[device].hanging += 1;
            self.changed.notify_all();
            state = self.changed.wait_while(state, hangs).unwrap_or_else(PoisonError::into_inner);
            state.devices[device].hanging -= 1;
        }
        let now = &state.devices[device];
        let is_there = now.condition != Condition::Removed && now.removals == removals;
        (state, is_there)
    }
}

impl Disk for MemoryDisk {
    fn read(&self, device: usize, position: u64, bytes: &mut [u8]) -> io::Result<()> {
        assert_aligned(position, bytes);
        self.call(device, Access::Read, bytes.len(), |state| state.read(device, position, bytes))
    }

    fn write(&self, device: usize, position: u64, bytes: &[u8]) -> io::Result<()> {
        assert_aligned(position, bytes);
        self.call(device, Access::Write, bytes.len(), |state| state.write(device, position, bytes))
    }
}

impl State {
    fn read(&mut self, device: usize, position: u64, bytes: &mut [u8]) -> io::Result<()> {
        let State { devices, rules, draws } = self;
        let platter = &devices[device].platter;
        if !is_within(position, bytes.len(), platter.len()) {
            return Err(beyond_the_end());
        }
        let range = position..position + bytes.len() as u64;
        bytes.copy_from_slice(platter.bytes(range.clone()));
        for (fault, struck) in rule::strike(rules, draws, Access::Read, device, &range) {
            match fault {
                Fault::FlippedRead { bits } => {
                    let struck = (struck.start - position) as usize..(struck.end - position) as usize;
                    draws.flip_bits(&mut bytes[struck], bits);
                }
                _ => {
                    // A test that uses what a failed read has left should notice.
                    bytes.fill(0xa5);
                    return Err(Errno::IO.into());
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, device: usize, position: u64, bytes: &[u8]) -> io::Result<()> {
        let State { devices, rules, draws } = self;
        let platter = &mut devices[device].platter;
        if !is_within(position, bytes.len(), platter.len()) {
            return Err(no_space_beyond_the_end());
        }
        let range = position..position + bytes.len() as u64;
        let mut sectors = platter::Sectors::all(&range);
        let mut result = Ok(());
        for (fault, struck) in rule::strike(rules, draws, Access::Write, device, &range) {
            match fault {
                Fault::LostWrite => sectors.lose(&struck),
                Fault::TornWrite | Fault::FailedTornWrite => sectors.tear(&struck, draws),
                _ => sectors.lose(&range),
            }
            if matches!(fault, Fault::WriteError | Fault::FailedTornWrite) {
                result = Err(Errno::IO.into());
            }
        }
        platter.write(position, bytes, &sectors);
        result
    }
}

impl DiskCounts {
    fn begin(&mut self, access: Access) {
        match access {
            Access::Read => self.reads += 1,
            Access::Write => self.writes += 1,
        }
    }

    fn end(&mut self, access: Access, len: usize, is_done: bool) {
        match (is_done, access) {
            (false, _) => self.errors += 1,
            (true, Access::Read) => self.bytes_read += len as u64,
            (true, Access::Write) => self.bytes_written += len as u64,
        }
    }
}

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryDisk({} devices)", self.state().devices.len())
    }
}
