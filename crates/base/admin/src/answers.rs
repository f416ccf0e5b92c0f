//! Answering requests: how connections ask pages and sites.

use std::future::Future;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

/// The DER of the certificate that TLS settings have accepted, among the extensions of each request of its connection.
#[derive(Clone)]
pub(crate) struct PeerCertificate(pub(crate) Vec<u8>);

/// What answers the requests of connections.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Answers one request.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}
