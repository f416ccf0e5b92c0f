//! Acts of the controller: events go to the parts that they are about, and what these decide is carried out.
//!
//! Only here are events carried out: parts changed, decisions written in the register, acts recorded, and orders put at seats.
//! (`controller.rs` asks parts whether their time has come, and `answers/signing.rs` writes which join tokens are left.) Each
//! file calls only later ones of this list: `commands` (of people), `hearing` (turns, probes, other controllers, the register), `upkeep` and `healing` (with
//! the time), `publishing` (a content becomes the target), `standards` (hosts that may be tuned), `orders`. `status`, `summary`, `needs`, `resources`, `figures` and `tuning` say what is known; `tuning` also asks hosts, which changes nothing.

pub(crate) mod changes;
mod commands;
pub(crate) mod figures;
mod healing;
mod hearing;
mod needs;
pub(crate) mod orders;
mod publishing;
pub(crate) mod request_sums;
mod resources;
mod standards;
mod status;
mod summary;
pub(crate) mod tuning;
mod upkeep;
