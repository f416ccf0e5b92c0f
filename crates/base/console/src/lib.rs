//! The console: pages for an operator's browser, which read documents in JSON and draw them. It reads only.
//!
//! ```text
//! browser ─► Host known? ─┬─► a file of `files/`, which is in the binary
//!                         ├─► POST /session: a cookie for a token
//!                         └─► may it read? ─► ConsoleDocuments::document, one at a time for each name, and kept for two seconds or longer: many tabs cost one
//! ```
//!
//! [`ProcessSite`] is the page of one server or router: it has files only, and reads the reports beside it.
//!
//! Every answer has the headers that keep a page from loading, running or being framed by anything else. Nothing here knows what is
//! shown: the crate has files, headers and a memory of documents. No clock is read but for the age of a document.

mod files;
mod gate;
mod kept;
mod meant;
mod process;
mod under_way;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use admin::site::{BrowserSite, Bytes, SiteAnswer, SiteMethod, SiteReply, SiteRequest};
use os::clock::Stopwatch;

use files::{ConsoleFile, FilesOf};
pub use gate::ConsoleGate;
use gate::TOKEN_LIFETIME;
use kept::{KeptDocument, KeptDocuments};
use meant::MeantHost;
pub use process::ProcessSite;
use under_way::{Answered, AnswersUnderWay, UNDER_WAY_MAX};

/// A document, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// HTTP's status code.
    pub status: u16,
    /// JSON.
    pub json: String,
}

/// A document that may take a while.
pub type DocumentAnswer = Pin<Box<dyn Future<Output = Document> + Send>>;

/// A document that takes a disk a while: a thread of its own makes it, so that others are answered meanwhile.
pub fn made_apart(make: impl FnOnce() -> Document + Send + 'static) -> DocumentAnswer {
    Box::pin(async move {
        let failed = || Document { status: 500, json: "{\"error\":\"it could not be made\"}".to_owned() };
        tokio::task::spawn_blocking(make).await.unwrap_or_else(|_| failed())
    })
}

/// Where documents come from. Called on the thread that serves, so it must not block.
pub trait ConsoleDocuments: Send + Sync + 'static {
    /// The document at a path such as `/v1/summary`, with what follows the `?`; none if the console has no such path.
    fn document(&self, path: &str, query: Option<&str>) -> Option<DocumentAnswer>;
}

/// The site.
pub struct ConsoleSite<D> {
    documents: D,
    kept: KeptDocuments,
    under_way: AnswersUnderWay,
    /// Of those that may read because they are of this host.
    meant: Option<MeantHost>,
    readers: ConsoleReaders,
}

/// Who may read.
pub enum ConsoleReaders {
    /// Every browser of this host: those that know this program by an address, as `localhost`, or by this name.
    ThisHost(Option<String>),
    /// Browsers that come over TLS, with a token or a certificate. Any name will do: a page of somebody else's, with a name of its own that
    /// leads here (DNS rebinding), has neither our certificate nor our cookie.
    Admitted(Arc<ConsoleGate>),
}

/// What a browser may do with a page: run our own files, ask this program, and nothing else.
const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), usb=()"),
    ("cache-control", "no-store"),
];

const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";
/// Said to a browser that may not read. The page says how it may.
const NOT_ADMITTED: &str = "{\"error\":\"a token or a certificate of the fleet is needed\"}";
/// Where a token is exchanged for a cookie.
const SESSION: &str = "/session";

impl<D: ConsoleDocuments> ConsoleSite<D> {
    /// Of these documents, for these browsers.
    pub fn new(documents: D, readers: ConsoleReaders) -> ConsoleSite<D> {
        let (kept, under_way) = (KeptDocuments::default(), AnswersUnderWay::default());
        let meant = match &readers {
            ConsoleReaders::ThisHost(name) => Some(MeantHost::new(name.clone())),
            ConsoleReaders::Admitted(_) => None,
        };
        ConsoleSite { documents, kept, under_way, meant, readers }
    }

    /// The answer to a request that changes something: a token becomes a cookie.
    fn exchanged(&self, request: &SiteRequest) -> SiteReply {
        let ConsoleReaders::Admitted(gate) = &self.readers else {
            let mut reply =
                reply(405, PLAIN, "this console reads only, and asks nobody for a token\n".into());
            reply.headers.push(("allow", "GET, HEAD".to_owned()));
            return reply;
        };
        if request.path != SESSION {
            let mut reply = reply(405, PLAIN, format!("the console reads only, but for {SESSION}\n").into());
            reply.headers.push(("allow", "GET, HEAD".to_owned()));
            return reply;
        }
        let token = request.bearer.as_deref().unwrap_or_default();
        match gate.exchange(token) {
            Ok(Some(cookie)) => {
                let mut reply = reply(200, JSON, "{}".into());
                reply.headers.push(("set-cookie", cookie));
                reply
            }
            Ok(None) => {
                let minutes = TOKEN_LIFETIME.as_secs() / 60;
                let error = format!(
                    "{{\"error\":\"the token is not known: it can be used once, within {minutes} minutes, at the controller that \
                     has made it\"}}"
                );
                reply(401, JSON, error.into())
            }
            Err(error) => {
                reply(503, JSON, format!("{{\"error\":\"no random bytes for a cookie: {error}\"}}").into())
            }
        }
    }

    /// Whether the browser may read documents.
    fn may_read(&self, request: &SiteRequest) -> bool {
        match &self.readers {
            ConsoleReaders::ThisHost(_) => true,
            ConsoleReaders::Admitted(gate) => {
                gate.admits(request.cookies.as_deref(), request.certificate.as_deref())
            }
        }
    }

    /// Asks for a document, and keeps it if it is one.
    async fn ask(&self, name: &str, request: &SiteRequest) -> Option<Answered> {
        let answer = self.documents.document(&request.path, request.query.as_deref())?;
        let since = Stopwatch::start();
        let Document { status, json } = answer.await;
        let document = match status {
            200 => self.kept.keep(name.to_owned(), json, since.passed()),
            _ => KeptDocument::of(json),
        };
        Some(Answered { status, document })
    }
}

impl<D: ConsoleDocuments> BrowserSite for ConsoleSite<D> {
    fn answer(self: Arc<Self>, request: SiteRequest) -> SiteAnswer {
        Box::pin(async move {
            if let Some(refused) = self.meant.as_ref().and_then(|meant| meant.refusal(&request)) {
                return refused;
            }
            if request.method == SiteMethod::Post {
                return self.exchanged(&request);
            }
            if let Some(file) = FilesOf::Fleet.at(&request.path) {
                return file_reply(file, &request);
            }
            if !self.may_read(&request) {
                return reply(401, JSON, NOT_ADMITTED.into());
            }
            let name = match &request.query {
                Some(query) => format!("{}?{query}", request.path),
                None => request.path.clone(),
            };
            if let Some(kept) = self.kept.get(&name) {
                return tagged(JSON, kept.json, &kept.tag, &request);
            }
            let Some(shared) = self.under_way.join(&name) else {
                let text = format!("{{\"error\":\"{UNDER_WAY_MAX} other answers are on their way\"}}");
                let mut busy = reply(503, JSON, text.into());
                busy.headers.push(("retry-after", "1".to_owned()));
                return busy;
            };
            match shared.get_or_init(|| self.ask(&name, &request)).await.clone() {
                None => reply(404, PLAIN, "there is no such page; the console is at /\n".into()),
                Some(Answered { status: 200, document }) => {
                    tagged(JSON, document.json, &document.tag, &request)
                }
                Some(Answered { status, document }) => reply(status, JSON, document.json),
            }
        })
    }
}

fn file_reply(file: &'static ConsoleFile, request: &SiteRequest) -> SiteReply {
    tagged(file.content_type, Bytes::from_static(file.bytes), &file.tag(), request)
}

/// An answer with a tag, or none of its bytes if the browser has them.
fn tagged(content_type: &'static str, body: Bytes, tag: &str, request: &SiteRequest) -> SiteReply {
    let is_known = request.has.as_deref() == Some(tag);
    let (status, body) = if is_known { (304, Bytes::new()) } else { (200, body) };
    let mut reply = reply(status, content_type, body);
    reply.headers.push(("etag", tag.to_owned()));
    reply
}

fn reply(status: u16, content_type: &'static str, body: Bytes) -> SiteReply {
    let headers = HEADERS.map(|(name, value)| (name, value.to_owned())).to_vec();
    SiteReply { status, content_type, body, headers }
}

#[cfg(test)]
mod tests;
