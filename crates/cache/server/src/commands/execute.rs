//! Execution of requests: the store decides, the replies are those of memcached.

use net::{CloseReason, ConnectionId};
use protocol::Request;
use protocol::reply::{line, number_line};
use protocol::request::Refused;
use store::Key;

use crate::commands::remaining::Remaining;
use crate::commands::request::Body;
use crate::connection::output::{Output, say};
use crate::worker::Worker;

impl Worker {
    /// Executes one request whose body, if any, is complete. Returns the remaining work, if any. `key` is its
    /// key, if it was hashed before.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        id: ConnectionId,
        fd: i32,
        request: &Request<'_>,
        key: Option<Key<'_>>,
        body: Body<'_>,
        output: &mut Output,
    ) -> Option<Remaining> {
        match request {
            Request::Get(get) => {
                if let Some((rest, unread)) = self.get(get, key, fd, output) {
                    return Some(Remaining::Keys { rest, unread });
                }
            }
            Request::Store(store) => {
                let key = key.unwrap_or_else(|| self.store.key(store.key.as_bytes()));
                let reply = self.classic_store(store, &key, body, fd);
                say(output, store.noreply, reply);
            }
            Request::MetaGet { key: written, flags } => self.meta_get(key, written, flags, fd, output),
            Request::MetaSet { key: written, flags, mode, len } => {
                self.meta_set(key, written, flags, *mode, *len, body, fd, output);
            }
            Request::MetaDelete { key: written, flags } => self.meta_delete(key, written, flags, fd, output),
            Request::MetaArithmetic { key: written, flags, mode } => {
                self.meta_arithmetic(key, written, flags, *mode, fd, output);
            }
            Request::MetaDebug { key: written } => self.meta_debug(written, fd, output),
            Request::MetaNoop => {
                self.counters.cmd_meta.add(1);
                output.copy(line::META_NOOP);
            }
            Request::Delete { key: name, noreply } => {
                let key = key.unwrap_or_else(|| self.store.key(name.as_bytes()));
                let reply = self.delete(&key, fd);
                say(output, *noreply, reply);
            }
            Request::Arithmetic { mode, key: name, delta, noreply } => {
                let key = key.unwrap_or_else(|| self.store.key(name.as_bytes()));
                let reply = self.arithmetic(&key, *mode, *delta, fd);
                match reply {
                    Ok(value) if !noreply => number_line(output.copied(), value),
                    Ok(_) => {}
                    Err(reply) => say(output, *noreply, reply),
                }
            }
            Request::Touch { key: name, exptime, noreply } => {
                let key = key.unwrap_or_else(|| self.store.key(name.as_bytes()));
                let reply = self.touch(&key, *exptime, fd);
                say(output, *noreply, reply);
            }
            Request::Refused(refused) => return refuse(refused, output),
            _ => return self.administer(id, request, output),
        }
        None
    }
}

fn refuse(refused: &Refused, output: &mut Output) -> Option<Remaining> {
    output.copy(refused.reply);
    match refused {
        Refused { close: true, .. } => Some(Remaining::Close(CloseReason::Error)),
        Refused { swallow: 0, .. } => None,
        Refused { swallow, .. } => Some(Remaining::Refused(*swallow)),
    }
}
