//! Statistics of a router: counted by its workers, read by other threads.
//!
//! A worker counts in cells of its own ([`RouteCells`]), and for each destination in the cells of that destination
//! ([`DestinationCells`]): plain loads and stores, no lock, no clock. The time of a reply is the time of the turns in which
//! the request was sent and the reply was read. Sums are made by whoever asks ([`RouteTotals`]); averages over the last
//! minutes come from sums that are taken every second ([`StatsWindow`]).

mod cells;
pub(crate) mod counted_pools;
mod destination_cells;
mod group;
mod pool_cells;
pub(crate) mod pool_notes;
mod recent_average;
pub(crate) mod shadow_counts;
mod totals;
mod window;

pub(crate) use cells::{COMMANDS, RouteCells, class_index};
pub(crate) use destination_cells::{DestinationCells, DestinationPhase, LATENCY_BUCKETS, bound_s};
pub(crate) use group::StatsGroup;
pub(crate) use pool_cells::{AllPoolCells, PoolTotals};
pub(crate) use recent_average::RecentAverage;
pub(crate) use totals::{RouteTotals, ServerPhases};
pub(crate) use window::StatsWindow;
