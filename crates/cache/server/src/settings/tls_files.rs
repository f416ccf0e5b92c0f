//! Files of TLS: read at the start, and again for SIGHUP or `refresh_certs`.

use std::error::Error as _;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use net::Notice;
use net::clock::Clock;
use tls::{Acceptor, CertificateEnd, HandedTickets, ListenerTls, PeerCheck, TlsServerError};

use crate::settings::options::TlsOptions;

/// The certificates, keys, authorities, tickets and roles of a server.
pub struct TlsFiles {
    tls: ListenerTls,
    clock: Clock,
    notice: Notice,
    /// The second of the server's clock at which they were read.
    read_at_s: AtomicU32,
}

impl TlsFiles {
    /// Reads them for the first time.
    pub(crate) fn load(
        options: &TlsOptions,
        clock: Clock,
        notice: Notice,
        handed: Option<&HandedTickets>,
    ) -> Result<TlsFiles, TlsServerError> {
        let (tls, warnings) = ListenerTls::load_after(options.settings.clone(), handed)?;
        warnings.iter().for_each(|warning| notice(warning));
        Ok(TlsFiles { tls, clock, notice, read_at_s: AtomicU32::new(clock.now().second()) })
    }

    /// What a listener needs that checks clients so.
    pub(crate) fn acceptor(&self, check: PeerCheck) -> Result<Arc<Acceptor>, TlsServerError> {
        self.tls.acceptor(check).map(Arc::new)
    }

    /// The secrets of tickets that this process has made up, for one that takes over; `None` if they are in a file.
    pub fn tickets(&self) -> Option<HandedTickets> {
        self.tls.tickets()
    }

    /// Reads all of them again, for sessions from now on. If one cannot be used, all stay as they were, and the error
    /// says in one line which and why; the operator gets that line, too.
    pub fn reload(&self) -> Result<(), String> {
        match self.tls.reload() {
            Ok(warnings) => {
                warnings.iter().for_each(|warning| (self.notice)(warning));
                self.read_at_s.store(self.clock.now().second(), Relaxed);
                Ok(())
            }
            Err(error) => {
                let problem = in_one_line(&error);
                (self.notice)(&format!("certificates, keys, tickets and roles stay as they were: {problem}"));
                Err(problem)
            }
        }
    }

    /// When each certificate ends.
    pub(crate) fn certificate_ends(&self) -> Vec<CertificateEnd> {
        self.tls.certificate_ends()
    }

    /// The second of the server's clock at which they were read.
    pub(crate) fn read_at_s(&self) -> u32 {
        self.read_at_s.load(Relaxed)
    }
}

/// An error and its causes. A path may have a line end in it, which would end a reply.
fn in_one_line(error: &TlsServerError) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        write!(line, ": {source}").expect("memory takes all");
        cause = source.source();
    }
    line.replace(|character: char| character.is_control(), "?")
}
