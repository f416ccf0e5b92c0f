//! Conversations about clients: commands, sizes, limits.

mod discovery;
mod flush;
mod memory;
mod protocol;
mod sizes;

use super::*;
