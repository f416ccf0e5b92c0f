//! Execution of requests: the same operations as in text, with the replies of the binary protocol.

use net::CloseReason;
use protocol::binary::{BinaryCommand, BinaryRequest, ReplyStatus, reply};
use store::{Arithmetic, Counted, Deleted, Key, Look, NewValue, Vivify};

use super::sasl::Sasl;
use crate::commands::remaining::Remaining;
use crate::commands::request::direction;
use crate::connection::output::{Output, put_value};
use crate::shared::VERSION;
use crate::worker::Worker;

impl Worker {
    /// Executes one request whose value, if any, is complete. Returns the remaining work, if any. `key` is its key,
    /// if it was hashed before. `sasl` is updated by an authentication.
    #[inline]
    pub(crate) fn execute_binary(
        &mut self,
        sasl: &mut Sasl,
        fd: i32,
        request: &BinaryRequest<'_>,
        key: Option<Key<'_>>,
        value: NewValue<'_>,
        output: &mut Output,
    ) -> Option<Remaining> {
        match &request.command {
            BinaryCommand::Get { key: name, with_key, exptime } => {
                let key = key.unwrap_or_else(|| self.store.key(name));
                self.binary_get(request, &key, *with_key, *exptime, fd, output);
            }
            BinaryCommand::Store(store) => {
                let key = key.unwrap_or_else(|| self.store.key(store.key));
                self.binary_store(request, store, &key, value, fd, output);
            }
            BinaryCommand::Touch { key: name, exptime } => {
                let key = key.unwrap_or_else(|| self.store.key(name));
                self.binary_touch(request, &key, *exptime, fd, output);
            }
            BinaryCommand::Delete { key: name } => {
                let key = key.unwrap_or_else(|| self.store.key(name));
                self.binary_delete(request, &key, fd, output);
            }
            BinaryCommand::Arithmetic { key: name, .. } => {
                let key = key.unwrap_or_else(|| self.store.key(name));
                self.binary_arithmetic(request, &key, fd, output);
            }
            BinaryCommand::Sasl { is_first, mechanism, .. } if self.shared.options.sasl => {
                let NewValue::Bytes(credentials) = value else { unreachable!("credentials are short") };
                let step = (request.reply_to, *is_first);
                *sasl = self.authenticate(*sasl, step, mechanism, credentials, output);
            }
            _ => return self.administer_binary(request, output),
        }
        None
    }

    #[inline]
    fn binary_get(
        &mut self,
        request: &BinaryRequest<'_>,
        key: &Key<'_>,
        with_key: bool,
        exptime: Option<u32>,
        fd: i32,
        output: &mut Output,
    ) {
        let item = match exptime {
            None => self.store.get(key, Look::Use, self.second),
            Some(exptime) => {
                let expiry = self.expiry(exptime);
                self.store.get_and_touch(key, expiry, self.second)
            }
        };
        let name = if with_key { key.as_bytes() } else { b"" };
        let found = item.map(|item| {
            let len = item.len();
            reply::value_head(output.copied(), request.reply_to, name, item.flags(), len, item.cas());
            put_value(item.value(), output);
            len
        });
        self.count_get(exptime.is_some(), found.is_some());
        self.note_get(key, found, fd);
        match found {
            None if request.quiet => {}
            None if with_key => reply::missing_key(output.copied(), request.reply_to, name),
            None => reply::error(output.copied(), request.reply_to, ReplyStatus::NotFound),
            Some(_) => {}
        }
    }

    fn binary_touch(
        &mut self,
        request: &BinaryRequest<'_>,
        key: &Key<'_>,
        exptime: u32,
        fd: i32,
        output: &mut Output,
    ) {
        let expiry = self.expiry(exptime);
        let item = self.store.get_and_touch(key, expiry, self.second);
        let found = item.map(|item| {
            reply::value_head(output.copied(), request.reply_to, b"", item.flags(), 0, item.cas());
            item.len()
        });
        self.count_get(true, found.is_some());
        self.note_get(key, found, fd);
        if found.is_none() {
            reply::error(output.copied(), request.reply_to, ReplyStatus::NotFound);
        }
    }

    fn binary_delete(&mut self, request: &BinaryRequest<'_>, key: &Key<'_>, fd: i32, output: &mut Output) {
        let compare_cas = (request.cas != 0).then_some(request.cas);
        let status = match self.delete_item(key, compare_cas, fd) {
            Ok(Deleted::Deleted { .. }) if request.quiet => return,
            Ok(Deleted::Deleted { .. } | Deleted::Kept) => {
                return reply::success(output.copied(), request.reply_to, 0);
            }
            Ok(Deleted::NotFound) => ReplyStatus::NotFound,
            Ok(Deleted::Exists) => ReplyStatus::Exists,
            Err(_) => ReplyStatus::OutOfMemory,
        };
        reply::error(output.copied(), request.reply_to, status);
    }

    fn binary_arithmetic(
        &mut self,
        request: &BinaryRequest<'_>,
        key: &Key<'_>,
        fd: i32,
        output: &mut Output,
    ) {
        let BinaryCommand::Arithmetic { mode, delta, create, .. } = request.command else {
            unreachable!("it is an increment or decrement")
        };
        let vivify = create.map(|(initial, exptime)| Vivify { initial, expiry: self.expiry(exptime) });
        let compare_cas = (request.cas != 0).then_some(request.cas);
        let direction = direction(mode);
        let arithmetic = Arithmetic { direction, delta, compare_cas, vivify, ..Arithmetic::default() };
        let status = match self.count(key, &arithmetic, fd) {
            Ok(Counted::Counted { value, cas, created, expiry, .. }) => {
                if created {
                    let len = value.checked_ilog10().unwrap_or(0) as usize + 1;
                    self.note_store(key, "stored", "add", expiry, fd, len);
                }
                if !request.quiet {
                    reply::number(output.copied(), request.reply_to, value, cas);
                }
                return;
            }
            Ok(Counted::NotFound) => ReplyStatus::NotFound,
            Ok(Counted::Exists) => ReplyStatus::Exists,
            Ok(Counted::NotNumeric) => ReplyStatus::NotNumeric,
            Err(_) => ReplyStatus::OutOfMemory,
        };
        reply::error(output.copied(), request.reply_to, status);
    }

    /// Executes requests that are not about items.
    fn administer_binary(&mut self, request: &BinaryRequest<'_>, output: &mut Output) -> Option<Remaining> {
        let BinaryRequest { reply_to: to, quiet, .. } = *request;
        let status = match request.command {
            BinaryCommand::Noop => {
                reply::success(output.copied(), to, 0);
                return None;
            }
            BinaryCommand::Version => {
                reply::text(output.copied(), to, VERSION);
                return None;
            }
            BinaryCommand::Quit => {
                if !quiet {
                    reply::success(output.copied(), to, 0);
                }
                return Some(Remaining::Close(CloseReason::Normal));
            }
            BinaryCommand::Flush { exptime } if self.flush(i64::from(exptime)) => {
                if !quiet {
                    reply::success(output.copied(), to, 0);
                }
                return None;
            }
            BinaryCommand::Flush { .. } => ReplyStatus::AuthError,
            BinaryCommand::Stat { name } => match self.binary_report(to.opaque, name) {
                Some(report) => return Some(Remaining::Report(Box::new(report))),
                None => ReplyStatus::NotFound,
            },
            BinaryCommand::Discover => match self.shared.discovery_list() {
                Some(list) => {
                    list.packet(output.copied(), to);
                    return None;
                }
                None => ReplyStatus::UnknownCommand,
            },
            BinaryCommand::SaslList if self.shared.options.sasl => {
                self.list_mechanisms(to, output);
                return None;
            }
            BinaryCommand::SaslList | BinaryCommand::Sasl { .. } => ReplyStatus::UnknownCommand,
            BinaryCommand::Unknown { rest } => {
                reply::error(output.copied(), to, ReplyStatus::UnknownCommand);
                return (rest > 0).then_some(Remaining::Refused(rest));
            }
            BinaryCommand::Refused { status, rest } => {
                return Some(Remaining::Leave { to, status, rest });
            }
            _ => unreachable!("requests about items are executed elsewhere"),
        };
        reply::error(output.copied(), to, status);
        None
    }
}
