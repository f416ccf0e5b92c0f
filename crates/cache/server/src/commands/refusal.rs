//! Refusal of storage commands.

use protocol::Request;
use protocol::reply::line;
use protocol::request::Verb;
use store::{Delete, Error, Key};

use crate::commands::request::{KEY_BUFFER, verb_name};
use crate::connection::output::{Output, say};
use crate::worker::Worker;

impl Worker {
    /// Refuses a storage command, and deletes the old value if a `set` was to replace it.
    pub(crate) fn refuse_store(
        &mut self,
        request: &Request<'_>,
        error: &Error,
        fd: i32,
        output: &mut Output,
    ) {
        match request {
            Request::Store(store) => {
                let key = self.store.key(store.key.as_bytes());
                self.count_store(&key);
                let reply =
                    self.store_failed(&key, store.verb == Verb::Set, error, verb_name(store.verb), fd);
                say(output, store.noreply, reply);
            }
            Request::MetaSet { key, .. } => {
                let mut buffer = KEY_BUFFER;
                let key = self.store.key(key.bytes(&mut buffer));
                self.count_store(&key);
                let reply = self.store_failed(&key, true, error, "set", fd);
                output.copy(reply);
            }
            _ => unreachable!("only storage commands are refused here"),
        }
    }

    /// As [`Worker::count_failed_store`]; returns the reply.
    pub(crate) fn store_failed(
        &mut self,
        key: &Key<'_>,
        delete: bool,
        error: &Error,
        command: &str,
        fd: i32,
    ) -> &'static [u8] {
        self.count_failed_store(key, delete, error, command, fd);
        match error {
            Error::TooLarge => line::TOO_LARGE,
            _ => line::OUT_OF_MEMORY_STORING,
        }
    }

    /// Counts a failed storage command, and deletes the old value if `delete` is set.
    pub(crate) fn count_failed_store(
        &mut self,
        key: &Key<'_>,
        delete: bool,
        error: &Error,
        command: &str,
        fd: i32,
    ) {
        let (counter, status) = match error {
            Error::TooLarge => (&self.counters.store_too_large, "too_large"),
            _ => (&self.counters.store_no_memory, "no_memory"),
        };
        counter.add(1);
        self.note_store(key, status, command, 0, fd, 0);
        if delete {
            self.note_lookup(key, 0, fd);
            // A deletion without a condition cannot fail.
            let _ = self.store.delete(key, &Delete::default(), self.second);
        }
    }
}
