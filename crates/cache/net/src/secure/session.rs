//! A TLS session: between the driver, which moves ciphertext, and the dialogue, which only ever sees content.
//!
//! rustls does the protocol (its API without buffers: `rustls::unbuffered`). What is here is where the bytes lie: an idle
//! session holds no buffer, one that waits for the rest of a record holds what has arrived of it, and output is
//! encrypted only as far as the socket may take it.

mod steps;

use std::io::IoSlice;

use rustls::SupportedCipherSuite;
use stdx::gather::Gather;

use crate::event_loop::lanes::SEALED_MAX;
use steps::{KeysUsedUp, Record};
pub(crate) use steps::{SessionSide, SessionStep};

/// Content of a record (RFC 8446, 5.1).
const CONTENT_MAX: usize = 16 * 1024;

/// Pieces of output in one record.
const PIECES_MAX: usize = 16;

/// Records that are decrypted for a connection in one round: about 30 µs of work for the shortest ones.
const RECORDS_MAX: usize = 64;

/// Ciphertext that waits for a socket. The rest of the output waits as it is: held values are not copied for a peer that
/// does not read.
pub(crate) const WIRE_MAX: usize = 128 * 1024;

/// A session after its handshake.
pub(crate) struct Session {
    tls: SessionSide,
    /// Ciphertext that waits for its rest, or for room.
    sealed: Box<[u8]>,
    /// Content that waits for room.
    opened: Box<[u8]>,
    /// There may be whole records in `sealed`.
    more: bool,
    /// The peer will send nothing more, or nothing that can be decrypted.
    end: Option<PeerEnd>,
    /// The peer has been told that nothing more comes.
    closed: bool,
    /// Records that the keys may still encrypt, less [`RECORDS_IN_RESERVE`].
    pub(crate) records_left: u64,
}

/// Records for the replies that are on their way when a session has to end: enough for the largest value.
const RECORDS_IN_RESERVE: u64 = 1 << 16;

/// Why a peer's content has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerEnd {
    /// It said so.
    Finished,
    /// It broke the protocol. An alert tells it so.
    Failed,
}

/// Where content goes: the handler's memory first, then a buffer.
pub(crate) struct Room<'r> {
    pub(crate) body: &'r mut [u8],
    pub(crate) buffer: &'r mut [u8],
    /// Bytes in each.
    pub(crate) in_body: usize,
    pub(crate) in_buffer: usize,
}

impl Room<'_> {
    /// Puts in as much of `content` as there is room for, and returns the rest.
    fn put<'c>(&mut self, content: &'c [u8]) -> &'c [u8] {
        let content = fill(&mut self.body[self.in_body..], content, &mut self.in_body);
        fill(&mut self.buffer[self.in_buffer..], content, &mut self.in_buffer)
    }

    fn is_full(&self) -> bool {
        self.in_body == self.body.len() && self.in_buffer == self.buffer.len()
    }
}

fn fill<'c>(room: &mut [u8], content: &'c [u8], filled: &mut usize) -> &'c [u8] {
    let (now, rest) = content.split_at(content.len().min(room.len()));
    room[..now.len()].copy_from_slice(now);
    *filled += now.len();
    rest
}

impl Session {
    /// A session whose handshake is over, and the ciphertext and the content that came with its end.
    pub(crate) fn new(tls: SessionSide, sealed: &[u8], opened: &[u8]) -> Session {
        let records_left =
            records_max(tls.state().negotiated_cipher_suite()).saturating_sub(RECORDS_IN_RESERVE);
        let (more, sealed, opened) = (!sealed.is_empty(), sealed.into(), opened.into());
        Session { tls, sealed, opened, more, end: None, closed: false, records_left }
    }

    /// Whether the session should end: in TLS 1.2 there is no way to replace keys that have encrypted enough.
    pub(crate) fn is_used_up(&self) -> bool {
        self.records_left == 0
    }

    /// Moves the ciphertext that waits to the front of `buffer`, and returns its length.
    pub(crate) fn unpack(&mut self, buffer: &mut [u8]) -> usize {
        let sealed = std::mem::take(&mut self.sealed);
        buffer[..sealed.len()].copy_from_slice(&sealed);
        sealed.len()
    }

    /// Whether there is input without a receive.
    pub(crate) fn has_input(&self) -> bool {
        self.more || !self.opened.is_empty()
    }

    /// Why nothing more comes from the peer, once all that came is delivered.
    pub(crate) fn end(&self) -> Option<PeerEnd> {
        self.end.filter(|_| !self.has_input())
    }

    /// Decrypts records of `sealed` as far as there is room for their content, and keeps the rest. What the peer must be
    /// told is written to `wire`.
    pub(crate) fn open(&mut self, sealed: &mut [u8], room: &mut Room<'_>, wire: &mut Vec<u8>) {
        if !self.opened.is_empty() {
            let opened = std::mem::take(&mut self.opened);
            self.opened = room.put(&opened).into();
        }
        let (mut at, mut records) = (0, 0);
        self.more = false;
        while self.end != Some(PeerEnd::Failed) {
            if records == RECORDS_MAX || room.is_full() {
                self.more = at < sealed.len();
                break;
            }
            let mut content = |content: &[u8]| {
                records += 1;
                self.opened = room.put(content).into();
            };
            let (used, step) = self.tls.step(&mut sealed[at..], wire, &mut content);
            at += used;
            match step {
                Ok(SessionStep::Again) => {}
                Ok(SessionStep::Finished) => self.end = Some(PeerEnd::Finished),
                Ok(SessionStep::Established | SessionStep::WantsInput | SessionStep::Closed) => break,
                Err(_) => {
                    self.end = Some(PeerEnd::Failed);
                    self.tls.encode_alert(wire);
                }
            }
        }
        // A message of the protocol in so many records that its end would never have room.
        if !self.more && sealed.len() - at == SEALED_MAX {
            self.abandon();
        }
        if self.end.is_none() {
            self.sealed = sealed[at..].into();
        } else {
            self.more = false;
        }
    }

    /// The input is lost, or of no use: nothing more is read or written.
    pub(crate) fn abandon(&mut self) {
        self.end = Some(PeerEnd::Failed);
    }

    /// Encrypts `plain` into `wire`, until that has [`WIRE_MAX`] bytes. `scratch` is any vector.
    ///
    /// # Errors
    /// The keys are used up (TLS 1.2 has no way to replace them), and the connection must end.
    pub(crate) fn seal<Held: AsRef<[u8]>>(
        &mut self,
        plain: &mut Gather<Held>,
        wire: &mut Gather<Held>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), KeysUsedUp> {
        while !plain.is_empty() && wire.len() < WIRE_MAX {
            let content = next_content(plain, scratch);
            self.write(&Record::Content(content), wire.copied())?;
            let len = content.len();
            plain.advance(len);
            self.records_left = self.records_left.saturating_sub(1);
        }
        Ok(())
    }

    /// Tells the peer that nothing more comes, once.
    pub(crate) fn close(&mut self, wire: &mut Vec<u8>) {
        if !self.closed {
            self.closed = true;
            // After an alert, or with keys that are used up, there is nothing to say.
            let _unsaid = self.write(&Record::CloseNotify, wire);
        }
    }

    /// A session that is over at once: `line`, and its end, encrypted.
    pub(crate) fn refusal(mut self, line: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        if self.write(&Record::Content(line), &mut wire).is_ok() {
            self.close(&mut wire);
        }
        wire
    }

    /// Appends to `wire` what rustls wants to send, and then `record`.
    fn write(&mut self, record: &Record<'_>, wire: &mut Vec<u8>) -> Result<(), KeysUsedUp> {
        if self.end == Some(PeerEnd::Failed) {
            return Err(KeysUsedUp);
        }
        loop {
            // rustls keeps positions in the input that waits, so it is always given that. Where whole records are among
            // it, it decrypts one more.
            let mut opened = Vec::new();
            let content = |content: &[u8]| opened.extend_from_slice(content);
            let (used, written) = self.tls.write_step(&mut self.sealed, record, wire, content);
            if used > 0 {
                self.sealed = self.sealed[used..].into();
            }
            if !opened.is_empty() {
                self.opened = [&self.opened, &*opened].concat().into();
            }
            match written {
                Ok(SessionStep::Established) => return Ok(()),
                Ok(SessionStep::Finished) => self.end = Some(PeerEnd::Finished),
                Ok(_) => {}
                Err(used_up) => {
                    self.end = Some(PeerEnd::Failed);
                    self.tls.encode_alert(wire);
                    return Err(used_up);
                }
            }
        }
    }
}

/// Records that keys may encrypt: 2^24 with AES-GCM (RFC 8446, 5.5). TLS 1.3 replaces them in time.
fn records_max(suite: Option<SupportedCipherSuite>) -> u64 {
    match suite {
        Some(SupportedCipherSuite::Tls12(suite)) => suite.common.confidentiality_limit,
        _ => u64::MAX,
    }
}

/// The next content of a record: a piece of `plain` in place, or several together in `scratch`.
fn next_content<'p, Held: AsRef<[u8]>>(plain: &'p Gather<Held>, scratch: &'p mut Vec<u8>) -> &'p [u8] {
    let front = plain.front();
    if front.len() >= CONTENT_MAX || front.len() == plain.len() {
        return &front[..front.len().min(CONTENT_MAX)];
    }
    let mut slices = [IoSlice::new(&[]); PIECES_MAX];
    let filled = plain.slices(&mut slices);
    scratch.clear();
    for slice in &slices[..filled] {
        let room = CONTENT_MAX - scratch.len();
        scratch.extend_from_slice(&slice[..slice.len().min(room)]);
    }
    scratch
}
