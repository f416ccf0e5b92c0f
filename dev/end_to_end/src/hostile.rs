//! Clients that misbehave, each kind on a thread of its own until all are stopped.
//!
//! None of them needs more than a connection: their input follows the protocol, or is that of a broken client. The
//! honest clients are in `honest.rs`.

mod floods;
mod handshakes;
mod operators;
mod target;
mod uploads;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub use target::Attack;
use target::Target;

macro_rules! certificates {
    () => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/base/tls/tests/certificates/")
    };
}

/// The flags of an attacked server: values of 20 MB may be stored, a client may have many connections, and datagrams and
/// TLS are served.
#[rustfmt::skip]
pub const FLAGS: [&str; 17] = [
    "-m", "64", "-I", "32m", "-t", "2", "-c", "4096", "-o", "track_sizes", "-U", "-1", "-Z", "-l", "btls:127.0.0.1:0",
    "-o", concat!("ssl_chain_cert=", certificates!(), "cert.pem,ssl_key=", certificates!(), "key.pem"),
];

/// All attacks.
pub const ATTACKS: [&Attack; 19] = [
    &uploads::IDLE_UPLOADS,
    &uploads::DRIPPING_UPLOADS,
    &uploads::LARGE_VALUES,
    &uploads::HEADERS_OF_LARGE_VALUES,
    &uploads::APPENDS_THAT_DO_NOT_FIT,
    &uploads::APPENDS_TO_LARGE_VALUES,
    &floods::COLLIDING_KEYS,
    &floods::GARBAGE,
    &floods::BINARY_PROTOCOL,
    &floods::CHURN,
    &floods::READERS_THAT_DO_NOT_READ,
    &floods::DATAGRAMS,
    &handshakes::HALF_HANDSHAKES,
    &operators::FORGED_KEYS,
    &operators::STATISTICS,
    &operators::MEMORY_LIMIT,
    &operators::SILENT_LISTS,
    &operators::SILENT_REPORTS,
    &operators::SILENT_WATCHERS,
];

/// The pause between two rounds of an attack, so that it does not only use up the CPU.
const PAUSE: Duration = Duration::from_millis(20);
/// Running attacks.
pub struct Attackers {
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, JoinHandle<Rounds>)>,
}

/// The number of rounds of an attack, by their end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    /// Rounds that were completed.
    pub done: u64,
    /// Rounds that ended with an error on the socket.
    pub cut_off: u64,
    /// Answers that no server should give.
    pub wrong: u64,
}

impl Attackers {
    /// Starts the attacks.
    pub fn start(address: SocketAddr, attacks: &[&'static Attack]) -> Attackers {
        let stop = Arc::new(AtomicBool::new(false));
        let begin = |attack: &&'static Attack| {
            let target = Target { address, stop: Arc::clone(&stop) };
            let attack = *attack;
            (attack.name, std::thread::spawn(move || rounds(&target, attack)))
        };
        let threads = attacks.iter().map(begin).collect();
        Attackers { stop, threads }
    }

    /// Ends the attacks, and returns the rounds of each.
    ///
    /// # Panics
    /// If an attack has panicked.
    pub fn stop(self) -> Vec<(&'static str, Rounds)> {
        self.stop.store(true, Ordering::Relaxed);
        let join = |(name, thread): (_, JoinHandle<Rounds>)| (name, thread.join().expect("an attack"));
        self.threads.into_iter().map(join).collect()
    }
}

fn rounds(target: &Target, attack: &Attack) -> Rounds {
    let mut rounds = Rounds::default();
    while !target.is_over() {
        match (attack.round)(target) {
            Ok(()) => rounds.done += 1,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                eprintln!("{}: {error}", attack.name);
                rounds.wrong += 1;
            }
            Err(_) => rounds.cut_off += 1,
        }
        target.idle(PAUSE);
    }
    rounds
}
