//! From a routing key to one of `n` children, bit for bit as mcrouter computes it.
//!
//! A [`Selector`] is built once from a [`HashDescription`]; `select` allocates nothing. The routing key is the key
//! without its routing prefix, up to `|#|`: `key.rs` cuts it. No name of a server is known here except as a tag.

mod ch3;
mod crc32;
mod error;
mod latest;
pub(crate) mod md5;
mod murmur;
mod rendezvous;
mod runtime_weights;
mod salted;
mod shard;
mod spooky;
#[cfg(test)]
mod tests;
mod weighted_ch3;

use std::sync::Arc;

pub use ch3::{CH3_COUNT_MAX, ch3};
pub use crc32::crc32;
pub use error::HashError;
pub use latest::{host_child, latest_order};
pub use murmur::murmur64a;
pub use runtime_weights::RuntimeWeights;
pub use spooky::{spooky32, spooky64, twang_mix64};
pub use weighted_ch3::WEIGHT_OF_MISSING;

use rendezvous::Endpoints;
use salted::{SALT_LEN_MAX, with_salt};
use weighted_ch3::WeightedCh3;

/// What a configuration says of a hash.
#[derive(Clone, Copy, Debug)]
pub struct HashDescription<'a> {
    /// mcrouter's name of the function.
    pub function: &'a str,
    /// Appended to the routing key before it is hashed; may be empty.
    pub salt: &'a str,
    /// Children to choose from.
    pub count: usize,
    /// A weight per child, for WeightedCh3 and WeightedRendezvous.
    pub weights: Option<&'a [f64]>,
    /// A name per child, for the Rendezvous functions.
    pub tags: Option<&'a [&'a str]>,
}

/// The functions of [`Selector::new`]. `Latest` is an order made once ([`latest_order`]), not a choice per key.
pub const FUNCTIONS: [&str; 6] =
    ["Ch3", "Crc32", "WeightedCh3", "Rendezvous", "WeightedRendezvous", "ConstShard"];

/// A hash function with its parameters.
#[derive(Clone, Debug)]
pub struct Selector {
    function: Function,
    salt: Box<[u8]>,
}

#[derive(Clone, Debug)]
enum Function {
    Ch3(u32),
    Crc32(u32),
    WeightedCh3(WeightedCh3),
    WeightedCh3Rv(Arc<RuntimeWeights>),
    Rendezvous(Endpoints),
    WeightedRendezvous(Endpoints, Box<[f64]>),
    ConstShard(u32),
}

impl Selector {
    /// Its function by mcrouter's name, and its salt.
    pub(crate) fn name(&self) -> String {
        let name = match self.function {
            Function::Ch3(_) => "Ch3",
            Function::Crc32(_) => "Crc32",
            Function::WeightedCh3(_) => "WeightedCh3",
            Function::WeightedCh3Rv(_) => "WeightedCh3Rv",
            Function::Rendezvous(_) => "Rendezvous",
            Function::WeightedRendezvous(..) => "WeightedRendezvous",
            Function::ConstShard(_) => "ConstShard",
        };
        match &*self.salt {
            [] => name.to_owned(),
            salt => format!("{name}|salt={}", salt.escape_ascii()),
        }
    }

    /// Checks a description, and prepares what does not depend on the key.
    pub fn new(description: &HashDescription<'_>) -> Result<Selector, HashError> {
        if description.salt.len() > SALT_LEN_MAX {
            return Err(HashError::Salt(description.salt.len()));
        }
        let function = match description.function {
            "Ch3" => Function::Ch3(count(description, "Ch3", CH3_COUNT_MAX)?),
            "Crc32" => Function::Crc32(count(description, "Crc32", i32::MAX as usize)?),
            "WeightedCh3" => {
                let count = count(description, "WeightedCh3", CH3_COUNT_MAX)?;
                let weights = description.weights.ok_or(HashError::NoWeights("WeightedCh3"))?;
                Function::WeightedCh3(WeightedCh3::new(weights, count as usize)?)
            }
            "Rendezvous" => Function::Rendezvous(endpoints(description, "Rendezvous")?),
            "WeightedRendezvous" => {
                let endpoints = endpoints(description, "WeightedRendezvous")?;
                let weights = description.weights.ok_or(HashError::NoWeights("WeightedRendezvous"))?;
                rendezvous::check_weights(weights, description.count)?;
                Function::WeightedRendezvous(endpoints, weights.into())
            }
            "ConstShard" => Function::ConstShard(count(description, "ConstShard", CH3_COUNT_MAX)?),
            unknown => return Err(HashError::Function { found: unknown.to_owned() }),
        };
        Ok(Selector { function, salt: description.salt.as_bytes().into() })
    }

    /// WeightedCh3Rv: a choice among as many children as there are weights, which change.
    ///
    /// # Errors
    /// No children or too many, or a salt that is too long.
    pub fn with_runtime_weights(
        weights: Arc<RuntimeWeights>,
        description: &HashDescription<'_>,
    ) -> Result<Selector, HashError> {
        count(description, "WeightedCh3Rv", CH3_COUNT_MAX)?;
        if description.salt.len() > SALT_LEN_MAX {
            return Err(HashError::Salt(description.salt.len()));
        }
        Ok(Selector { function: Function::WeightedCh3Rv(weights), salt: description.salt.as_bytes().into() })
    }

    /// The child of a routing key: below the description's `count`.
    #[inline]
    pub fn select(&self, routing_key: &[u8]) -> usize {
        if self.salt.is_empty() {
            return self.select_unsalted(routing_key);
        }
        with_salt(routing_key, &self.salt, |key| self.select_unsalted(key))
    }

    /// The same with another salt, for a choice after the first.
    pub(crate) fn select_with(&self, routing_key: &[u8], salt: &[u8]) -> usize {
        with_salt(routing_key, salt, |key| self.select_unsalted(key))
    }

    #[inline]
    fn select_unsalted(&self, key: &[u8]) -> usize {
        match &self.function {
            Function::Ch3(count) => ch3(key, *count) as usize,
            Function::Crc32(count) => ((crc32(key) & 0x7fff_ffff) % count) as usize,
            Function::WeightedCh3(function) => function.select(key),
            Function::WeightedCh3Rv(weights) => weights.select(key),
            Function::Rendezvous(endpoints) => endpoints.select(key),
            Function::WeightedRendezvous(endpoints, weights) => endpoints.select_weighted(weights, key),
            Function::ConstShard(count) => shard::select(key, *count) as usize,
        }
    }

    /// All children of a routing key in the order of a Rendezvous function, the selected one first: the order of
    /// failover. `None` for the other functions, which have none.
    pub fn ranking(&self, routing_key: &[u8]) -> Option<Vec<usize>> {
        let rank = |key: &[u8]| match &self.function {
            Function::Rendezvous(endpoints) => Some(endpoints.ranking(key)),
            Function::WeightedRendezvous(endpoints, weights) => {
                Some(endpoints.weighted_ranking(weights, key))
            }
            _ => None,
        };
        with_salt(routing_key, &self.salt, rank)
    }
}

/// The number of children, if the function takes so many.
fn count(description: &HashDescription<'_>, function: &'static str, max: usize) -> Result<u32, HashError> {
    match description.count {
        found if (1..=max).contains(&found) => Ok(found as u32),
        found => Err(HashError::Count { function, found, max }),
    }
}

fn endpoints(description: &HashDescription<'_>, function: &'static str) -> Result<Endpoints, HashError> {
    let tags = description.tags.ok_or(HashError::NoTags(function))?;
    count(description, function, CH3_COUNT_MAX)?;
    if tags.len() != description.count {
        return Err(HashError::TagCount { children: description.count, tags: tags.len() });
    }
    Ok(Endpoints::new(tags))
}
