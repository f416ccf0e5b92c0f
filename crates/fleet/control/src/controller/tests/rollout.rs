//! Rollouts that come to their end, fail, are stopped by people, or are forgotten by the register.

mod by_hand;
mod failed;
mod forgotten;
mod goes_on;
mod settled;

use super::*;
