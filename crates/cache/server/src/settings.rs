//! Settings of a server: flags, options, and files that can be read again.

pub(crate) mod discovery;
pub mod flags;
pub mod options;
pub(crate) mod placement;
pub(crate) mod rights;
pub(crate) mod tls_files;
