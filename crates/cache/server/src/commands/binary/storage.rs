//! Storage commands of the binary protocol: execution, uploads, refusals.

use protocol::binary::{BinaryCommand, BinaryParsed, BinaryRequest, BinaryStore, ReplyStatus, parse, reply};
use protocol::request::SetMode;
use store::{Change, Condition, Error, Key, NewValue, Stored};

use super::sasl::CREDENTIALS_LEN_MAX;
use crate::connection::dialect::Dialect;
use crate::connection::output::Output;
use crate::connection::upload::Upload;
use crate::worker::Worker;

impl Worker {
    #[inline]
    pub(super) fn binary_store(
        &mut self,
        request: &BinaryRequest<'_>,
        store: &BinaryStore<'_>,
        key: &Key<'_>,
        value: NewValue<'_>,
        fd: i32,
        output: &mut Output,
    ) {
        if let Err(error) = self.shared.store.check_size(store.key.len(), store.flags, store.len) {
            return self.refuse_binary_store(request, store, &error, fd, output);
        }
        self.count_store(key);
        let change = self.binary_change(request, store);
        let command = command_name(&change);
        match self.store_value(key, &change, value, command, fd) {
            Ok(Stored::Stored { cas, .. }) => {
                if !request.quiet {
                    reply::success(output.copied(), request.reply_to, cas);
                }
            }
            Ok(stored) => {
                reply::error(output.copied(), request.reply_to, not_stored(stored, change.condition))
            }
            Err(error) => self.fail_binary_store(request, store, key, &error, fd, output),
        }
    }

    /// The storage operation. As in memcached, `set`, `add` and `replace` with a CAS unique are all a `cas`; with `-C` it
    /// is ignored.
    #[inline]
    fn binary_change(&self, request: &BinaryRequest<'_>, store: &BinaryStore<'_>) -> Change {
        let compare_cas = (request.cas != 0 && self.shared.options.cas).then_some(request.cas);
        let condition = match store.mode {
            SetMode::Append => Condition::Append,
            SetMode::Prepend => Condition::Prepend,
            _ if compare_cas.is_some() => Condition::Set,
            SetMode::Set => Condition::Set,
            SetMode::Add => Condition::Add,
            SetMode::Replace => Condition::Replace,
        };
        let expiry = self.expiry(store.exptime);
        Change { condition, compare_cas, flags: store.flags, expiry, ..Change::default() }
    }

    /// Begins to receive a value that has not arrived with its head, or refuses it. An error is the number of bytes
    /// to drop.
    pub(crate) fn start_binary_upload(
        &mut self,
        request: &BinaryRequest<'_>,
        head: &[u8],
        fd: i32,
        output: &mut Output,
    ) -> Result<Upload, usize> {
        let len = request.value_len();
        match &request.command {
            BinaryCommand::Store(store) => {
                match self.shared.store.check_size(store.key.len(), store.flags, len) {
                    Ok(()) => Ok(Upload::new(Dialect::Binary, head, len)),
                    Err(error) => {
                        self.refuse_binary_store(request, store, &error, fd, output);
                        Err(len)
                    }
                }
            }
            BinaryCommand::Sasl { .. } if len <= CREDENTIALS_LEN_MAX => {
                Ok(Upload::new(Dialect::Binary, head, len))
            }
            _ => {
                reply::error(output.copied(), request.reply_to, ReplyStatus::TooLarge);
                Err(len)
            }
        }
    }

    /// Refuses the request of this head, whose value has arrived in part.
    pub(crate) fn refuse_upload(&mut self, head: &[u8], error: &Error, fd: i32, output: &mut Output) {
        let BinaryParsed::Head { request, .. } = parse(head) else {
            unreachable!("the head was parsed before")
        };
        match &request.command {
            BinaryCommand::Store(store) => self.refuse_binary_store(&request, store, error, fd, output),
            _ => unreachable!("only a value can be refused"),
        }
    }

    fn refuse_binary_store(
        &mut self,
        request: &BinaryRequest<'_>,
        store: &BinaryStore<'_>,
        error: &Error,
        fd: i32,
        output: &mut Output,
    ) {
        let key = self.store.key(store.key);
        self.count_store(&key);
        self.fail_binary_store(request, store, &key, error, fd, output);
    }

    /// Replies with an error, also to a quiet request. Only a `set` removes the old value.
    fn fail_binary_store(
        &mut self,
        request: &BinaryRequest<'_>,
        store: &BinaryStore<'_>,
        key: &Key<'_>,
        error: &Error,
        fd: i32,
        output: &mut Output,
    ) {
        let command = command_name(&self.binary_change(request, store));
        self.count_failed_store(key, store.mode == SetMode::Set, error, command, fd);
        let status = match error {
            Error::TooLarge => ReplyStatus::TooLarge,
            _ => ReplyStatus::OutOfMemory,
        };
        reply::error(output.copied(), request.reply_to, status);
    }
}

/// The kind of join that a request makes, if any.
#[inline]
pub(crate) fn joins(request: &BinaryRequest<'_>) -> Option<Condition> {
    match request.command {
        BinaryCommand::Store(BinaryStore { mode: SetMode::Append, .. }) => Some(Condition::Append),
        BinaryCommand::Store(BinaryStore { mode: SetMode::Prepend, .. }) => Some(Condition::Prepend),
        _ => None,
    }
}

/// The error of a value that was not stored.
fn not_stored(stored: Stored, condition: Condition) -> ReplyStatus {
    match (stored, condition) {
        (Stored::Exists, _) | (_, Condition::Add) => ReplyStatus::Exists,
        (Stored::NotFound, _) | (_, Condition::Replace) => ReplyStatus::NotFound,
        _ => ReplyStatus::NotStored,
    }
}

/// The name of the operation in the log.
#[inline]
fn command_name(change: &Change) -> &'static str {
    match change.condition {
        Condition::Set if change.compare_cas.is_some() => "cas",
        Condition::Set => "set",
        Condition::Add => "add",
        Condition::Replace => "replace",
        Condition::Append => "append",
        Condition::Prepend => "prepend",
    }
}
