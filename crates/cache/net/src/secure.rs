//! TLS sessions: their handshakes, their records, and their keys in the kernel.

pub(crate) mod handshakes;
pub(crate) mod kernel_tls;
pub(crate) mod session;
#[cfg(test)]
pub(crate) mod tls_ends;
