//! Every transcript, played to a worker without sockets: whole, in two parts (every cut), and byte by byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::sim::{Pace, PeerId, SimHost};
use protocol::discovery::{DiscoveryList, DiscoveryState};
use server::Worker;
use server::flags;
use server::options::Options;
use transcript::{Peer, ReceivedOutput, Transcript};

/// The time of day at which every server here starts.
const STARTED_UNIX_MS: u64 = 1_800_000_000_000;

/// Interval between ticks of a network.
const TICK_MS: u64 = 50;

/// Longer input is cut only at significant positions.
const EVERY_CUT_LEN_MAX: usize = 3500;

/// Bytes sent at a time at most: the host moves undelivered bytes.
const SEND_MAX: usize = 256 * 1024;

/// Transcripts played at the same time.
const AT_ONCE: usize = 4;

/// Transcripts that need more than a worker, with the reason.
const NOT_HERE: &[(&str, &str)] = &[
    ("shutdown_enabled", "the workers' threads, which end"),
    ("stats_connections", "listeners and descriptors"),
    ("watch_connections", "clients that come over TCP"),
];

/// Transcripts whose replies depend on where the input is cut, with the reason.
const NOT_CUT: &[(&str, &str)] =
    &[("line_too_long", "a line may be longer than its limit if its end comes along with it")];

/// Where the input is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Nowhere,
    /// Every piece after this many bytes, if it is longer.
    After(usize),
    /// Into pieces of this length.
    Every(usize),
}

/// A worker's peers, as the connections of a transcript.
struct Simulated {
    host: SimHost<Worker>,
    peers: BTreeMap<usize, PeerId>,
    cut: Cut,
    now_ms: u64,
    /// Length of the longest input so far that was sent in one piece.
    longest: usize,
}

impl Simulated {
    fn new(options: &Options, cut: Cut) -> Simulated {
        let state = members(options);
        let mut host = SimHost::new(server::sim::worker_telling(options, STARTED_UNIX_MS, 1, state));
        if let Cut::Every(len) = cut {
            host.set_pace(Pace { receive_max: len, send_max: len, ..Pace::default() });
        }
        Simulated { host, peers: BTreeMap::new(), cut, now_ms: 0, longest: 0 }
    }

    fn peer(&mut self, connection: usize) -> PeerId {
        *self.peers.entry(connection).or_insert_with(|| self.host.connect())
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.host.advance(ms);
    }
}

impl Peer for Simulated {
    fn send(&mut self, connection: usize, bytes: &[u8]) -> Result<(), String> {
        self.longest = self.longest.max(bytes.len());
        let (first, rest) = match self.cut {
            Cut::After(len) if len < bytes.len() => bytes.split_at(len),
            _ => bytes.split_at(0),
        };
        let len = if let Cut::Every(len) = self.cut { len } else { SEND_MAX };
        let peer = self.peer(connection);
        first.chunks(len).chain(rest.chunks(len)).for_each(|piece| self.host.send(peer, piece));
        Ok(())
    }

    fn receive(&mut self, connection: usize, received: &mut Vec<u8>) -> Result<ReceivedOutput, String> {
        let peer = self.peer(connection);
        // Watchers get their lines at the next tick.
        for wait_ms in [0, TICK_MS] {
            if wait_ms > 0 {
                self.pass(wait_ms);
            }
            let output = self.host.take_output(peer);
            received.extend_from_slice(&output);
            if !output.is_empty() {
                return Ok(ReceivedOutput::Some);
            }
        }
        if self.host.closed(peer).is_some() {
            self.peers.remove(&connection);
            return Ok(ReceivedOutput::Closed);
        }
        Ok(ReceivedOutput::Nothing)
    }

    fn close(&mut self, connection: usize) -> Result<(), String> {
        let peer = self.peer(connection);
        self.host.finish(peer);
        Ok(())
    }

    fn advance(&mut self, seconds: u32) -> Result<(), String> {
        (0..seconds).for_each(|_| self.pass(1000));
        Ok(())
    }

    fn unix_time(&self) -> u64 {
        (STARTED_UNIX_MS + self.now_ms) / 1000
    }
}

/// The list that the binary reads from the file of `--cluster-file`.
fn members(options: &Options) -> DiscoveryState {
    let read = |path| std::fs::read(path).expect("a file of members");
    let list = |text: Vec<u8>| Arc::new(DiscoveryList::parse(&text).expect("a list of members"));
    let list = options.cluster_file.as_ref().map(read).map(list);
    DiscoveryState { list, is_current: true, refusals: 0 }
}

fn options(transcript: &Transcript) -> Options {
    let low = flags::parse(&transcript.flags).expect("flags that parse");
    Options::new(low, &|path| std::fs::read_to_string(path)).expect("flags that make sense")
}

/// The transcripts that can be played here.
fn playable() -> Vec<Transcript> {
    let known = |t: &Transcript| NOT_HERE.iter().any(|(name, _)| *name == t.name);
    transcript::all().into_iter().filter(|t| !known(t)).collect()
}

/// Where to cut pieces of up to `len` bytes in two.
fn cuts(len: usize) -> Vec<usize> {
    match len {
        0..=EVERY_CUT_LEN_MAX => (1..len).collect(),
        // In the head, in the body at the borders of buffers, in the line end.
        _ => [1, 10, 20, 100, 16_383, 16_384, 16_385, 16_400, 32_768, len / 2, len - 2, len - 1]
            .into_iter()
            .chain((2000..2200).step_by(10))
            .filter(|&cut| cut < len)
            .collect(),
    }
}

/// Plays every transcript whole, and at the cuts that `cuts` gives for its longest input.
fn check(cuts: impl Fn(usize) -> Vec<Cut> + Sync) {
    let transcripts = playable();
    let play = &|first: usize| -> Vec<String> {
        let share = transcripts.iter().skip(first).step_by(AT_ONCE);
        share.filter_map(|transcript| play(transcript, &cuts).err()).collect()
    };
    let differences: Vec<String> = std::thread::scope(|scope| {
        let players: Vec<_> = (0..AT_ONCE).map(|first| scope.spawn(move || play(first))).collect();
        players.into_iter().flat_map(|player| player.join().expect("no panic while playing")).collect()
    });
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn play(transcript: &Transcript, cuts: impl Fn(usize) -> Vec<Cut>) -> Result<(), String> {
    let options = options(transcript);
    let mut whole = Simulated::new(&options, Cut::Nowhere);
    transcript::run(transcript, &mut whole).map_err(|failure| failure.to_string())?;
    if NOT_CUT.iter().any(|(name, _)| *name == transcript.name) {
        return Ok(());
    }
    cuts(whole.longest).into_iter().try_for_each(|cut| {
        transcript::run(transcript, &mut Simulated::new(&options, cut))
            .map_err(|failure| format!("{failure}\n    with {cut:?}"))
    })
}

#[test]
fn every_transcript_holds_without_sockets() {
    check(|_| Vec::new());
}

#[test]
fn every_transcript_holds_wherever_its_input_is_cut_in_two() {
    check(|longest| cuts(longest).into_iter().map(Cut::After).collect());
}

#[test]
fn every_transcript_holds_in_small_pieces() {
    check(|longest| match longest {
        0..100_000 => vec![Cut::Every(1), Cut::Every(7), Cut::Every(1000)],
        _ => vec![Cut::Every(1000)],
    });
}

#[test]
fn excluded_transcripts_exist() {
    let all = transcript::all();
    for (name, _) in NOT_HERE.iter().chain(NOT_CUT) {
        assert!(all.iter().any(|transcript| transcript.name == *name), "{name}");
    }
}
