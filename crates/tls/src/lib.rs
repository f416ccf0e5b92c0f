//! TLS settings that several crates share: PEM files, authorities, trust.
//!
//! No socket and no session in here: a caller connects with [`client`]'s settings and rustls, or passes them to a
//! library that does. All use one cryptography provider (ring), TLS 1.2 and 1.3.
//!
//! * [`files`]: certificates, keys and authorities, and why a file cannot be used;
//! * [`client`]: settings for clients, by the servers that they trust.

mod client;
mod files;

pub use client::{Trust, client};
pub use files::{PemFileError, authorities, certificates, key, system_authorities};
