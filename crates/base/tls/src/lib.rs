//! TLS settings that several crates share: files, trust, what a server shows and asks.
//!
//! No socket and no session in here: a caller makes sessions with rustls from the settings of [`client`] or of an
//! [`Acceptor`], or passes them to a library that does. All use one cryptography provider (ring), TLS 1.2 and 1.3.
//!
//! * [`files`]: certificates, keys and authorities, and why a file cannot be used;
//! * [`client`]: settings for clients, by the servers that they trust; from files that can be read again ([`ClientTls`]), with
//!   what a server's certificate must be for ([`NameCheck`]);
//! * [`settings`] of listeners, and what [`server`] makes of them, from files that can be read again ([`ListenerTls`]);
//!   [`choice`] of a certificate by the name that a client asks for, [`cipher`] names;
//! * [`ticket`]: session tickets that several processes accept; [`session_cache`]: sessions of clients without them;
//! * [`issue::run_certificates`]: an authority and a certificate that are made for one run;
//! * [`issue`]: an authority that is kept, and the certificates that it signs; [`issue::request`]s for them (CSR), so that a key stays
//!   where it was made; [`issue::signing_key`]: such keys;
//! * [`certificate_uris`]: the URIs in a certificate and its validity, for those who decide by them;
//! * [`certificate`] and [`role`]: who a client is by its certificate, and what it may do.

mod certificate;
mod certificate_uris;
mod choice;
mod cipher;
mod client;
mod client_files;
mod client_names;
mod files;
mod issue;
mod role;
mod server;
mod session_cache;
mod settings;
mod ticket;

#[cfg(test)]
mod testing;

pub use certificate::CertificateEnd;
pub use certificate_uris::certificate_uris;
pub use cipher::Ciphers;
pub use client::{Trust, client, client_of_versions};
pub use client_files::{ClientInForce, ClientSettings, ClientTls};
pub use client_names::NameCheck;
pub use files::{TlsFileError, authorities, certificates, key, system_authorities};
pub use issue::request::{CertificateRequest, CertificateRequestError};
pub use issue::run_certificates::RunCertificates;
pub use issue::{CertificateKey, IssuedFor, SigningAuthority, Validity};
pub use role::{Identity, Role};
pub use server::{Acceptor, ListenerTls};
pub use settings::{CERTIFICATES_MAX, CertificateFiles, KeyFormat, PeerCheck, TlsServerError, TlsSettings};
pub use ticket::HandedTickets;
