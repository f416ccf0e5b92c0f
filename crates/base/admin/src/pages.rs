//! The pages, and how they become replies.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::Instant;

use crate::Source;
use crate::answers::Answers;
use crate::site::{BrowserSite, SiteAnswers};

/// Prometheus' text format. Scrapers that would prefer OpenMetrics take it, too; families keep the names that
/// dashboards know, which OpenMetrics would not allow for all of them.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

const INDEX: &str = "\
/metrics        for Prometheus
/healthz        200 while this endpoint is served
/readyz         200 while the program does its work, otherwise 503 and why
/api/v1/stats   the same figures in JSON
";

/// Paths of pages; reports have others.
const PAGES: [&str; 4] = ["/", "/metrics", "/healthz", "/readyz"];
/// What browsers accept, and programs that scrape do not ask for.
const HTML: &str = "text/html";

/// The pages, and those that were built last.
pub(crate) struct AdminPages {
    source: Arc<dyn Source>,
    /// Pages for browsers, at `/` and at paths that are none of these.
    site: Option<Arc<SiteAnswers>>,
    page_age: Duration,
    /// By name; only pages that exist, so that clients cannot make it grow.
    kept: Mutex<HashMap<String, (Instant, Bytes)>>,
}

impl AdminPages {
    pub(crate) fn new(
        source: Arc<dyn Source>,
        site: Option<Arc<dyn BrowserSite>>,
        page_age: Duration,
    ) -> AdminPages {
        let site = site.map(|site| Arc::new(SiteAnswers(site)));
        AdminPages { source, site, page_age, kept: Mutex::default() }
    }

    /// The site, if a browser asks for what is no page of ours. Of `/` others get a list of what there is.
    fn site_for(&self, request: &Request<Incoming>) -> Option<Arc<SiteAnswers>> {
        let site = self.site.as_ref()?;
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        let is_the_sites = match request.uri().path() {
            "/" => accepts_html(request),
            path => !path.starts_with("/api/") && !PAGES.contains(&path),
        };
        is_the_sites.then(|| Arc::clone(site))
    }

    /// No page takes a body: the request is refused before one is read.
    fn reply_to(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !request.body().is_end_stream() {
            let refused = reply(StatusCode::PAYLOAD_TOO_LARGE, PLAIN, "no page takes a body\n");
            return with(refused, header::CONNECTION, "close");
        }
        let path = request.uri().path();
        let report = path.strip_prefix("/api/v1/").filter(|name| !name.is_empty() && !name.contains('/'));
        if report.is_none() && !PAGES.contains(&path) {
            return reply(StatusCode::NOT_FOUND, PLAIN, "not found; / lists what there is\n");
        }
        // Of an answer to HEAD, hyper sends no body.
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return with(reply(StatusCode::METHOD_NOT_ALLOWED, PLAIN, ""), header::ALLOW, "GET, HEAD");
        }
        match (report, path) {
            (Some(name), _) => self.report(name),
            (None, "/metrics") => self.metrics(),
            (None, "/healthz") => reply(StatusCode::OK, PLAIN, "ok\n"),
            (None, "/readyz") => self.readiness(),
            (None, _) => reply(StatusCode::OK, PLAIN, INDEX),
        }
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let page = self.page("metrics", || Some(self.source.metrics())).unwrap_or_default();
        reply(StatusCode::OK, TEXT_FORMAT, page)
    }

    fn readiness(&self) -> Response<Full<Bytes>> {
        match self.source.readiness() {
            Ok(()) => reply(StatusCode::OK, PLAIN, "ready\n"),
            Err(why) => reply(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("not ready: {why}\n")),
        }
    }

    fn report(&self, name: &str) -> Response<Full<Bytes>> {
        // With a prefix, so that no report has the name of another page.
        match self.page(&format!("report {name}"), || self.source.report(name)) {
            Some(page) => reply(StatusCode::OK, JSON, page),
            None => reply(StatusCode::NOT_FOUND, PLAIN, "no such report\n"),
        }
    }

    /// A page that is not too old, or a new one.
    fn page(&self, name: &str, build: impl FnOnce() -> Option<String>) -> Option<Bytes> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((built, page)) = kept.get(name)
            && built.elapsed() < self.page_age
        {
            return Some(page.clone());
        }
        let page = Bytes::from(build()?);
        kept.insert(name.to_owned(), (Instant::now(), page.clone()));
        Some(page)
    }
}

impl Answers for AdminPages {
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send {
        let answer = match self.site_for(&request) {
            Some(site) => Ok(site.answer(request)),
            None => Err(self.reply_to(&request)),
        };
        async move {
            match answer {
                Ok(page) => page.await,
                Err(reply) => reply,
            }
        }
    }
}

fn accepts_html(request: &Request<Incoming>) -> bool {
    let accepted = request.headers().get_all(header::ACCEPT);
    accepted.iter().filter_map(|value| value.to_str().ok()).any(|value| value.contains(HTML))
}

fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let reply = with(reply, header::CONTENT_TYPE, content_type);
    let reply = with(reply, header::CACHE_CONTROL, "no-store");
    // A browser must not take a page for anything but text.
    with(reply, header::X_CONTENT_TYPE_OPTIONS, "nosniff")
}

fn with(mut reply: Response<Full<Bytes>>, name: HeaderName, value: &'static str) -> Response<Full<Bytes>> {
    reply.headers_mut().insert(name, HeaderValue::from_static(value));
    reply
}
