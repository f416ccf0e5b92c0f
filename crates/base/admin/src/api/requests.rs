//! Requests of the API: from hyper's form to ours, and the answer back.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Api, ApiLimits, ApiMethod, ApiPeer, ApiReply, ApiRequest};

const JSON: &str = "application/json";
/// When to come again with a body for which there is no room.
const RETRY_AFTER_S: u32 = 2;

/// Answers one request. An error is for the client, never for the connection's task.
pub(super) async fn respond(
    api: Arc<dyn Api>,
    limits: ApiLimits,
    bodies: Arc<Semaphore>,
    peer: ApiPeer,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let method = match head.method {
        Method::GET => ApiMethod::Get,
        Method::POST => ApiMethod::Post,
        _ => return Ok(refused(StatusCode::METHOD_NOT_ALLOWED, "expected GET or POST")),
    };
    let of_strangers = if peer == ApiPeer::Unknown { limits.stranger_body_len } else { usize::MAX };
    let most = limits.body_len.min(of_strangers);
    let announced = head.headers.get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    // A body without an announced length may have the most; without a body there is neither.
    let len = announced.unwrap_or(if body.is_end_stream() { 0 } else { most as u64 });
    if len > most as u64 {
        return Ok(too_long(most));
    }
    let Ok(room) = bodies.try_acquire_many(u32::try_from(len).unwrap_or(u32::MAX)) else {
        return Ok(no_room());
    };
    let body = match timeout(limits.body_time, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Vec::from(body.to_bytes()),
        // A body that is longer than announced, or without an end; a broken one has no reader for this.
        Ok(Err(_)) => return Ok(too_long(most)),
        Err(_) => return Ok(refused(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    };
    drop(room);
    if method == ApiMethod::Get && !body.is_empty() {
        return Ok(refused(StatusCode::BAD_REQUEST, "a GET has no body"));
    }
    let (path, query) = (head.uri.path().to_owned(), head.uri.query().map(str::to_owned));
    let request = ApiRequest { method, path, query, body, peer };
    Ok(response(api.answer(request).await))
}

/// Others send so much at this moment that this body would be too much.
fn no_room() -> Response<Full<Bytes>> {
    let mut response =
        refused(StatusCode::SERVICE_UNAVAILABLE, "too much is being sent at this moment; come again");
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    response
}

fn too_long(most: usize) -> Response<Full<Bytes>> {
    refused(StatusCode::PAYLOAD_TOO_LARGE, &format!("expected a whole body of at most {most} bytes"))
}

/// An error before the API is asked. What is left of the request is not read.
fn refused(status: StatusCode, error: &str) -> Response<Full<Bytes>> {
    let mut response = response(ApiReply::new(status.as_u16(), format!("{{\"error\":\"{error}\"}}\n")));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn response(reply: ApiReply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(reply.json));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = reply.retry_after_s {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
