//! The answer for people and programs.

pub(crate) mod amount;
mod json;
mod picture;
mod rate;
pub(crate) mod text;

pub use json::json;
pub use picture::picture;
pub use rate::{rate_json, rate_text};
pub use text::text;

use fleet::advise::{AdviceInputs, ItemsPlace};

/// What an answer is about.
#[derive(Clone, Copy, Debug)]
pub struct AdviceQuestion<'a> {
    /// What it was computed from.
    pub inputs: &'a AdviceInputs,
    /// Of which region the prices are.
    pub region: &'a str,
}

fn place(place: ItemsPlace) -> &'static str {
    match place {
        ItemsPlace::Memory => "memory",
        ItemsPlace::Flash => "memory and flash",
    }
}

#[cfg(test)]
mod tests;
