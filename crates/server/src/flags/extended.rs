//! The sub-options of `-o`, in a table like that of the flags.

use super::{Flag, listening, memory, operations, security};

/// The long name of `-o`.
pub const FLAG: &str = "extended";

/// The sub-options of each section, in the order of the help.
pub const SECTIONS: &[&[Flag]] =
    &[listening::OPTIONS, memory::OPTIONS, security::OPTIONS, operations::OPTIONS];

/// Every sub-option.
pub fn all() -> impl Iterator<Item = &'static Flag> {
    SECTIONS.iter().copied().flatten()
}

/// The sub-option of this name; unlike flags, names of sub-options cannot be shortened.
pub fn find(name: &str) -> Option<&'static Flag> {
    all().find(|option| option.name == name)
}
