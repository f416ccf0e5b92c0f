//! Host observation: facts and counters, and their readers, from any root of a file system.
//!
//! ```text
//! probe(root) ─► Facts          state that does not change by itself from second to second
//! read(root)  ─► Reading × n    counters; rules judge a Series of them
//! ```
//!
//! Nothing here writes to the host on its own. `ethtool`, `scheduling`, `listening` and `irqbalance` hold both
//! directions of their system calls, because each has one format; only `apply` calls those that set something.

pub mod capture;
pub mod cpu_load;
pub mod cpu_model;
pub mod ethtool;
pub mod facts;
pub(crate) mod irq_name;
pub(crate) mod irqbalance;
pub mod listening;
pub mod napi;
pub(crate) mod netlink;
pub mod network_namespace;
pub mod probe;
pub mod queue_counter;
pub mod read;
pub mod reading;
pub(crate) mod realtime;
pub mod root;
pub mod scheduling;

#[cfg(test)]
pub(crate) mod shapes;
