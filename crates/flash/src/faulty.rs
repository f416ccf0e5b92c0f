//! Disks that fail, for tests.
