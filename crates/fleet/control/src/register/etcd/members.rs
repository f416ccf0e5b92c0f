//! Calls of etcd's members: each attempt has little time, then the next member is asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use hyper::header::AUTHORIZATION;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout};

use super::foreign::{describe, is_foreign};
use super::settings::{EtcdLimits, EtcdSettings, EtcdUser, clients};
use super::wire::{Complaint, TokenResponse, body, complaint, parse};
use crate::register::error::RegisterError;
use http_client::{HttpAnswer, HttpClient, HttpFault};

/// Pause when all members were asked in vain, so that a cluster that refuses connections is not asked without end.
const PAUSE: Duration = Duration::from_millis(100);

/// Characters of each member's failure in a message.
const WHY_LEN_MAX: usize = 200;

/// The members, and which of them answered last.
pub(super) struct Members {
    members: Vec<HttpClient>,
    /// The one that is asked first.
    first: AtomicUsize,
    user: Option<EtcdUser>,
    token: Mutex<Option<String>>,
    pub(super) limits: EtcdLimits,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// No member took it; or none answered, if it is one that may be made again.
    NotReached(String),
    /// A member may have taken it, and it must not be made again.
    InDoubt(String),
    /// etcd says that there is no such lease.
    NoLease,
    /// etcd says that the revision is compacted.
    Compacted,
    /// The answer is longer than was allowed.
    TooLong,
    /// All others.
    Other(RegisterError),
}

impl From<CallFailure> for RegisterError {
    /// For calls that may be made twice.
    fn from(failure: CallFailure) -> RegisterError {
        match failure {
            CallFailure::NotReached(why) | CallFailure::InDoubt(why) => RegisterError::Unavailable(why),
            CallFailure::NoLease => RegisterError::Refused("there is no such lease".to_owned()),
            CallFailure::Compacted => RegisterError::Refused("that revision is compacted".to_owned()),
            CallFailure::TooLong => {
                RegisterError::Answer("an answer of etcd is longer than any that was asked for".to_owned())
            }
            CallFailure::Other(error) => error,
        }
    }
}

/// What one attempt met.
enum AttemptFailure {
    NotReached(String),
    InDoubt(String),
    TokenRefused(String),
    Final(CallFailure),
}

/// A call as it is sent.
struct Call<'c> {
    path: &'c str,
    request: Vec<u8>,
    repeat: Repeat,
    /// The longest answer; none: only its beginning is waited for.
    len_max: Option<usize>,
}

/// An answer whose body is still to come, and what was asked.
struct Begun {
    url: String,
    answer: HttpAnswer,
}

enum Answer {
    Whole(Vec<u8>),
    Begun(Begun),
}

/// Whether a call that may have been taken is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Twice is as good as once.
    Freely,
    /// The caller must look first.
    Never,
}

impl Members {
    pub(super) fn new(settings: &EtcdSettings) -> Result<Members, RegisterError> {
        Ok(Members {
            members: clients(settings)?,
            first: AtomicUsize::new(0),
            user: settings.user.clone(),
            token: Mutex::default(),
            limits: settings.limits,
        })
    }

    /// The moment when a call must have ended.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.limits.operation
    }

    /// Makes a call until a member answers, at the latest until `deadline` and the time of an attempt.
    pub(super) async fn call(
        &self,
        path: &str,
        request: &(impl Serialize + Sync),
        repeat: Repeat,
        len_max: usize,
        deadline: Instant,
    ) -> Result<Vec<u8>, CallFailure> {
        let call = Call { path, request: body(request), repeat, len_max: Some(len_max) };
        match self.each_member(&call, deadline).await?.1 {
            Answer::Whole(answer) => Ok(answer),
            Answer::Begun(_) => unreachable!("it was asked for whole"),
        }
    }

    /// Begins a stream; returns it with the number of its member.
    pub(super) async fn open(
        &self,
        path: &str,
        request: &(impl Serialize + Sync),
        deadline: Instant,
    ) -> Result<(usize, String, HttpAnswer), CallFailure> {
        let call = Call { path, request: body(request), repeat: Repeat::Freely, len_max: None };
        match self.each_member(&call, deadline).await? {
            (member, Answer::Begun(Begun { url, answer })) => Ok((member, url, answer)),
            (_, Answer::Whole(_)) => unreachable!("it was not asked for whole"),
        }
    }

    /// Asks another member first from now on, if this one is the first.
    pub(super) fn avoid(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        // Otherwise somebody else has gone on already.
        let _ = self.first.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    async fn each_member(&self, call: &Call<'_>, deadline: Instant) -> Result<(usize, Answer), CallFailure> {
        let (mut attempts, mut renewed) = (0, false);
        let mut failures: Vec<Option<String>> = vec![None; self.members.len()];
        loop {
            let member = self.first.load(Ordering::Relaxed);
            let failure = match self.attempt(&self.members[member], call, deadline).await {
                Ok(answer) => return Ok((member, answer)),
                Err(AttemptFailure::Final(failure)) => return Err(failure),
                Err(AttemptFailure::TokenRefused(why)) if renewed => {
                    return Err(CallFailure::Other(RegisterError::Refused(why)));
                }
                Err(AttemptFailure::TokenRefused(_)) => {
                    renewed = true;
                    self.set_token(None);
                    continue;
                }
                Err(AttemptFailure::InDoubt(why)) if call.repeat == Repeat::Never => {
                    self.avoid(member);
                    return Err(CallFailure::InDoubt(why));
                }
                Err(AttemptFailure::NotReached(why) | AttemptFailure::InDoubt(why)) => why,
            };
            self.avoid(member);
            failures[member] = Some(failure);
            attempts += 1;
            let pause = if attempts % self.members.len() == 0 { PAUSE } else { Duration::ZERO };
            if Instant::now() + pause >= deadline {
                // The last failure of each member: one of them may be what must be mended.
                let failures: Vec<String> = failures.into_iter().flatten().collect();
                return Err(CallFailure::NotReached(failures.join("; ")));
            }
            if !pause.is_zero() {
                sleep(pause).await;
            }
        }
    }

    async fn attempt(
        &self,
        at: &HttpClient,
        call: &Call<'_>,
        deadline: Instant,
    ) -> Result<Answer, AttemptFailure> {
        if let Some(user) = self.user.as_ref().filter(|_| self.token().is_none()) {
            let token = self.authenticate(at, user).await.map_err(|failure| match failure {
                // Nothing of the call itself was sent.
                AttemptFailure::InDoubt(why) => AttemptFailure::NotReached(why),
                AttemptFailure::TokenRefused(why) => {
                    AttemptFailure::Final(CallFailure::Other(RegisterError::Refused(why)))
                }
                other => other,
            })?;
            self.set_token(Some(token));
        }
        // Answers of many pieces have the time of an attempt for each piece, and this for all.
        let left = deadline.saturating_duration_since(Instant::now()) + self.limits.attempt;
        let over = || AttemptFailure::InDoubt(shorten(&format!("{}: no whole answer in time", at.place())));
        timeout(left, self.ask(at, call)).await.unwrap_or_else(|_| Err(over()))
    }

    async fn ask(&self, at: &HttpClient, call: &Call<'_>) -> Result<Answer, AttemptFailure> {
        let begun = self.send(at, call.path, call.request.clone()).await?;
        match call.len_max {
            Some(len_max) => Ok(Answer::Whole(self.read(begun, len_max).await?)),
            None => Ok(Answer::Begun(begun)),
        }
    }

    /// Sends a request; returns when the answer begins.
    async fn send(&self, at: &HttpClient, path: &str, request: Vec<u8>) -> Result<Begun, AttemptFailure> {
        let (url, token) = (format!("{}{path}", at.place()), self.token());
        let header = token.as_ref().map(|token| (AUTHORIZATION, token.as_str()));
        let request = at.send(Method::POST, path, header, request);
        let answer = match timeout(self.limits.attempt, request).await {
            Err(_) => return Err(in_doubt(&url, &format!("no answer within {:?}", self.limits.attempt))),
            Ok(Err(error @ (HttpFault::Connect(_) | HttpFault::Request(_)))) => {
                return Err(AttemptFailure::NotReached(shorten(&format!("{url}: {}", chain(&error)))));
            }
            Ok(Err(error)) => return Err(in_doubt(&url, &chain(&error))),
            Ok(Ok(answer)) => answer,
        };
        let status = answer.status;
        let mut begun = Begun { url, answer };
        if status.is_success() {
            return Ok(begun);
        }
        let answer = self.pieces(&mut begun, COMPLAINT_LEN_MAX).await?;
        let Begun { url, .. } = begun;
        Err(match complaint(&answer) {
            Some(complaint) => judge(&url, complaint),
            // Of a proxy, perhaps, whose etcd has the request.
            None if status.is_server_error() => in_doubt(&url, &status.to_string()),
            None => AttemptFailure::NotReached(describe(&url, status, &answer)),
        })
    }

    /// A whole answer.
    async fn read(&self, mut begun: Begun, len_max: usize) -> Result<Vec<u8>, AttemptFailure> {
        let answer = self.pieces(&mut begun, len_max).await?;
        let Begun { url, answer: HttpAnswer { status, .. } } = begun;
        match complaint(&answer) {
            Some(complaint) => Err(judge(&url, complaint)),
            // A proxy may have passed the request on, and have put its own page in the place of the answer.
            None if answer.trim_ascii().is_empty() || is_foreign(&answer) => {
                Err(AttemptFailure::InDoubt(describe(&url, status, &answer)))
            }
            None => Ok(answer),
        }
    }

    /// All pieces of an answer, or the first ones of what is no answer of etcd.
    async fn pieces(&self, begun: &mut Begun, len_max: usize) -> Result<Vec<u8>, AttemptFailure> {
        let Begun { url, answer: begun } = begun;
        let mut answer = Vec::new();
        loop {
            match timeout(self.limits.attempt, begun.piece()).await {
                Err(_) => return Err(in_doubt(url, "its answer does not go on")),
                Ok(Err(error)) => return Err(in_doubt(url, &chain(&error))),
                Ok(Ok(None)) => return Ok(answer),
                Ok(Ok(Some(piece))) if answer.trim_ascii().is_empty() && is_foreign(&piece) => {
                    return Ok(piece.to_vec());
                }
                Ok(Ok(Some(piece))) if answer.len() + piece.len() > len_max => {
                    return Err(AttemptFailure::Final(CallFailure::TooLong));
                }
                Ok(Ok(Some(piece))) => answer.extend_from_slice(&piece),
            }
        }
    }

    async fn authenticate(&self, at: &HttpClient, user: &EtcdUser) -> Result<String, AttemptFailure> {
        let request = body(&serde_json::json!({ "name": user.name, "password": user.password }));
        let begun = self.send(at, "/v3/auth/authenticate", request).await?;
        let answer = self.read(begun, COMPLAINT_LEN_MAX).await?;
        let answer = parse::<TokenResponse>("an authentication", &answer);
        Ok(answer.map_err(|error| AttemptFailure::Final(CallFailure::Other(error)))?.token)
    }

    fn token(&self) -> Option<String> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// For streams, whose complaints come later than their beginning.
    pub(super) fn set_token(&self, token: Option<String>) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }
}

/// Bytes of an answer that is not the one that was asked for.
const COMPLAINT_LEN_MAX: usize = 64 << 10;

/// What follows from a complaint.
///
/// Only statuses by which etcd itself says no are refusals: a wrong argument, something that is not there or is there
/// already, no right, a wrong state, a revision out of range, an unknown call. All others leave open what happened, most of
/// all 1 (cancelled), 2 (unknown: whatever etcd has no status for), 4 (too late), 14 (no leader, or another one); and 8 is
/// also the answer to a write that etcd carried out beyond its quota.
fn judge(url: &str, complaint: Complaint) -> AttemptFailure {
    let why = shorten(&format!("{url}: {}", complaint.message));
    if is_about_token(&complaint.message) {
        return AttemptFailure::TokenRefused(why);
    }
    if complaint.message.contains("requested lease not found") {
        return AttemptFailure::Final(CallFailure::NoLease);
    }
    if complaint.message.contains("revision has been compacted") {
        return AttemptFailure::Final(CallFailure::Compacted);
    }
    match complaint.status {
        Some(3 | 5 | 6 | 7 | 9 | 11 | 12 | 16) => {
            AttemptFailure::Final(CallFailure::Other(RegisterError::Refused(why)))
        }
        _ => AttemptFailure::InDoubt(why),
    }
}

/// Whether a new token may help: the old one is forgotten (a restart, 5 minutes), or users have changed since.
pub(super) fn is_about_token(message: &str) -> bool {
    ["invalid auth token", "revision of auth store is old"].iter().any(|it| message.contains(it))
}

fn in_doubt(url: &str, why: &str) -> AttemptFailure {
    AttemptFailure::InDoubt(shorten(&format!("{url}: {why}")))
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}

fn shorten(why: &str) -> String {
    why.chars().take(WHY_LEN_MAX).collect()
}
