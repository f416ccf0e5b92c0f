//! Pages for browsers: requests with what a browser says about itself, and answers with their headers.
//!
//! Beside [`crate::Source`] and [`crate::api`], this is a port for people: an answer may take a while, and has the headers that keep a
//! browser from doing anything else with it. Nothing here knows a page.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http_body_util::Full;
pub use hyper::body::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::answers::{Answers, PeerCertificate};

/// What a browser wants to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SiteMethod {
    /// To read.
    #[default]
    Get,
    /// To change something. It comes without a body.
    Post,
}

/// What a browser asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteRequest {
    /// What for.
    pub method: SiteMethod,
    /// The path, as sent: with its escapes.
    pub path: String,
    /// What follows the `?`, as sent.
    pub query: Option<String>,
    /// The host by which the browser has found this program, with its port.
    pub host: Option<String>,
    /// The tag of the answer that the browser has already.
    pub has: Option<String>,
    /// The token of `authorization: Bearer TOKEN`.
    pub bearer: Option<String>,
    /// The cookies, as sent.
    pub cookies: Option<String>,
    /// The DER of the certificate that the TLS settings have accepted.
    pub certificate: Option<Vec<u8>>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteReply {
    /// HTTP's status code; one that HTTP does not have becomes 500.
    pub status: u16,
    /// What the body is, as in `content-type`.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
    /// Further headers, by their names in small letters.
    pub headers: Vec<(&'static str, String)>,
}

/// An answer that may take a while. It is dropped if the browser goes away.
pub type SiteAnswer = Pin<Box<dyn Future<Output = SiteReply> + Send>>;

/// What answers. Called on the thread that serves, so it must not block: what takes long is a future.
pub trait BrowserSite: Send + Sync + 'static {
    /// Answers one request.
    fn answer(self: Arc<Self>, request: SiteRequest) -> SiteAnswer;
}

/// A site, as connections ask it.
pub(crate) struct SiteAnswers(pub(crate) Arc<dyn BrowserSite>);

impl Answers for SiteAnswers {
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send {
        let asked = asked(&request);
        async move {
            match asked {
                Ok(asked) => response(Arc::clone(&self.0).answer(asked).await),
                Err(refused) => *refused,
            }
        }
    }
}

/// The request without hyper's types; otherwise the answer that refuses it.
fn asked(request: &Request<Incoming>) -> Result<SiteRequest, Box<Response<Full<Bytes>>>> {
    let refused = |status, name, value| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = status;
        response.headers_mut().insert(name, HeaderValue::from_static(value));
        Box::new(response)
    };
    let method = match *request.method() {
        // Of an answer to HEAD, hyper sends no body.
        Method::GET | Method::HEAD => SiteMethod::Get,
        Method::POST => SiteMethod::Post,
        _ => return Err(refused(StatusCode::METHOD_NOT_ALLOWED, header::ALLOW, "GET, HEAD, POST")),
    };
    if !request.body().is_end_stream() {
        return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, header::CONNECTION, "close"));
    }
    let text = |name| text_of(request.headers(), name);
    let bearer = text(header::AUTHORIZATION);
    Ok(SiteRequest {
        method,
        path: request.uri().path().to_owned(),
        query: request.uri().query().map(str::to_owned),
        host: text(header::HOST),
        has: text(header::IF_NONE_MATCH),
        bearer: bearer.and_then(|value| value.strip_prefix("Bearer ").map(str::to_owned)),
        cookies: text(header::COOKIE),
        certificate: request.extensions().get::<PeerCertificate>().map(|peer| peer.0.clone()),
    })
}

fn text_of(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

fn response(reply: SiteReply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    for (name, value) in reply.headers {
        // A value that HTTP does not have would be a fault of the site's; without it the rest is of use still.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}
