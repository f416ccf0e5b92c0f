//! Steps of rustls' API without buffers: it is shown input, and says what is to be done next.

use rustls::CommonState;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};

/// The head of a record and what encryption adds, in every version and suite.
const OVERHEAD_MAX: usize = 256;

/// Either end of a session.
pub(crate) enum SessionSide {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

impl SessionSide {
    /// What rustls tells of either.
    pub(crate) fn state(&self) -> &CommonState {
        match self {
            SessionSide::Server(tls) => tls,
            SessionSide::Client(tls) => tls,
        }
    }

    /// One step: see [`step`].
    pub(crate) fn step(
        &mut self,
        sealed: &mut [u8],
        wire: &mut Vec<u8>,
        content: &mut impl FnMut(&[u8]),
    ) -> (usize, Result<SessionStep, rustls::Error>) {
        match self {
            SessionSide::Server(tls) => step(tls.process_tls_records(sealed), wire, content),
            SessionSide::Client(tls) => step(tls.process_tls_records(sealed), wire, content),
        }
    }

    /// Appends the alert that rustls has prepared after an error, and nothing else: after an error it must not be given
    /// input again.
    pub(crate) fn encode_alert(&mut self, wire: &mut Vec<u8>) {
        while self.state().wants_write() {
            // What is prepared comes before input is looked at.
            let (_, prepared) = self.step(&mut [], wire, &mut |_: &[u8]| {});
            debug_assert!(matches!(prepared, Ok(SessionStep::Again)));
        }
    }

    /// One step towards sending a record: see [`write_step`].
    pub(super) fn write_step(
        &mut self,
        sealed: &mut [u8],
        record: &Record<'_>,
        wire: &mut Vec<u8>,
        content: impl FnMut(&[u8]),
    ) -> (usize, Result<SessionStep, KeysUsedUp>) {
        match self {
            SessionSide::Server(tls) => write_step(tls.process_tls_records(sealed), record, wire, content),
            SessionSide::Client(tls) => write_step(tls.process_tls_records(sealed), record, wire, content),
        }
    }
}

/// What a step of rustls leads to.
pub(crate) enum SessionStep {
    /// Another step.
    Again,
    /// The peer says that nothing more comes.
    Finished,
    /// There is no whole record left. Content may be sent.
    Established,
    /// There is no whole record left, and the handshake is not over.
    WantsInput,
    /// Both sides have finished.
    Closed,
}

/// Does what a status asks for: content goes to `content`, records to be sent to `wire`. Returns how many bytes of the
/// input are done with.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    wire: &mut Vec<u8>,
    content: &mut impl FnMut(&[u8]),
) -> (usize, Result<SessionStep, rustls::Error>) {
    let UnbufferedStatus { discard, state } = status;
    let step = match state {
        Err(error) => Err(error),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                Some(Ok(record)) => content(record.payload),
                Some(Err(error)) => break Err(error),
                None => break Ok(SessionStep::Again),
            }
        },
        Ok(ConnectionState::EncodeTlsData(data)) => {
            encode(data, wire);
            Ok(SessionStep::Again)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(SessionStep::Again)
        }
        Ok(ConnectionState::PeerClosed) => Ok(SessionStep::Finished),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(SessionStep::Established),
        Ok(ConnectionState::BlockedHandshake) => Ok(SessionStep::WantsInput),
        Ok(ConnectionState::Closed) => Ok(SessionStep::Closed),
        // Early data is never offered, and rustls knows no other states.
        Ok(_) => Err(rustls::Error::General("an unknown state".to_owned())),
    };
    (discard, step)
}

/// Appends a record that rustls has prepared.
fn encode<Data>(mut data: EncodeTlsData<'_, Data>, wire: &mut Vec<u8>) {
    let before = wire.len();
    if let Err(EncodeError::InsufficientSize(short)) = data.encode(&mut []) {
        wire.resize(before + short.required_size, 0);
        let encoded = data.encode(&mut wire[before..]);
        debug_assert!(encoded.is_ok(), "there is as much room as was required");
    }
}

/// A record to be sent.
pub(super) enum Record<'r> {
    Content(&'r [u8]),
    CloseNotify,
}

/// One step towards sending `record`, which has been appended to `wire` when the session is established; and how many
/// bytes of the input are done with.
fn write_step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    record: &Record<'_>,
    wire: &mut Vec<u8>,
    mut content: impl FnMut(&[u8]),
) -> (usize, Result<SessionStep, KeysUsedUp>) {
    let UnbufferedStatus { discard, state } = status;
    let written = match state {
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            let (before, len) =
                (wire.len(), if let Record::Content(content) = record { content.len() } else { 0 });
            wire.resize(before + len + OVERHEAD_MAX, 0);
            let written = match record {
                Record::Content(content) => traffic.encrypt(content, &mut wire[before..]),
                Record::CloseNotify => traffic.queue_close_notify(&mut wire[before..]),
            };
            wire.truncate(before + *written.as_ref().unwrap_or(&0));
            written.map(|_| SessionStep::Established).map_err(|_| KeysUsedUp)
        }
        // Input, or a record of rustls' own that goes first.
        state => {
            let stepped = step(UnbufferedStatus { discard, state }, wire, &mut content).1.ok();
            let goes_on = |step: &SessionStep| matches!(step, SessionStep::Again | SessionStep::Finished);
            stepped.filter(goes_on).ok_or(KeysUsedUp)
        }
    };
    (discard, written)
}

/// The keys may not encrypt more, or the session has ended.
#[derive(Debug)]
pub(crate) struct KeysUsedUp;
