//! Memory of a store: from the system, within a limit, and for large values.

pub(crate) mod backing;
pub(crate) mod budget;
pub(crate) mod free_ranges;
pub(crate) mod large;
pub(crate) mod partial;
pub(crate) mod prefault;
pub(crate) mod system;
pub(crate) mod unused;
