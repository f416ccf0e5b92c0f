//! Statistics of TLS: memcached's and ours in `stats`, refused requests by client in `stats evenkeel tls`.

use stdx::clock::Now;

use super::list::{StatForm, StatList, stat};
use crate::connection::output::Output;
use crate::shared::Shared;
use crate::worker::Worker;

/// memcached's lines of `stats`, if there is TLS.
pub(super) fn general(shared: &Shared, sessions_failed: u64, now: Now, out: &mut StatList<'_>) {
    let (Some(files), Some(options)) = (&shared.tls, &shared.options.tls) else { return };
    let handshakes = shared.network.handshakes();
    if options.settings.session_cache {
        stat(out, "ssl_new_sessions", handshakes.full.sum());
    }
    stat(out, "ssl_handshake_errors", handshakes.failed);
    stat(out, "ssl_proto_errors", sessions_failed);
    stat(out, "time_since_server_cert_refresh", now.second().saturating_sub(files.read_at_s()));
}

/// Our own.
pub(super) fn ours(shared: &Shared, out: &mut StatList<'_>) {
    if shared.tls.is_none() {
        return;
    }
    let handshakes = shared.network.handshakes();
    stat(out, "evenkeel_tls_handshakes", handshakes.full.sum());
    stat(out, "evenkeel_tls_resumed", handshakes.resumed.sum());
    stat(out, "evenkeel_tls_handshaking", handshakes.in_progress);
    stat(out, "evenkeel_tls_expired", handshakes.expired);
    stat(out, "evenkeel_tls_displaced", handshakes.displaced);
    let refused: u64 = shared.refusals.by_name().iter().map(|(_, count)| count).sum();
    stat(out, "evenkeel_tls_refused_requests", refused);
}

/// Whether these words behind `stats` are `evenkeel tls`.
pub(crate) fn is_about_tls<'w>(words: impl Iterator<Item = &'w [u8]>) -> bool {
    words.eq([&b"evenkeel"[..], b"tls"])
}

impl Worker {
    /// Replies to `stats evenkeel tls`.
    pub(crate) fn tls_statistics(&self, output: &mut Output) {
        let mut list = StatForm::Text.list(output.copied());
        for (name, count) in self.shared.refusals.by_name() {
            stat(&mut list, format_args!("refused:{name}"), count);
        }
        list.end();
    }
}
