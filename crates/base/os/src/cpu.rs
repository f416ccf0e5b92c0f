//! CPUs by their numbers: sets, and lists as the kernel writes them.

mod list;
mod set;

pub use list::CpuList;
pub use set::CpuSet;
