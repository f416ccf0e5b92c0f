//! Objects: types that decide something, the fields that each has, and the files over which its methods are spread.
//!
//! An object owns its state: whoever reads one of its methods has to know only as many fields and files as fit into one
//! reading. More than that is several objects, which share a name.

pub(super) mod fields;
pub(super) mod methods;

mod functions;
