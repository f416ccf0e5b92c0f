//! The console: pages for an operator's browser, which read documents in JSON and draw them. It reads only.
//!
//! ```text
//! browser ─► Host known? ─┬─► a file of `files/`, which is in the binary
//!                         └─► ConsoleDocuments::document, one at a time for each name, and kept for a second: many tabs cost one
//! ```
//!
//! [`ProcessSite`] is the page of one server or router: it has files only, and reads the reports beside it.
//!
//! Every answer has the headers that keep a page from loading, running or being framed by anything else. Nothing here knows what is
//! shown: the crate has files, headers and a memory of documents. No clock is read but for the age of a document.

mod files;
mod kept;
mod meant;
mod process;
mod under_way;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use admin::site::{BrowserSite, Bytes, SiteAnswer, SiteReply, SiteRequest};

use files::{ConsoleFile, FilesOf};
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
    meant: MeantHost,
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

impl<D: ConsoleDocuments> ConsoleSite<D> {
    /// Of these documents, for browsers that know this program by an address, as `localhost`, or by this name.
    pub fn new(documents: D, name: Option<String>) -> ConsoleSite<D> {
        let (kept, under_way) = (KeptDocuments::default(), AnswersUnderWay::default());
        ConsoleSite { documents, kept, under_way, meant: MeantHost::new(name) }
    }

    /// Asks for a document, and keeps it if it is one.
    async fn ask(&self, name: &str, request: &SiteRequest) -> Option<Answered> {
        let answer = self.documents.document(&request.path, request.query.as_deref())?;
        let Document { status, json } = answer.await;
        let document = match status {
            200 => self.kept.keep(name.to_owned(), json),
            _ => KeptDocument::of(json),
        };
        Some(Answered { status, document })
    }
}

impl<D: ConsoleDocuments> BrowserSite for ConsoleSite<D> {
    fn answer(self: Arc<Self>, request: SiteRequest) -> SiteAnswer {
        Box::pin(async move {
            if let Some(refused) = self.meant.refusal(&request) {
                return refused;
            }
            if let Some(file) = FilesOf::Fleet.at(&request.path) {
                return file_reply(file, &request);
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
