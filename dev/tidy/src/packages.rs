//! Packages as cargo sees them: edges between ours, licences of others, selections that build the same, programs of tests.

mod cargo;
pub(super) mod dependencies;
pub(super) mod edges;
pub(super) mod selections;
pub(super) mod test_programs;
