//! Linux for programs: clocks, CPUs, CPU time, memory, processes, commands, scheduling, signals, names in directories that others can
//! write, locked files, messages to a supervisor.
//!
//! Everything here is about this host, and nothing about caching or decisions. `tuner`, which also reads a captured
//! /proc, uses the parsers of this crate.

pub mod clock;
pub mod command;
mod cpu;
pub mod cpu_order;
pub mod cpu_time;
mod entry;
pub mod file;
mod locked_file;
pub mod memory;
pub mod notify;
pub mod process_stat;
pub mod processes;
pub mod scheduling;
pub mod signals;
pub mod socket_file;

pub use cpu::{CpuList, CpuSet};
pub use entry::DirectoryEntry;
pub use locked_file::LockedFile;
