//! Choices that look random: hashes, weighted choices, shuffling. With a key or a seed they are mcrouter's, bit for bit.

use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue};
use crate::config::macros::{Args, Expander, Outcome};
use crate::plan::hash::{spooky64, twang_mix64};

pub(super) fn hash(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let value = args.value(expander, "value")?;
    let hash = match &value.value {
        JsonValue::Int(number) => twang_mix64(*number as u64),
        JsonValue::String(text) => spooky64(text.as_bytes(), 0),
        _ => {
            return Err(
                args.error(format!("expected an integer or a string to hash, found {}", value.found()))
            );
        }
    };
    args.result(JsonValue::Int(hash as i64))
}

/// The key of an object of weights: Rendezvous hashing with the weight as an exponent.
pub(super) fn weighted_hash(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let dictionary = args.value(expander, "dictionary")?;
    let key = args.value(expander, "key")?;
    let key = match &key.value {
        JsonValue::Int(number) => *number as u64,
        JsonValue::String(text) => spooky64(text.as_bytes(), 0),
        _ => return Err(key.wrong("an integer or a string (`key` of weightedHash)")),
    };
    let choices = dictionary.object("`dictionary` of weightedHash")?.entries();
    expander.budget.pay(choices.len(), args.place)?;
    let weights: Vec<f64> = choices.iter().map(|(_, json)| weight(json)).collect::<Result<_, _>>()?;
    let sum: f64 = weights.iter().sum();
    if sum < f64::EPSILON {
        return Err(dictionary.error("expected a weight above 0 in `dictionary` of weightedHash, found none"));
    }
    let mut best = (-1.0, 0);
    for (n, (name, _)) in choices.iter().enumerate() {
        let score = score(name, weights[n] / sum, key);
        if score > best.0 {
            best = (score, n);
        }
    }
    args.result(JsonValue::String(choices[best.1].0.clone()))
}

/// A weight; one that is just below 0 by rounding is 0.
fn weight(json: &Json) -> Result<f64, ConfigError> {
    json.number("a weight of weightedHash", -0.01..=f64::MAX).map(|weight| weight.max(0.0))
}

fn score(name: &str, share: f64, key: u64) -> f64 {
    let unit = twang_mix64(fnv1_signed(name).wrapping_add(key)) as f64 / u64::MAX as f64;
    if share > f64::EPSILON { unit.powf(1.0 / share) } else { 0.0 }
}

/// FNV-1 over signed bytes, which is what folly has under this name.
fn fnv1_signed(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        hash.wrapping_mul(0x0100_0000_01b3) ^ (byte as i8) as u64
    })
}

pub(super) fn shuffle(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let dictionary = args.take(expander, "dictionary")?;
    let JsonValue::Array(mut items) = dictionary.value else {
        return Err(dictionary.wrong("an array to shuffle"));
    };
    let mut random = match args.optional(expander, "seed")? {
        Some(seed) => MinimalStandard::new(seed.integer("`seed` of shuffle", 0..=i64::MAX)? as u32),
        None => MinimalStandard::new(expander.random.next_u64() as u32),
    };
    random.shuffle(&mut items);
    args.result(JsonValue::Array(items))
}

/// The generator of Park and Miller, and the shuffling of libstdc++, which mcrouter uses.
struct MinimalStandard(u64);

/// The generator's numbers are 1 to `MODULUS - 1`.
const MODULUS: u64 = 2_147_483_647;
const RANGE: u64 = MODULUS - 2;

impl MinimalStandard {
    fn new(seed: u32) -> MinimalStandard {
        MinimalStandard((u64::from(seed) % MODULUS).max(1))
    }

    /// 0 to `RANGE`.
    fn next(&mut self) -> u64 {
        self.0 = self.0 * 48_271 % MODULUS;
        self.0 - 1
    }

    /// 0 to `max`, which is below `RANGE`: arrays are shorter.
    fn up_to(&mut self, max: u64) -> u64 {
        let scaling = RANGE / (max + 1);
        let end = (max + 1) * scaling;
        loop {
            let number = self.next();
            if number < end {
                return number / scaling;
            }
        }
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        let len = items.len() as u64;
        if len == 0 {
            return;
        }
        if RANGE / len < len {
            (1..len).for_each(|at| items.swap(at as usize, self.up_to(at) as usize));
            return;
        }
        // One number decides for two items.
        let mut at = 1;
        if len.is_multiple_of(2) {
            items.swap(1, self.up_to(1) as usize);
            at = 2;
        }
        while at < len {
            let (first, second) = (at + 1, at + 2);
            let number = self.up_to(first * second - 1);
            items.swap(at as usize, (number / second) as usize);
            items.swap(at as usize + 1, (number % second) as usize);
            at += 2;
        }
    }
}
