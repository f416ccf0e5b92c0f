//! Expected movements of figures with a change: one type for the words that people read and for the figure of a
//! [`Series`](crate::Series) that programs compare, so that the two cannot disagree.
//!
//! The subject of a figure (the interface, the thread, the disk) follows from the setting that is changed.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Everything that should be observed when a change has its effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct ExpectedSignal(pub Vec<ExpectedSignals>);

/// One observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ExpectedSignals {
    /// A figure that programs compare, too.
    Figure {
        /// The figure.
        figure: Figure,
        /// Its movement.
        moves: Moves,
    },
    /// In words, where only people or a load generator can observe it.
    Words(Cow<'static, str>),
}

/// A figure that is counted while the host works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Of the CPU that receives most often, among all.
    BusiestNetRx,
    /// Of the CPU that takes most of the interface's interrupts, among all.
    BusiestInterrupts,
    /// Of the CPU with the most.
    BusiestSoftirq,
    /// Wake-ups by steering, on any CPU.
    Steered,
    /// Wake-ups by steering, on the CPUs that the change steers to.
    SteeredTo,
    /// Of all CPUs together.
    BusyTime,
    /// Of all CPUs together, per packet received or sent.
    BusyTimePerPacket,
    /// Of the interface.
    InterruptsPerPacket,
    /// Of the thread that is scheduled differently.
    ThreadWait,
    /// Connections that found the accept queue full.
    ListenOverflows,
    /// Handshakes that found the SYN queue full.
    SynQueueFull,
    /// Connections whose first request came with the SYN.
    FastOpens,
    /// Pages to and from swap.
    Swapping,
    /// Stalls caused by huge pages.
    Compaction,
    /// Per request of the disk, or of all disks.
    DiskWait,
}

/// Movements of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moves {
    /// It is less than before.
    Falls,
    /// It is more than before.
    Rises,
    /// It is not more than before.
    DoesNotRise,
    /// It counts up, and faster than before.
    Grows,
    /// It does not count up.
    StandsStill,
}

/// Plans that were written by hand may use words only.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Words(String),
    List(Vec<ExpectedSignals>),
}

impl From<Written> for ExpectedSignal {
    fn from(written: Written) -> ExpectedSignal {
        match written {
            Written::Words(words) => ExpectedSignal::from(words),
            Written::List(list) => ExpectedSignal(list),
        }
    }
}

/// In words only.
impl From<String> for ExpectedSignal {
    fn from(words: String) -> ExpectedSignal {
        ExpectedSignal(if words.is_empty() { Vec::new() } else { vec![ExpectedSignals::Words(words.into())] })
    }
}

impl ExpectedSignals {
    /// A figure, and its expected movement.
    pub const fn figure(figure: Figure, moves: Moves) -> ExpectedSignals {
        ExpectedSignals::Figure { figure, moves }
    }

    /// Observations for people only.
    pub const fn words(words: &'static str) -> ExpectedSignals {
        ExpectedSignals::Words(Cow::Borrowed(words))
    }
}

impl Figure {
    /// The name of a figure, whether that is a plural, and its place.
    fn name(self) -> (&'static str, bool, &'static str) {
        match self {
            Figure::BusiestNetRx => ("the largest share of a CPU in NET_RX", false, "/proc/softirqs"),
            Figure::BusiestInterrupts => {
                ("the largest share of a CPU in its interrupts", false, "/proc/interrupts")
            }
            Figure::BusiestSoftirq => ("the busiest CPU's softirq time", false, "/proc/stat"),
            Figure::Steered => ("received_rps", false, "/proc/net/softnet_stat"),
            Figure::SteeredTo => ("received_rps on these CPUs", false, "/proc/net/softnet_stat"),
            Figure::BusyTime => ("CPU time", false, "/proc/stat"),
            Figure::BusyTimePerPacket => ("CPU time per packet", false, "/proc/stat"),
            Figure::InterruptsPerPacket => ("interrupts per packet", true, "/proc/interrupts"),
            Figure::ThreadWait => ("the thread's wait per wall time", false, "/proc/PID/task/TID/schedstat"),
            Figure::ListenOverflows => ("TcpExt ListenOverflows", true, "/proc/net/netstat"),
            Figure::SynQueueFull => {
                ("TcpExt TCPReqQFullDrop and TCPReqQFullDoCookies", true, "/proc/net/netstat")
            }
            Figure::FastOpens => ("TcpExt TCPFastOpenPassive", false, "/proc/net/netstat"),
            Figure::Swapping => ("pswpin and pswpout", true, "/proc/vmstat"),
            Figure::Compaction => ("compact_stall and thp_fault_fallback", true, "/proc/vmstat"),
            Figure::DiskWait => ("the mean wait of a disk's requests", false, "/proc/diskstats"),
        }
    }
}

impl fmt::Display for ExpectedSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (figure, moves) = match self {
            ExpectedSignals::Words(words) => return f.write_str(words),
            ExpectedSignals::Figure { figure, moves } => (figure, moves),
        };
        let (name, plural, source) = figure.name();
        let verb = match (moves, plural) {
            (Moves::Falls, false) => "falls",
            (Moves::Falls, true) => "fall",
            (Moves::Rises, false) => "rises",
            (Moves::Rises, true) => "rise",
            (Moves::DoesNotRise, false) => "does not rise",
            (Moves::DoesNotRise, true) => "do not rise",
            (Moves::Grows, false) => "grows",
            (Moves::Grows, true) => "grow",
            (Moves::StandsStill, false) => "stands still",
            (Moves::StandsStill, true) => "stand still",
        };
        write!(f, "{name} {verb} ({source})")
    }
}

impl fmt::Display for ExpectedSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said: Vec<String> = self.0.iter().map(ExpectedSignals::to_string).collect();
        f.write_str(&said.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_come_from_the_figure_and_its_direction() {
        let signal = ExpectedSignal(vec![
            ExpectedSignals::figure(Figure::InterruptsPerPacket, Moves::Falls),
            ExpectedSignals::figure(Figure::Steered, Moves::StandsStill),
            ExpectedSignals::words("p99 latency falls"),
        ]);
        assert_eq!(
            signal.to_string(),
            "interrupts per packet fall (/proc/interrupts); received_rps stands still (/proc/net/softnet_stat); \
             p99 latency falls"
        );
    }

    #[test]
    fn programs_and_people_may_write_it() {
        let read = |json: &str| serde_json::from_str::<ExpectedSignal>(json).unwrap();
        let figure = ExpectedSignals::figure(Figure::Swapping, Moves::StandsStill);
        let signal = ExpectedSignal(vec![figure, ExpectedSignals::words("less noise")]);
        assert_eq!(read(&serde_json::to_string(&signal).unwrap()), signal);
        assert_eq!(read("\"less noise\"").to_string(), "less noise");
        assert_eq!(read("\"\""), ExpectedSignal::default());
        assert!(serde_json::from_str::<ExpectedSignal>(r#"[{"figure": "mood", "moves": "rises"}]"#).is_err());
    }
}
