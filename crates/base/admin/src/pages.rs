//! The pages, and how they become replies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::time::Instant;

use crate::Source;

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

pub(crate) fn router(source: Arc<dyn Source>, page_age: Duration) -> Router {
    let site = Arc::new(Site { source, page_age, kept: Mutex::default() });
    Router::new()
        .route("/", get(async || reply(StatusCode::OK, PLAIN, INDEX)))
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || reply(StatusCode::OK, PLAIN, "ok\n")))
        .route("/readyz", get(readiness))
        .route("/api/v1/{name}", get(report))
        .fallback(async || reply(StatusCode::NOT_FOUND, PLAIN, "not found; / lists what there is\n"))
        .layer(from_fn(refuse_bodies))
        .with_state(site)
}

/// The pages that were built last.
struct Site {
    source: Arc<dyn Source>,
    page_age: Duration,
    /// By name; only pages that exist, so that clients cannot make it grow.
    kept: Mutex<HashMap<String, (Instant, Bytes)>>,
}

impl Site {
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

async fn metrics(State(site): State<Arc<Site>>) -> Response {
    let page = site.page("metrics", || Some(site.source.metrics())).unwrap_or_default();
    reply(StatusCode::OK, TEXT_FORMAT, page)
}

async fn readiness(State(site): State<Arc<Site>>) -> Response {
    match site.source.readiness() {
        Ok(()) => reply(StatusCode::OK, PLAIN, "ready\n"),
        Err(why) => reply(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("not ready: {why}\n")),
    }
}

async fn report(State(site): State<Arc<Site>>, Path(name): Path<String>) -> Response {
    // With a prefix, so that no report has the name of another page.
    match site.page(&format!("report {name}"), || site.source.report(&name)) {
        Some(page) => reply(StatusCode::OK, JSON, page),
        None => reply(StatusCode::NOT_FOUND, PLAIN, "no such report\n"),
    }
}

/// No page takes a body: the request is refused before one is read.
async fn refuse_bodies(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let mut refused = reply(StatusCode::PAYLOAD_TOO_LARGE, PLAIN, "no page takes a body\n");
    refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    refused
}

fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        // A browser must not take a page for anything but text.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, body.into()).into_response()
}
