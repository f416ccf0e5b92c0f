//! Ranges of etcd: all parts at one revision, or an error.

use tokio::time::Instant;

use super::members::{CallFailure, Members, Repeat};
use super::wire::{RangeRequest, RangeResponse, code, parse};
use crate::register::contents::RegisterEntry;
use crate::register::contract::RangeAnswer;
use crate::register::error::RegisterError;
use crate::register::keys::{KeyPrefix, RegisterKey};
use crate::register::numbers::Revision;

/// The path of ranges.
pub(super) const RANGE: &str = "/v3/kv/range";

/// A key's value, and the register's revision.
pub(super) async fn get(
    members: &Members,
    key: &RegisterKey,
) -> Result<(Option<RegisterEntry>, Revision), RegisterError> {
    let request = RangeRequest { key: code(key.as_str()), ..RangeRequest::default() };
    let answer = call(members, &request, members.limits.answer_len, members.deadline()).await?;
    let entry = answer.kvs.into_iter().next().map(super::wire::KeyValue::entry).transpose()?;
    if entry.as_ref().is_some_and(|entry| entry.key != *key) {
        return Err(RegisterError::Answer(format!("etcd was asked for {key} and answers another key")));
    }
    Ok((entry, answer.header.revision))
}

/// One call.
pub(super) async fn call(
    members: &Members,
    request: &RangeRequest,
    len_max: usize,
    deadline: Instant,
) -> Result<RangeResponse, CallFailure> {
    let answer = members.call(RANGE, request, Repeat::Freely, len_max, deadline).await?;
    parse("a range", &answer).map_err(CallFailure::Other)
}

/// All keys below a prefix.
pub(super) async fn range(members: &Members, prefix: &KeyPrefix) -> Result<RangeAnswer, RegisterError> {
    let deadline = Instant::now() + members.limits.range;
    loop {
        match parts(members, prefix, deadline).await {
            // Between two parts: from the beginning, at a newer revision.
            Err(CallFailure::Compacted) if Instant::now() < deadline => {}
            other => return other.map_err(Into::into),
        }
    }
}

async fn parts(members: &Members, prefix: &KeyPrefix, deadline: Instant) -> Result<RangeAnswer, CallFailure> {
    let mut whole = Whole::default();
    let mut page_keys = members.limits.page_keys;
    let mut request = RangeRequest {
        key: code(prefix.as_str()),
        range_end: Some(code(prefix.end())),
        ..RangeRequest::default()
    };
    loop {
        request.limit = page_keys;
        // A single value may be longer than a part should be.
        let len_max = if page_keys == 1 { members.limits.answer_len } else { members.limits.page_len };
        let answer = match call(members, &request, len_max, deadline).await {
            Err(CallFailure::TooLong) if page_keys > 1 => {
                page_keys /= 2;
                continue;
            }
            Err(CallFailure::TooLong) => {
                return Err(too_large(prefix, members.limits.answer_len, "bytes in one key"));
            }
            other => other?,
        };
        let more = whole.add(members, prefix, answer)?;
        if !more {
            return whole.finish(prefix);
        }
        if Instant::now() >= deadline {
            return Err(CallFailure::NotReached(format!("the range {prefix} was not read in time")));
        }
        request.revision = whole.revision.0;
        let last = whole.entries.last().expect("a part that is followed has keys");
        request.key = code(format!("{}\0", last.key));
    }
}

#[derive(Default)]
struct Whole {
    entries: Vec<RegisterEntry>,
    len: usize,
    /// The revision of the first part, which the others are read at.
    revision: Revision,
    /// Keys that the first part counted.
    count: usize,
}

impl Whole {
    /// Adds a part; whether there are more.
    fn add(
        &mut self,
        members: &Members,
        prefix: &KeyPrefix,
        part: RangeResponse,
    ) -> Result<bool, CallFailure> {
        let wrong = |why: &str| {
            Err(CallFailure::Other(RegisterError::Answer(format!(
                "etcd's answer to the range {prefix} {why}"
            ))))
        };
        if self.revision == Revision::ABSENT {
            self.revision = part.header.revision;
            self.count = usize::try_from(part.count).unwrap_or(0);
        }
        if part.more && part.kvs.is_empty() {
            return wrong("says that there are more keys, and has none");
        }
        for kv in part.kvs {
            let entry = kv.entry().map_err(CallFailure::Other)?;
            let is_next = self.entries.last().is_none_or(|last| last.key < entry.key);
            if !is_next || !prefix.covers(&entry.key) {
                return wrong("has keys out of order or of another range");
            }
            self.len += entry.key.as_str().len() + entry.value.len();
            self.entries.push(entry);
        }
        let limits = &members.limits;
        if self.entries.len() > limits.range_keys {
            return Err(too_large(prefix, limits.range_keys, "keys"));
        }
        if self.len > limits.range_len {
            return Err(too_large(prefix, limits.range_len, "bytes of keys and values"));
        }
        Ok(part.more)
    }

    fn finish(self, prefix: &KeyPrefix) -> Result<RangeAnswer, CallFailure> {
        if self.entries.len() == self.count {
            return Ok(RangeAnswer { entries: self.entries, revision: self.revision });
        }
        let (found, count) = (self.entries.len(), self.count);
        let why = format!("etcd's answer to the range {prefix} has {found} keys, and counts {count}");
        Err(CallFailure::Other(RegisterError::Answer(why)))
    }
}

fn too_large(prefix: &KeyPrefix, max: usize, unit: &'static str) -> CallFailure {
    CallFailure::Other(RegisterError::TooLarge { what: format!("the range {prefix}"), max, unit })
}
