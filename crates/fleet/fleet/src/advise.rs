//! Capacity advice: which shape of host, how many, which resource binds, what it costs, and how sure that is.
//!
//! Everything here is arithmetic on figures that are arguments. A figure that nobody knows is `None` and never counts as zero.
//!
//! ```text
//!  workload + costs + assumptions (inputs) ──► demand: what all hosts together are asked for
//!  shape ──► limits: what one host has       ──► fit: hosts by each resource, the most of which bind
//!  fit × price ──► answer: the cheapest shapes ──► sensitivity: the same with each input changed
//! ```

mod answer;
mod assumptions;
mod ceiling;
mod costs;
mod demand;
mod figure;
mod fit;
mod inputs;
pub mod running;
mod sensitivity;
mod shape;
mod worker;
mod workload;

pub use answer::{Advice, CurveCost, KeptItems, LeftOut, SHAPES_SHOWN, ShapeAdvice, advise};
pub use assumptions::{AdviceAssumptions, MONTH_HOURS};
pub use costs::RequestCosts;
pub use demand::ItemsPlace;
pub use figure::{FigureBasis, InputFigure, STATED_RANGE};
pub use fit::{HOSTS_MAX, HostResource, ResourceUse, ShapeFit, UnknownConsequence, UnknownFigure};
pub use inputs::{AdviceInputs, NamedInput};
pub use sensitivity::{CHANGE, ChangedAnswer, InputEffect, to_measure};
pub use shape::{CpuArchitecture, HostShape, LocalDiskKind, LocalDisks, ShapePrice};
pub use worker::{CpuStops, WorkerRate, worker_rate};
pub use workload::{CacheWorkload, ITEMS_MAX, RATE_MAX, WorkloadError};

#[cfg(test)]
mod tests;
