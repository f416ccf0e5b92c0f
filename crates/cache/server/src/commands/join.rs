//! `append` and `prepend` to a large value: joined over several turns, so that other requests are not
//! delayed, then executed like any other storage command.

use protocol::Request;
use protocol::request::{SetMode, Verb};
use store::{Condition, Join, JoinStep, LargeValue, NewValue};

use crate::commands::request::{Body, KEY_BUFFER};
use crate::connection::flow::Flow;
use crate::connection::upload::WAIT_MS;
use crate::worker::Worker;

/// Attempts of a join whose key other requests keep storing; after them it is done at once.
const ATTEMPTS_MAX: u32 = 16;

/// A storage command whose value is being joined.
pub(crate) struct Joining {
    /// The head, parsed again at the execution.
    head: Box<[u8]>,
    key: Box<[u8]>,
    condition: Condition,
    new: New,
    /// `None`: the command is executed without a prepared value.
    join: Option<Join>,
    attempts: u32,
    /// When it began to wait for the uploads' share.
    since_ms: Option<u64>,
}

/// The new bytes.
pub(crate) enum New {
    Bytes(Box<[u8]>),
    Large(LargeValue),
}

impl New {
    fn value(&self) -> &[u8] {
        match self {
            New::Bytes(bytes) => bytes,
            New::Large(value) => value.as_ref(),
        }
    }

    pub(crate) fn into_value(self, bytes: &mut Box<[u8]>) -> NewValue<'_> {
        match self {
            New::Bytes(new) => {
                *bytes = new;
                NewValue::Bytes(bytes)
            }
            New::Large(value) => NewValue::Large(value),
        }
    }
}

/// The kind of join that a request makes, if any.
#[inline]
pub(crate) fn condition(request: &Request<'_>) -> Option<Condition> {
    match request {
        Request::Store(store) if store.verb == Verb::Append => Some(Condition::Append),
        Request::Store(store) if store.verb == Verb::Prepend => Some(Condition::Prepend),
        Request::MetaSet { mode: SetMode::Append, .. } => Some(Condition::Append),
        Request::MetaSet { mode: SetMode::Prepend, .. } => Some(Condition::Prepend),
        _ => None,
    }
}

impl Joining {
    /// The head, the new bytes and the join.
    pub(crate) fn into_parts(self) -> (Box<[u8]>, New, Option<Join>) {
        (self.head, self.new, self.join)
    }
}

impl Worker {
    /// Begins to join a complete body to the item of the request's key, if that takes several turns;
    /// otherwise returns the body, to be executed at once.
    pub(crate) fn begin_join<'b>(
        &mut self,
        request: &Request<'_>,
        condition: Condition,
        head: &[u8],
        body: Body<'b>,
    ) -> Result<Joining, Body<'b>> {
        let mut buffer = KEY_BUFFER;
        let key = match request {
            Request::Store(store) => store.key.as_bytes(),
            Request::MetaSet { key, .. } => key.bytes(&mut buffer),
            _ => return Err(body),
        };
        match body.into_value() {
            None => Err(Body::BadEnd),
            Some(value) => self.begin_join_to(key, condition, head, value).map_err(Body::Value),
        }
    }

    /// Begins to join `value` to the item of `key`, if that takes several turns; otherwise returns it.
    pub(crate) fn begin_join_to<'b>(
        &mut self,
        key: &[u8],
        condition: Condition,
        head: &[u8],
        value: NewValue<'b>,
    ) -> Result<Joining, NewValue<'b>> {
        let begun = self.store.begin_join(&self.store.key(key), condition, value.len(), self.second);
        let Some(join) = begun else { return Err(value) };
        let new = match value {
            NewValue::Bytes(bytes) => New::Bytes(bytes.into()),
            NewValue::Large(value) => New::Large(value),
        };
        let (head, key) = (head.into(), key.into());
        Ok(Joining { head, key, condition, new, join: Some(join), attempts: 1, since_ms: None })
    }

    /// Continues a join until the command can be executed (`Flow::Go`) or the turn is over. With
    /// `Flow::Later` it continues when waiting connections are woken, whatever the client does meanwhile.
    pub(crate) fn join(&mut self, joining: &mut Joining) -> Flow {
        let key = self.store.key(&joining.key);
        let new = joining.new.value();
        while let Some(join) = &mut joining.join {
            match self.store.step_join(join, &key, new, self.second) {
                Ok(JoinStep::Whole) => break,
                Ok(JoinStep::Soon) => return Flow::Yield,
                Ok(JoinStep::Later) => {
                    let since_ms = *joining.since_ms.get_or_insert(self.now.ms());
                    if self.now.ms().saturating_sub(since_ms) <= WAIT_MS {
                        return Flow::Later;
                    }
                    break;
                }
                Ok(JoinStep::Changed) => {
                    joining.attempts += 1;
                    // Dropped first, because the next join takes the same claim.
                    joining.join = None;
                    let again = self.store.begin_join(&key, joining.condition, new.len(), self.second);
                    joining.join = again.filter(|_| joining.attempts <= ATTEMPTS_MAX);
                }
                // An incomplete join makes the command fail for lack of memory.
                Err(_) => break,
            }
        }
        Flow::Go
    }
}
