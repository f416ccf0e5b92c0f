//! Hosts, namespaces, processes and waits that several tests of the binary share.

pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod full_pipe;
pub(crate) mod host;
pub(crate) mod inner;
pub(crate) mod journal;
pub(crate) mod lab;
pub(crate) mod many;
pub(crate) mod namespaces;
pub(crate) mod quiet;
pub(crate) mod running;
pub(crate) mod until;
