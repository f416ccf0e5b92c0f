//! Speed of the hash functions by themselves: `cargo run --release -p router --example hash_speed`.
//!
//! One thread, keys of 20 bytes, a new key each time. Prints nanoseconds of CPU time per choice.

use router::hash::{HashDescription, Selector};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

const KEY_COUNT: usize = 100_000;
const ROUNDS: usize = 20;

fn main() {
    let keys: Vec<String> = (0..KEY_COUNT).map(|n| format!("user:{n:07}:profile")).collect();
    let tags: Vec<String> = (0..1000).map(|n| format!("10.0.0.{n}:11211")).collect();
    for count in [10, 100, 1000] {
        let tags: Vec<&str> = tags[..count].iter().map(String::as_str).collect();
        for function in router::hash::FUNCTIONS {
            for salt in ["", "salt"] {
                let weights = vec![0.9; count];
                let description =
                    HashDescription { function, salt, count, weights: Some(&weights), tags: Some(&tags) };
                let selector = Selector::new(&description).expect("is accepted");
                println!("{function:>18} of {count:>4}, salt {salt:?}: {:.1} ns", time(&selector, &keys));
            }
        }
    }
}

/// Nanoseconds of CPU time per key.
fn time(selector: &Selector, keys: &[String]) -> f64 {
    let start = cpu_seconds();
    for _ in 0..ROUNDS {
        for key in keys {
            black_box(selector.select(black_box(key.as_bytes())));
        }
    }
    (cpu_seconds() - start) * 1e9 / (ROUNDS * keys.len()) as f64
}

fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}
