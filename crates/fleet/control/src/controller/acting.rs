//! Acts of the controller: events go to the parts that they are about, and what these decide is carried out.
//!
//! Only here are parts changed, the register written, acts recorded, and orders put at seats. Each file calls only later ones of
//! this list: `commands` (of people), `hearing` (turns, probes, other controllers, the register), `upkeep` and `healing` (with
//! the time), `publishing` (a content becomes the target), `orders`. `status` says what is known.

mod commands;
mod healing;
mod hearing;
pub(crate) mod orders;
mod publishing;
mod status;
mod upkeep;
