//! A watch of etcd: a stream that is opened again where it ended, and that is not believed when it is silent.
//!
//! The stream is read when the caller asks, so it has no queue: what the caller does not take stays in etcd. After a
//! minute of silence a read tells whether something was missed; then the stream goes on at another member.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::foreign::{describe, is_foreign};
use super::lines::Lines;
use super::members::{CallFailure, Members, is_about_token};
use super::ranges::call;
use super::wire::{RangeRequest, Streamed, WatchCreate, WatchRequest, WatchResult, code, complaint, parse};
use crate::register::contents::RegisterEvent;
use crate::register::contract::WatchStep;
use crate::register::error::RegisterError;
use crate::register::keys::KeyPrefix;
use crate::register::numbers::Revision;
use http_client::HttpAnswer;

/// Pause before a stream is opened again that gave nothing: a cluster that cancels every watch is not asked without end.
const PAUSE: Duration = Duration::from_millis(100);

/// What etcd says to a user without the right.
const DENIED: &str = "permission denied";

/// Whether a new token may help a watch: to one that it does not know, etcd says either.
fn is_about_user(reason: &str) -> bool {
    is_about_token(reason) || reason.contains(DENIED)
}

/// Where a watch is.
#[derive(Clone, Debug)]
pub(super) struct Position {
    pub prefix: KeyPrefix,
    /// All changes up to here were told.
    pub after: Revision,
    /// Keys below the prefix at that revision, once it is known.
    count: Option<i64>,
    compacted: Option<Revision>,
}

impl Position {
    pub(super) fn new(prefix: &KeyPrefix, after: Revision) -> Position {
        let compacted = None;
        // Before its first change an etcd has no key; and its revision 0 would mean "now".
        let after = after.max(Revision::FIRST);
        let count = (after == Revision::FIRST).then_some(0);
        Position { prefix: prefix.clone(), after, count, compacted }
    }
}

/// A watch between two calls.
pub(super) struct WatchState {
    pub position: Position,
    stream: Option<Stream>,
    /// When the stream was heard or checked last.
    heard: Instant,
    /// Whether a refusal of this user is one with a new token.
    token_renewed: bool,
}

struct Stream {
    member: usize,
    url: String,
    answer: HttpAnswer,
    lines: Lines,
    /// Changes of a message that came in parts, and has not ended.
    parts: Parts,
}

/// Changes, and by how much they change the number of keys.
#[derive(Default)]
struct Parts {
    events: Vec<RegisterEvent>,
    len: usize,
    keys: i64,
}

/// What reading a stream gave.
enum Heard {
    Message(WatchResult),
    Complaint(String),
    /// It is no stream of etcd's.
    Foreign(String),
    End,
    Nothing,
}

impl WatchState {
    pub(super) fn new(position: Position) -> WatchState {
        WatchState { position, stream: None, heard: Instant::now(), token_renewed: false }
    }

    /// The next step, at the latest at `until` and the time of a call after it.
    pub(super) async fn next(
        &mut self,
        members: &Members,
        until: Instant,
    ) -> Result<WatchStep, RegisterError> {
        loop {
            if let Some(compacted) = self.position.compacted {
                return Ok(WatchStep::Compacted(compacted));
            }
            if self.stream.is_none() && !self.open(members).await? {
                continue;
            }
            let silent = self.heard + members.limits.silence;
            match self.hear(members, until.min(silent)).await? {
                Heard::Message(message) => {
                    self.heard = Instant::now();
                    if let Some(step) = self.take(members, message)? {
                        return Ok(step);
                    }
                }
                Heard::Complaint(message) => self.complained(members, message).await?,
                Heard::Foreign(_) | Heard::End => self.leave(members),
                Heard::Nothing if Instant::now() >= silent => self.check(members).await?,
                Heard::Nothing => return Ok(WatchStep::Quiet),
            }
            if self.stream.is_none() {
                // Only of an open stream can be said that nothing has changed.
                if Instant::now() >= until + members.limits.operation {
                    return Err(RegisterError::Unavailable(
                        "each watch ends as soon as it begins".to_owned(),
                    ));
                }
                sleep(PAUSE).await;
            }
        }
    }

    /// Opens the stream after the position; whether it is open.
    async fn open(&mut self, members: &Members) -> Result<bool, RegisterError> {
        let deadline = members.deadline();
        if self.position.count.is_none() && !self.count(members, deadline).await? {
            return Ok(false);
        }
        let mut why = "no member begins a watch".to_owned();
        let position = &self.position;
        // From the last known change itself: at a compacted revision etcd may have forgotten a delete of that revision
        // without saying so, but not of the one after it. What is known is passed over.
        let create = WatchCreate {
            key: code(position.prefix.as_str()),
            range_end: code(position.prefix.end()),
            start_revision: position.after.0.to_string(),
            progress_notify: true,
            fragment: true,
        };
        loop {
            let (member, url, answer) =
                members.open("/v3/watch", &WatchRequest { create_request: create.clone() }, deadline).await?;
            let (lines, parts) = (Lines::default(), Parts::default());
            self.stream = Some(Stream { member, url, answer, lines, parts });
            self.heard = Instant::now();
            // The first message says that the watch is there. A member that does not send it is not one to wait for.
            match self.hear(members, Instant::now() + members.limits.attempt).await? {
                Heard::Message(message) => {
                    let found = message.header.revision;
                    if found != Revision::ABSENT && found < self.position.after {
                        self.confirm(members, deadline).await?;
                    }
                    if message.created && !message.canceled {
                        self.token_renewed = false;
                        return Ok(true);
                    }
                    self.take(members, message)?;
                    return Ok(self.stream.is_some());
                }
                Heard::Complaint(message) => self.complained(members, message).await?,
                Heard::Foreign(found) => {
                    self.leave(members);
                    why = format!("no member begins a watch: {found}");
                }
                Heard::End | Heard::Nothing => self.leave(members),
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(RegisterError::Unavailable(why));
            }
            sleep(PAUSE).await;
        }
    }

    /// Asks whether the register has the position. A member says its own revision when a watch begins, and may lag behind the
    /// others; then it tells what it has missed when it has it. Only a linearizable read knows whether the register went back.
    async fn confirm(&mut self, members: &Members, deadline: Instant) -> Result<(), RegisterError> {
        let (had, request) = (self.position.after, RangeRequest { count_only: true, ..self.range() });
        let answer = call(members, &request, members.limits.answer_len, deadline).await;
        let found = answer.map_err(RegisterError::from).map(|answer| answer.header.revision);
        match found {
            Ok(found) if found >= had => Ok(()),
            other => {
                self.stream = None;
                Err(other.map_or_else(|error| error, |found| RegisterError::WentBack { had, found }))
            }
        }
    }

    /// Counts the keys at the position; whether that revision is still there.
    async fn count(&mut self, members: &Members, deadline: Instant) -> Result<bool, RegisterError> {
        let request = RangeRequest { count_only: true, revision: self.position.after.0, ..self.range() };
        match call(members, &request, members.limits.answer_len, deadline).await {
            Ok(answer) => self.position.count = Some(answer.count),
            // The stream will say up to where.
            Err(CallFailure::Compacted) => self.position.count = Some(0),
            Err(failure) => return Err(failure.into()),
        }
        Ok(true)
    }

    fn range(&self) -> RangeRequest {
        let prefix = &self.position.prefix;
        RangeRequest {
            key: code(prefix.as_str()),
            range_end: Some(code(prefix.end())),
            ..RangeRequest::default()
        }
    }

    async fn hear(&mut self, members: &Members, until: Instant) -> Result<Heard, RegisterError> {
        let stream = self.stream.as_mut().expect("it was opened");
        loop {
            if is_foreign(stream.lines.rest()) {
                let found = describe(&stream.url, stream.answer.status, stream.lines.rest());
                return Ok(Heard::Foreign(found));
            }
            if let Some(line) = stream.lines.next() {
                if let Some(complaint) = complaint(&line) {
                    if is_about_token(&complaint.message) {
                        members.set_token(None);
                    }
                    return Ok(Heard::Complaint(complaint.message));
                }
                return Ok(Heard::Message(parse::<Streamed<WatchResult>>("a watch", &line)?.result));
            }
            match timeout_at(until, stream.answer.piece()).await {
                Err(_) => return Ok(Heard::Nothing),
                // A killed member ends its stream without a last chunk; an orderly end is no better.
                Ok(Err(_) | Ok(None)) => return Ok(Heard::End),
                Ok(Ok(Some(piece))) => {
                    if !stream.lines.push(&piece, members.limits.answer_len) {
                        self.stream = None;
                        return Err(self.too_large(members));
                    }
                }
            }
        }
    }

    /// What follows from a message.
    fn take(&mut self, members: &Members, message: WatchResult) -> Result<Option<WatchStep>, RegisterError> {
        if message.canceled {
            self.stream = None;
            return match u64::try_from(message.compact_revision) {
                Ok(revision) if revision > 0 => {
                    self.position.compacted = Some(Revision(revision));
                    Ok(Some(WatchStep::Compacted(Revision(revision))))
                }
                _ if is_about_user(&message.cancel_reason) && !self.token_renewed => {
                    members.set_token(None);
                    self.token_renewed = true;
                    Ok(None)
                }
                _ => {
                    self.token_renewed = false;
                    Err(RegisterError::Refused(format!("etcd cancels a watch: {}", message.cancel_reason)))
                }
            };
        }
        if message.events.is_empty() && !message.created && !message.fragment {
            // Progress: all changes up to this revision were sent.
            self.position.after = self.position.after.max(message.header.revision);
            return Ok(None);
        }
        let stream = self.stream.as_mut().expect("the message came from it");
        for event in message.events {
            let is_new = event.kv.mod_revision == event.kv.create_revision;
            let keys = if event.is_delete()? { -1 } else { i64::from(is_new) };
            let event = event.event()?;
            if event.revision <= self.position.after || !self.position.prefix.covers(&event.key) {
                continue;
            }
            stream.parts.keys += keys;
            stream.parts.len +=
                event.key.as_str().len() + event.value.as_ref().map_or(0, |value| value.len());
            stream.parts.events.push(event);
        }
        if stream.parts.len > members.limits.range_len {
            self.stream = None;
            return Err(self.too_large(members));
        }
        if message.fragment {
            return Ok(None);
        }
        let Parts { events, keys, .. } = std::mem::take(&mut stream.parts);
        let Some(last) = events.last() else { return Ok(None) };
        self.position.after = last.revision;
        self.position.count = self.position.count.map(|count| count + keys);
        Ok(Some(WatchStep::Changes(events)))
    }

    fn too_large(&self, members: &Members) -> RegisterError {
        let what = format!("the changes below {}", self.position.prefix);
        RegisterError::TooLarge { what, max: members.limits.answer_len, unit: "bytes" }
    }

    /// Gives up a stream whose member complains inside it. A complaint about the token is worth a new one.
    async fn complained(&mut self, members: &Members, message: String) -> Result<(), RegisterError> {
        self.leave(members);
        match message {
            message if message.contains(DENIED) => {
                Err(RegisterError::Refused(format!("etcd ends a watch: {message}")))
            }
            _ => Ok(()),
        }
    }

    /// Goes on at another member.
    fn leave(&mut self, members: &Members) {
        if let Some(stream) = self.stream.take() {
            members.avoid(stream.member);
        }
    }

    /// Asks whether a silent stream has missed something.
    async fn check(&mut self, members: &Members) -> Result<(), RegisterError> {
        let after = self.position.after;
        let request =
            RangeRequest { min_mod_revision: after.next().0, limit: 1, keys_only: true, ..self.range() };
        let answer = call(members, &request, members.limits.answer_len, members.deadline()).await?;
        if answer.header.revision < after {
            return Err(RegisterError::WentBack { had: after, found: answer.header.revision });
        }
        // A key that was written later, or fewer keys, which a delete leaves.
        match answer.kvs.is_empty() && Some(answer.count) == self.position.count {
            true => self.heard = Instant::now(),
            false => self.leave(members),
        }
        Ok(())
    }
}
