//! Capacity advice for people: the files and servers that describe a workload, the catalogue of shapes, and the answer as text,
//! JSON and a picture.
//!
//! What is decided is in `fleet::advise`, which reads no file. This crate reads no command line and prints nothing.

pub mod catalogue;
pub mod import;
pub mod report;
pub mod running;

mod controller_answers;
mod costs_file;
mod figure_file;
mod fleet_workload;
mod lab_costs;
mod server_stats;
mod trace_workload;
mod workload_file;

pub use costs_file::{COSTS_LEN_MAX, replace_costs, usual_inputs};
pub use fleet_workload::{AroundFleet, fleet_workloads};
pub use lab_costs::{LabCosts, multiply};
pub use server_stats::{AroundServer, ServerStats, measured_workload};
pub use trace_workload::{AroundTrace, TraceSums, TracedClass, TracedRequest};
pub use workload_file::{WORKLOAD_LEN_MAX, parse_workload};

#[cfg(test)]
mod pages_tests;
#[cfg(test)]
mod published_tests;
#[cfg(test)]
mod testing;
