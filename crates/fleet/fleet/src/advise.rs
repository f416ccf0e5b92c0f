//! Capacity advice: which shape of host, how many, which resource binds, what it costs, and how sure that is.
//!
//! Everything here is arithmetic on figures that are arguments. A figure that nobody knows is `None` and never counts as zero.

mod shape;

pub use shape::{CpuArchitecture, HostShape, LocalDiskKind, LocalDisks, ShapePrice};
