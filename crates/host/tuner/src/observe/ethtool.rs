//! Driver parameters, as ethtool reads them: name, channels, rings and driver counters.
//!
//! `unsafe` for the one system call that has no file and no safe wrapper: `SIOCETHTOOL`. A captured host has the answers
//! in `ethtool.json` beside /proc and /sys: a map of interfaces to [`DriverParameters`]s.

mod knob;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;

use rustix::fd::OwnedFd;
use rustix::io::{Errno, Result};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde::{Deserialize, Serialize};

use crate::observe::facts::{Channels, Coalescing};
use crate::observe::root::Root;
pub use knob::{Knob, Parameters};

/// A driver's answers about one interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriverParameters {
    /// `ena`, `veth`…
    pub driver: Option<String>,
    /// Receive queues in use.
    pub channels: Option<u32>,
    /// The maximum.
    pub channels_max: Option<u32>,
    /// Queues by kind.
    pub channel_kinds: Option<Channels>,
    /// Receive descriptors now and at most.
    pub rx_ring: Option<(u32, u32)>,
    /// Transmit descriptors now and at most.
    pub tx_ring: Option<(u32, u32)>,
    /// Interrupt coalescing.
    pub coalescing: Option<Coalescing>,
    /// Offloads, and whether they are on: `gro`, `lro`, `tso`, `ntuple`, `rxhash`.
    pub features: BTreeMap<String, bool>,
    /// Hash values by receive queue.
    pub rss: BTreeMap<u32, u32>,
    /// Its own counters: `bw_in_allowance_exceeded`.
    pub statistics: BTreeMap<String, u64>,
}

/// `SIOCETHTOOL` of sockios.h.
const SIOCETHTOOL: Opcode = 0x8946;
/// Reading commands of ethtool.h; [`Knob`] has others.
const GDRVINFO: u32 = 0x03;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GSSET_INFO: u32 = 0x37;
const GRXFHINDIR: u32 = 0x38;
/// Offloads: each one's name, the command that reads it, and its bits in the answer (`ETH_FLAG_LRO`, `_NTUPLE` and
/// `_RXHASH` of ethtool.h).
const FEATURES: [(&str, u32, u32); 5] = [
    ("gro", 0x2b, u32::MAX),
    ("tso", 0x1e, u32::MAX),
    ("lro", 0x25, 1 << 15),
    ("ntuple", 0x25, 1 << 27),
    ("rxhash", 0x25, 1 << 28),
];
/// Longest indirection table that is read; the largest known have some thousand entries.
const INDIRECTIONS_MAX: usize = 1 << 16;
/// `ETH_SS_STATS`: the set of names of counters.
const SET_STATISTICS: u32 = 1;
/// `ETH_GSTRING_LEN`.
const NAME_LEN: usize = 32;
/// `IFNAMSIZ`, the final zero included.
const NIC_NAME_LEN: usize = 16;

/// The counters of a driver with more are not read. The largest known (mlx5 with 128 channels) has about 10,000.
const COUNTERS_MAX: usize = 1 << 14;
/// Room in the answer. The kernel copies as many as there are by then, whatever the caller has room for, and channels
/// may be added between the question how many there are and the question for them: room for four times as many.
const COUNTERS_ROOM: usize = 4 * COUNTERS_MAX;

/// Words of the longest command, which is that for coalescing: 23, and one more.
const COMMAND_WORDS: usize = 24;

/// Words of the longest answer, which is that to `GSTRINGS`: three words before the names.
const ANSWER_WORDS: usize = 4 + COUNTERS_ROOM * NAME_LEN / 4;

/// The parameters of each interface without counters: of this host from its drivers, of a captured one from the file.
pub(crate) fn drivers(
    root: &Root,
    nics: &[&str],
) -> std::result::Result<BTreeMap<String, DriverParameters>, String> {
    each(root, nics, Asker::driver)
}

/// The counters of each interface's driver. Reading them is cheap for a driver; the rest may need a query of its
/// firmware.
pub(crate) fn statistics(
    root: &Root,
    nics: &[&str],
) -> std::result::Result<BTreeMap<String, BTreeMap<String, u64>>, String> {
    let ask = |asker: &mut Asker, nic: &str| DriverParameters {
        statistics: asker.statistics(nic).unwrap_or_default(),
        ..DriverParameters::default()
    };
    let drivers = each(root, nics, ask)?.into_iter();
    Ok(drivers.map(|(nic, driver)| (nic, driver.statistics)).collect())
}

fn each(
    root: &Root,
    nics: &[&str],
    ask: impl Fn(&mut Asker, &str) -> DriverParameters,
) -> std::result::Result<BTreeMap<String, DriverParameters>, String> {
    if !root.is_live() {
        let text = root.read("/ethtool.json").map_err(|error| error.to_string())?;
        let text = text.ok_or("the captured host has no ethtool.json")?;
        return serde_json::from_str(&text).map_err(|error| format!("ethtool.json: {error}"));
    }
    let mut asker = Asker::new().map_err(|errno| errno.to_string())?;
    Ok(nics.iter().map(|nic| ((*nic).to_owned(), ask(&mut asker, nic))).collect())
}

/// The present value of a knob.
pub(crate) fn read(nic: &str, knob: Knob) -> io::Result<Parameters> {
    let mut asker = Asker::new()?;
    Ok(Parameters::of(knob, asker.ask(nic, knob.commands().0, &[])?))
}

/// Sets the named parameters; everything else in the structure keeps the driver's value.
pub(crate) fn write(nic: &str, knob: Knob, wanted: &Parameters) -> io::Result<()> {
    let (get, set) = knob.commands();
    let mut asker = Asker::new()?;
    let mut words = asker.ask(nic, get, &[])?[1..COMMAND_WORDS].to_vec();
    for (name, place) in knob.words() {
        if let Some(value) = wanted.0.get(name) {
            words[place - 1] = *value;
        }
    }
    asker.ask(nic, set, &words)?;
    Ok(())
}

/// A socket for the calls, and room for answers.
struct Asker {
    socket: OwnedFd,
    /// Begins with the command. Zeroed pages that are never touched cost nothing.
    answer: Vec<u32>,
}

impl Asker {
    fn new() -> Result<Asker> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Asker { socket, answer: vec![0; ANSWER_WORDS] })
    }

    /// Parameters that a driver does not support (`EOPNOTSUPP`) are left out.
    fn driver(&mut self, nic: &str) -> DriverParameters {
        let channels = self.ask(nic, Knob::Channels.commands().0, &[]).map(|words| {
            let [_, rx_max, tx_max, _, combined_max, rx, tx, _, combined] = first(words);
            Channels { rx: (rx, rx_max), tx: (tx, tx_max), combined: (combined, combined_max) }
        });
        let kinds = channels.ok();
        let rings = self.ask(nic, Knob::Rings.commands().0, &[]).map(|words| {
            let [_, rx_max, _, _, tx_max, rx, _, _, tx] = first(words);
            [(rx, rx_max), (tx, tx_max)]
        });
        let ring = |direction: usize| rings.ok().map(|rings| rings[direction]).filter(|(_, max)| *max > 0);
        let coalescing = self.ask(nic, Knob::Coalescing.commands().0, &[]).map(|words| Coalescing {
            adaptive_rx: words[10] != 0,
            adaptive_tx: words[11] != 0,
            rx_usecs: words[1],
            tx_usecs: words[5],
        });
        DriverParameters {
            driver: self.ask(nic, GDRVINFO, &[]).ok().map(|words| text(&words[1..1 + NAME_LEN / 4])),
            channels: kinds.map(|kinds| kinds.rx.0 + kinds.combined.0),
            channels_max: kinds.map(|kinds| kinds.rx.1.max(kinds.combined.1)),
            channel_kinds: kinds,
            rx_ring: ring(0),
            tx_ring: ring(1),
            coalescing: coalescing.ok(),
            features: self.features(nic),
            rss: self.indirection(nic).unwrap_or_default(),
            statistics: BTreeMap::new(),
        }
    }

    /// Whether offloads are on, one call each: that works on kernels without names of features, too.
    fn features(&mut self, nic: &str) -> BTreeMap<String, bool> {
        FEATURES
            .iter()
            .filter_map(|(name, command, bits)| {
                let words = self.ask(nic, *command, &[]).ok()?;
                Some(((*name).to_owned(), words[1] & bits != 0))
            })
            .collect()
    }

    /// The number of hash values of each receive queue.
    fn indirection(&mut self, nic: &str) -> Result<BTreeMap<u32, u32>> {
        // With no room for the table, the answer is its length. With another length than that it is refused.
        let [_, count] = first(self.ask(nic, GRXFHINDIR, &[0])?);
        let count = (count as usize).min(INDIRECTIONS_MAX);
        let table = &self.ask(nic, GRXFHINDIR, &[count as u32])?[2..2 + count];
        Ok(table.iter().fold(BTreeMap::new(), |mut queues, queue| {
            *queues.entry(*queue).or_default() += 1;
            queues
        }))
    }

    fn statistics(&mut self, nic: &str) -> Result<BTreeMap<String, u64>> {
        // A mask of the sets asked for, in two words; the answer has the mask of those that there are, and a length each.
        let [_, _, known, _, count] = first(self.ask(nic, GSSET_INFO, &[0, 1 << SET_STATISTICS, 0])?);
        if known == 0 || count == 0 || count as usize > COUNTERS_MAX {
            return Ok(BTreeMap::new());
        }
        let names = self.ask(nic, GSTRINGS, &[SET_STATISTICS, count])?;
        let named = (names[2] as usize).min(COUNTERS_ROOM);
        let names: Vec<String> = names[3..].chunks_exact(NAME_LEN / 4).take(named).map(text).collect();
        let values = self.ask(nic, GSTATS, &[count])?;
        let counted = (values[1] as usize).min(COUNTERS_ROOM);
        if counted != named {
            // Channels came or went in between: the names are not reliable. The next reading will have them.
            return Err(Errno::AGAIN);
        }
        let value = |pair: &[u32]| u64::from(pair[u64_low()]) | u64::from(pair[1 - u64_low()]) << 32;
        Ok(names.into_iter().zip(values[2..].chunks_exact(2).map(value)).collect())
    }

    /// Sends a command with its arguments; the answer stands in the same place.
    fn ask(&mut self, nic: &str, command: u32, arguments: &[u32]) -> Result<&[u32]> {
        if nic.len() >= NIC_NAME_LEN {
            return Err(Errno::NODEV);
        }
        self.answer[..COMMAND_WORDS].fill(0);
        self.answer[0] = command;
        self.answer[1..=arguments.len()].copy_from_slice(arguments);
        let mut name = [0; NIC_NAME_LEN];
        name[..nic.len()].copy_from_slice(nic.as_bytes());
        let request = Request { name, data: self.answer.as_mut_ptr().cast(), unused: [0; 16] };
        // SAFETY: `Request` is what SIOCETHTOOL takes (see its `Ioctl`). `data` points to `ANSWER_WORDS` words that
        // this asker owns, borrows mutably here, and that outlive the call; the kernel keeps no pointer. It writes
        // there the fixed structures of GDRVINFO (196 bytes), coalescing (92), channels and rings (36), GSSET_INFO (20,
        // as one set is asked for), features (8) and the indirection table (8, and 4 for each of at most
        // `INDIRECTIONS_MAX` entries that it is told there is room for), reads those that are set, and writes for GSTRINGS and GSTATS 12 or 8 bytes and 32 or 8 for each counter, of which
        // there would have to be more than `COUNTERS_ROOM`, four times as many as at the question before. Any bits
        // are valid words.
        #[expect(unsafe_code, reason = "SIOCETHTOOL has no safe wrapper")]
        unsafe {
            ioctl(&self.socket, request)?;
        }
        Ok(&self.answer)
    }
}

/// `struct ifreq` as SIOCETHTOOL uses it: the interface, and a pointer to a command.
#[repr(C)]
struct Request {
    name: [u8; NIC_NAME_LEN],
    data: *mut c_void,
    /// The union that the pointer is in is longer than a pointer.
    unused: [u8; 16],
}

// SAFETY: the call takes a pointer to a `struct ifreq`, which `as_ptr` gives, of at least its size (40 bytes on machines
// with 64 bits, 32 on others); it does not change it, only what `data` points to, and returns no output. The number is
// the same on all architectures.
#[expect(unsafe_code, reason = "SIOCETHTOOL has no safe wrapper")]
unsafe impl Ioctl for Request {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        SIOCETHTOOL
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

/// The first words of an answer.
fn first<const N: usize>(words: &[u32]) -> [u32; N] {
    std::array::from_fn(|place| words[place])
}

/// Characters up to the first zero, from words as they lie in memory.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Where the lower half of 64 bits lies.
const fn u64_low() -> usize {
    if cfg!(target_endian = "little") { 0 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_at_the_first_zero() {
        assert_eq!(text(&[u32::from_ne_bytes(*b"virt"), u32::from_ne_bytes(*b"io\0x")]), "virtio");
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn an_interface_that_is_not_there_says_nothing() {
        let mut asker = Asker::new().unwrap();
        assert_eq!(asker.driver("nosuchnic"), DriverParameters::default());
        assert_eq!(asker.driver("a name that is too long"), DriverParameters::default());
    }

    #[test]
    fn the_loopback_has_no_rings() {
        let lo = Asker::new().unwrap().driver("lo");
        assert_eq!((lo.rx_ring, lo.channel_kinds, lo.coalescing, lo.rss.len()), (None, None, None, 0));
        assert_eq!((lo.features.get("gro"), lo.features.get("ntuple")), (Some(&true), Some(&false)));
    }
}
