//! A client that looks aside, with keys of which some are much more wanted than others.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use end_to_end::clock;
use stdx::prng::Prng;

use super::MissSeconds;
use crate::clients::reply::read_reply;

/// Keys of the application, all of which are stored at the beginning.
const KEYS: usize = 20_000;
/// Zipf's exponent: the field's caches are near one.
const EXPONENT: f64 = 1.0;
const VALUE_LEN: usize = 100;
/// Between two requests: two cores serve the whole fleet.
const EVERY: Duration = Duration::from_micros(500);
/// A router that does not answer for longer is a failure of the scenario.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Draws keys.
#[derive(Clone)]
pub(super) struct KeyPicker(Arc<Vec<f64>>);

impl KeyPicker {
    pub(super) fn new() -> KeyPicker {
        let mut sum = 0.0;
        let add = |rank: usize| {
            sum += 1.0 / (rank as f64).powf(EXPONENT);
            sum
        };
        let sums: Vec<f64> = (1..=KEYS).map(add).collect();
        KeyPicker(Arc::new(sums.iter().map(|part| part / sum).collect()))
    }

    fn pick(&self, prng: &mut Prng) -> usize {
        let part = prng.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        self.0.partition_point(|sum| *sum < part).min(KEYS - 1)
    }
}

/// A client of one router.
pub(super) struct AsideClient {
    place: SocketAddr,
    number: u64,
    keys: KeyPicker,
    seconds: Arc<MissSeconds>,
}

impl AsideClient {
    pub(super) fn new(
        place: SocketAddr,
        number: u64,
        keys: KeyPicker,
        seconds: Arc<MissSeconds>,
    ) -> AsideClient {
        AsideClient { place, number, keys, seconds }
    }

    /// Fills the cache if it is the first client, and asks until the end.
    pub(super) fn run(&self) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(self.place)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        if self.number == 0 {
            for key in 0..KEYS {
                set(&mut stream, key)?;
            }
        }
        let mut prng = Prng::new(self.number);
        while !self.seconds.ends.load(Ordering::Relaxed) {
            let key = self.keys.pick(&mut prng);
            let is_miss = !get(&mut stream, key)?;
            self.seconds.note(is_miss);
            if is_miss {
                set(&mut stream, key)?;
            }
            clock::pass(EVERY);
        }
        Ok(())
    }
}

fn set(stream: &mut TcpStream, key: usize) -> std::io::Result<()> {
    let value = "x".repeat(VALUE_LEN);
    stream.write_all(format!("set key{key} 0 0 {VALUE_LEN}\r\n{value}\r\n").as_bytes())?;
    // One that is refused leaves the key missing, which the next get finds out.
    read_reply(stream).map(drop)
}

/// Whether the item was found. An error is a miss for the application.
fn get(stream: &mut TcpStream, key: usize) -> std::io::Result<bool> {
    stream.write_all(format!("get key{key}\r\n").as_bytes())?;
    Ok(read_reply(stream)?.starts_with(b"VALUE"))
}
