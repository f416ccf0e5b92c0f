//! Encrypted connections, as far as they are the same for everybody: PEM files, authorities, trust.
//!
//! No socket and no session in here: who connects takes [`client`]'s settings and does that with rustls, or hands them
//! to a library that does. All use one provider of cryptography (ring), TLS 1.2 and 1.3.
//!
//! * [`files`]: certificates, keys and authorities, and why a file is of no use;
//! * [`client`]: settings for who connects, by whom it trusts.

mod client;
mod files;

pub use client::{Trust, client};
pub use files::{Unread, authorities, certificates, key, system_authorities};
