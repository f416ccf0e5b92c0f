//! Streams that HTTP is spoken on, and the settings of TLS below it.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};

/// TLS settings of the next handshake, which may have been read again since the last one.
pub type ApiTls = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// A stream. As one type, hyper's code for a connection is compiled once.
pub(crate) trait HttpStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> HttpStream for S {}
