//! One handshake: bytes in, bytes out, and in the end a session.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, send};
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::{HandshakeKind, ProtocolVersion};
use tls::Acceptor;

use crate::event_loop::dial::DialTls;
use crate::handler::{Arrival, Security};
use crate::kernel::driver::SEND_FLAGS;
use crate::secure::handshakes::{HandshakeFault, TLS_1_2};
use crate::secure::kernel_tls;
use crate::secure::session::{Session, SessionSide, SessionStep};
use crate::slab::Token;

/// Input that is kept without a whole record: more than the longest one (RFC 5246, 6.2.3), and more than rustls takes of
/// one message.
const INPUT_MAX: usize = 128 * 1024;

/// Bytes before the content of a record.
const RECORD_HEAD_LEN: usize = 5;

/// An alert without encryption: close_notify (RFC 8446, 5.1 and 6.1).
const CLOSE_NOTIFY: &[u8] = b"\x15\x03\x03\x00\x02\x01\x00";

/// A handshake and its connection.
pub(super) struct Handshake {
    pub(super) socket: OwnedFd,
    pub(super) purpose: Purpose,
    tls: SessionSide,
    /// Received, not processed.
    input: Vec<u8>,
    /// Content that a quick peer has sent with the end of its handshake.
    opened: Vec<u8>,
    /// Not sent; empty most of the time.
    output: Vec<u8>,
    /// Bytes have been sent.
    has_sent: bool,
    established: bool,
    /// The kernel gets the keys.
    in_kernel: bool,
    /// The events that it is watched for.
    pub(super) watched: EventFlags,
}

/// Which connection gets the session.
pub(super) enum Purpose {
    Accepted(Arrival, Arc<Acceptor>),
    /// The worker, and its name for the dial.
    Dialled(usize, Token),
}

/// A session for a worker, with its socket.
pub(super) struct Established {
    pub(super) socket: OwnedFd,
    pub(super) security: Security,
    /// None where the kernel has the keys.
    pub(super) session: Option<Box<Session>>,
}

/// What a handshake waits for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HandshakeProgress {
    /// An event of its socket.
    Waits(EventFlags),
    /// Nothing: there is a session.
    Done,
}

/// The peer has broken the protocol, has no right to come in, or is gone.
#[derive(Debug)]
pub(super) struct Failed(pub(super) HandshakeFault);

impl Handshake {
    pub(super) fn accepted(
        socket: OwnedFd,
        arrival: Arrival,
        acceptor: Arc<Acceptor>,
    ) -> Result<Handshake, rustls::Error> {
        let tls = UnbufferedServerConnection::new(acceptor.settings())?;
        let in_kernel = acceptor.kernel();
        let purpose = Purpose::Accepted(arrival, acceptor);
        Ok(Handshake { in_kernel, ..Handshake::new(socket, purpose, SessionSide::Server(Box::new(tls))) })
    }

    pub(super) fn dialled(
        socket: OwnedFd,
        DialTls { settings, name }: DialTls,
        worker: usize,
        token: Token,
    ) -> Result<Handshake, rustls::Error> {
        let tls = UnbufferedClientConnection::new(settings, name)?;
        let tls = SessionSide::Client(Box::new(tls));
        Ok(Handshake::new(socket, Purpose::Dialled(worker, token), tls))
    }

    fn new(socket: OwnedFd, purpose: Purpose, tls: SessionSide) -> Handshake {
        Handshake {
            socket,
            purpose,
            tls,
            input: Vec::new(),
            opened: Vec::new(),
            output: Vec::new(),
            has_sent: false,
            established: false,
            in_kernel: false,
            watched: EventFlags::IN,
        }
    }

    /// Goes on after an event. `buffer` is any memory to receive into.
    pub(super) fn advance(&mut self, buffer: &mut [u8]) -> Result<HandshakeProgress, Failed> {
        if self.output.is_empty() && !self.established {
            self.receive(buffer)?;
            self.process()?;
        }
        self.send()?;
        Ok(match (self.output.is_empty(), self.established) {
            (false, _) => HandshakeProgress::Waits(EventFlags::OUT),
            (true, false) => HandshakeProgress::Waits(EventFlags::IN),
            (true, true) => HandshakeProgress::Done,
        })
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<(), Failed> {
        let room = if self.in_kernel { self.left_of_record().min(buffer.len()) } else { buffer.len() };
        match recv(&self.socket, &mut buffer[..room], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(Failed(HandshakeFault::Closed)),
            Ok((_, received)) if self.input.len() + received > INPUT_MAX => {
                Err(Failed(HandshakeFault::Protocol))
            }
            Ok((_, received)) => {
                self.input.extend_from_slice(&buffer[..received]);
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(_) => Err(Failed(HandshakeFault::Socket)),
        }
    }

    /// Bytes to the end of the record that is being received, or of its head (RFC 8446, 5.1). What lies behind the last
    /// record of the handshake stays in the socket: it is the kernel's to decrypt.
    fn left_of_record(&self) -> usize {
        match self.input.get(..RECORD_HEAD_LEN) {
            Some(head) => {
                let record = RECORD_HEAD_LEN + usize::from(u16::from_be_bytes([head[3], head[4]]));
                record.saturating_sub(self.input.len()).max(1)
            }
            None => RECORD_HEAD_LEN - self.input.len(),
        }
    }

    /// Processes the records that have arrived.
    fn process(&mut self) -> Result<(), Failed> {
        let mut at = 0;
        loop {
            let mut content = |content: &[u8]| self.opened.extend_from_slice(content);
            let (used, step) = self.tls.step(&mut self.input[at..], &mut self.output, &mut content);
            at += used;
            match step {
                Ok(SessionStep::Again) => {}
                Ok(SessionStep::WantsInput) => break,
                Ok(SessionStep::Established) => {
                    self.established = !self.tls.state().is_handshaking();
                    break;
                }
                Ok(SessionStep::Finished | SessionStep::Closed) => {
                    return Err(Failed(HandshakeFault::Closed));
                }
                Err(error) => {
                    self.tls.encode_alert(&mut self.output);
                    // The last word: a peer that does not take it at once does not get it.
                    let _unsent = self.send();
                    return Err(Failed(error.into()));
                }
            }
        }
        self.input.drain(..at);
        Ok(())
    }

    fn send(&mut self) -> Result<(), Failed> {
        if self.output.is_empty() {
            return Ok(());
        }
        match send(&self.socket, &self.output, SEND_FLAGS) {
            Ok(sent) => {
                self.has_sent = true;
                self.output.drain(..sent);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Err(Failed(HandshakeFault::Socket)),
        }
        Ok(())
    }

    /// Tells a peer whose time is over that this is the end, if it has been told nothing yet. Later an alert would have to be
    /// encrypted, which rustls offers for its own errors only.
    pub(super) fn tell_end(&self) {
        if !self.has_sent && self.output.is_empty() {
            let _unsent = send(&self.socket, CLOSE_NOTIFY, SEND_FLAGS);
        }
    }

    /// Ends the session with this line. The handshake must be done.
    pub(super) fn refuse(self, line: &[u8]) {
        let refusal = Session::new(self.tls, &self.input, &self.opened).refusal(line);
        // As without TLS: a client that is gone, or whose socket cannot take a line, does not get it.
        let _unsent = send(&self.socket, &refusal, SEND_FLAGS);
    }

    /// Whether a ticket took the place of a key exchange and a signature.
    pub(super) fn is_resumed(&self) -> bool {
        self.tls.state().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether the kernel is to get the keys; and that it is not, from now on.
    pub(super) fn is_for_kernel(&self) -> bool {
        self.in_kernel
    }

    pub(super) fn stay_out_of_kernel(&mut self) {
        self.in_kernel = false;
    }

    /// The session. The handshake must be done.
    ///
    /// # Errors
    /// The kernel does not take the keys, and the session is lost.
    pub(super) fn finish(self) -> Result<(Purpose, Established), Errno> {
        let state = self.tls.state();
        let version = state.protocol_version();
        // Only if no input was received that the kernel would have to decrypt.
        let in_kernel = self.in_kernel && self.input.is_empty() && self.opened.is_empty();
        let security = Security {
            version: if version == Some(ProtocolVersion::TLSv1_2) { TLS_1_2 } else { "TLSv1.3" },
            suite: state.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or(""),
            resumed: self.is_resumed(),
            in_kernel,
            identity: match &self.purpose {
                Purpose::Accepted(_, acceptor) => acceptor.identify(state.peer_certificates()),
                Purpose::Dialled(..) => None,
            },
        };
        let session = match self.tls {
            SessionSide::Server(tls) if in_kernel => {
                let (secrets, _) = tls.dangerous_into_kernel_connection().map_err(|_| Errno::OPNOTSUPP)?;
                kernel_tls::give_keys(&self.socket, version, &secrets)?;
                None
            }
            tls => Some(Box::new(Session::new(tls, &self.input, &self.opened))),
        };
        Ok((self.purpose, Established { socket: self.socket, security, session }))
    }
}
