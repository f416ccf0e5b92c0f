//! Other programs that long-running verbs deal with: scrapers of metrics, signers of certificates, writers of the list of members.

pub(crate) mod cluster_file;
pub(crate) mod console;
pub(crate) mod endpoint;
pub(crate) mod host_sampler;
pub(crate) mod prometheus;
pub(crate) mod renewal;
pub(crate) mod server_tls;
