//! Messages between a server or router and its successor: a kind, bytes, and file descriptors (SCM_RIGHTS, unix(7)).

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The descriptors that the kernel passes in one message (SCM_MAX_FD).
pub(crate) const DESCRIPTORS_MAX: usize = 253;
/// Bytes of a message: a manifest of many items is some megabytes.
const LEN_MAX: u32 = 1 << 30;
const HEAD_LEN: usize = 8;

/// The kinds, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeoverStep {
    /// The successor is there.
    Hello = 1,
    /// The server's sockets and memory, which it still uses.
    Offer = 2,
    /// The successor lacks nothing but the rest.
    Ready = 3,
    /// The server has stopped: the manifest.
    State = 4,
    /// Connections, in as many messages as it takes.
    Connections = 5,
    /// The successor could serve.
    Have = 6,
    /// The successor is to serve: the server never will again.
    Yours = 7,
    /// The successor serves.
    Taken = 8,
    /// Why it comes to nothing, as text.
    Refused = 9,
    /// The successor of a router is there.
    RouterHello = 10,
    /// The router's sockets, which it still uses.
    RouterOffer = 11,
    /// The successor routes, beside the router.
    Routes = 12,
}

const KINDS: [TakeoverStep; 12] = [
    TakeoverStep::Hello,
    TakeoverStep::Offer,
    TakeoverStep::Ready,
    TakeoverStep::State,
    TakeoverStep::Connections,
    TakeoverStep::Have,
    TakeoverStep::Yours,
    TakeoverStep::Taken,
    TakeoverStep::Refused,
    TakeoverStep::RouterHello,
    TakeoverStep::RouterOffer,
    TakeoverStep::Routes,
];

impl TakeoverStep {
    /// What it brings, in words.
    fn name(self) -> &'static str {
        match self {
            TakeoverStep::Hello => "the greeting of a server",
            TakeoverStep::Offer => "the offer of sockets and memory",
            TakeoverStep::Ready => "the word that the successor is ready",
            TakeoverStep::State => "the state of the items",
            TakeoverStep::Connections => "connections",
            TakeoverStep::Have => "the word that the successor has everything",
            TakeoverStep::Yours => "the word that the successor is to serve",
            TakeoverStep::Taken => "the word that the successor serves",
            TakeoverStep::Refused => "a refusal",
            TakeoverStep::RouterHello => "the greeting of a router",
            TakeoverStep::RouterOffer => "the offer of a router's sockets",
            TakeoverStep::Routes => "the word that the successor routes",
        }
    }
}

/// A message.
pub(crate) struct TakeoverMessage {
    pub(crate) kind: TakeoverStep,
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// One end.
pub(crate) struct TakeoverWire(UnixStream);

impl TakeoverWire {
    pub(crate) fn new(stream: UnixStream) -> io::Result<TakeoverWire> {
        stream.set_write_timeout(Some(Duration::from_secs(10)))?;
        Ok(TakeoverWire(stream))
    }

    pub(crate) fn stream(&self) -> &UnixStream {
        &self.0
    }

    /// Whether the other end is closed. Messages may still have to be read.
    pub(crate) fn is_closed(&self) -> bool {
        let mut end = [PollFd::new(&self.0, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut end, Some(&now)).is_ok() && end[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    pub(crate) fn send(
        &mut self,
        kind: TakeoverStep,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut head = [0; HEAD_LEN];
        head[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        let len = u32::try_from(bytes.len()).ok().filter(|len| *len <= LEN_MAX);
        head[4..].copy_from_slice(&len.ok_or(io::ErrorKind::FileTooLarge)?.to_le_bytes());
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let part = [IoSlice::new(&head)];
        let sent = retry_on_intr(|| sendmsg(&self.0, &part, &mut ancillary, SendFlags::NOSIGNAL))?;
        self.0.write_all(&head[sent..])?;
        self.0.write_all(bytes)
    }

    /// The next message, within so long a silence.
    pub(crate) fn receive(&mut self, silence: Duration) -> io::Result<TakeoverMessage> {
        self.0.set_read_timeout(Some(silence))?;
        let mut head = [0; HEAD_LEN];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        // With a timeout, a process that was stopped and goes on is interrupted (signal(7)).
        let mut part = [IoSliceMut::new(&mut head)];
        let received = retry_on_intr(|| recvmsg(&self.0, &mut part, &mut ancillary, flags))?;
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            // Those that were left out are closed already, and nobody knows how many there were.
            return Err(io::Error::other("there is no room for its descriptors: raise `ulimit -n` or -c"));
        }
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                descriptors.extend(passed);
            }
        }
        self.0.read_exact(&mut head[received.bytes..])?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let kind =
            KINDS.into_iter().find(|kind| *kind as u32 == number(0)).ok_or(io::ErrorKind::InvalidData)?;
        let len = number(4);
        if len > LEN_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // As it comes: a length that is not true takes no memory.
        let mut bytes = Vec::new();
        (&self.0).take(u64::from(len)).read_to_end(&mut bytes)?;
        if bytes.len() != len as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(TakeoverMessage { kind, bytes, descriptors })
    }

    /// The next message, whatever it is, or what became of the other end.
    pub(crate) fn receive_answer(&mut self, silence: Duration) -> Result<TakeoverMessage, String> {
        self.receive(silence).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                "the other process is gone".to_owned()
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("the other process says nothing for {} s", silence.as_secs())
            }
            _ => error.to_string(),
        })
    }

    /// The next message, which has to be of this kind.
    pub(crate) fn expect(
        &mut self,
        kind: TakeoverStep,
        silence: Duration,
    ) -> Result<TakeoverMessage, String> {
        let message = self.receive_answer(silence)?;
        if message.kind == kind { Ok(message) } else { Err(message.unexpected(kind)) }
    }

    /// The same; whoever says something else is told.
    pub(crate) fn expect_or_refuse(
        &mut self,
        kind: TakeoverStep,
        silence: Duration,
    ) -> Result<TakeoverMessage, String> {
        let message = self.receive_answer(silence)?;
        if message.kind == kind {
            return Ok(message);
        }
        let why = message.unexpected(kind);
        // It may be gone.
        let _ = self.send(TakeoverStep::Refused, why.as_bytes(), &[]);
        Err(why)
    }
}

impl TakeoverMessage {
    /// What is wrong with a message that came instead of another one.
    pub(crate) fn unexpected(&self, expected: TakeoverStep) -> String {
        match self.kind {
            TakeoverStep::Refused => String::from_utf8_lossy(&self.bytes).into_owned(),
            found => format!("expected {}, found {}", expected.name(), found.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    const SILENCE: Duration = Duration::from_secs(10);

    fn pair() -> [TakeoverWire; 2] {
        let (one, other) = UnixStream::pair().expect("a pair");
        [one, other].map(|stream| TakeoverWire::new(stream).expect("a wire"))
    }

    #[test]
    fn messages_arrive_with_their_descriptors() {
        let [mut near, mut far] = pair();
        let files: Vec<File> =
            (0..DESCRIPTORS_MAX).map(|_| File::open("/dev/null").expect("a file")).collect();
        let descriptors: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        near.send(TakeoverStep::Connections, b"some", &descriptors).expect("room");
        near.send(TakeoverStep::Have, b"", &[]).expect("room");
        let message = far.receive(SILENCE).expect("a message");
        assert_eq!((message.kind, &message.bytes[..]), (TakeoverStep::Connections, &b"some"[..]));
        assert_eq!(message.descriptors.len(), DESCRIPTORS_MAX);
        assert!(far.expect(TakeoverStep::Have, SILENCE).is_ok());
        assert!(near.send(TakeoverStep::Connections, b"", &[descriptors[0]; DESCRIPTORS_MAX + 1]).is_err());
    }

    #[test]
    fn the_other_ends_refusal_end_and_silence_are_told_apart() {
        let [mut near, mut far] = pair();
        near.send(TakeoverStep::Refused, b"no room", &[]).expect("room");
        assert_eq!(far.expect(TakeoverStep::Offer, SILENCE).err(), Some("no room".to_owned()));
        near.send(TakeoverStep::Hello, b"", &[]).expect("room");
        let error = far.expect(TakeoverStep::Offer, SILENCE).err();
        assert_eq!(
            error,
            Some("expected the offer of sockets and memory, found the greeting of a server".to_owned())
        );
        let error = far.expect(TakeoverStep::Offer, Duration::from_millis(1)).err().expect("silence");
        assert!(error.starts_with("the other process says nothing"), "{error}");
        assert!(!far.is_closed());
        drop(near);
        assert!(far.is_closed());
        assert_eq!(
            far.expect(TakeoverStep::Offer, SILENCE).err(),
            Some("the other process is gone".to_owned())
        );
    }

    #[test]
    fn a_length_that_is_not_true_takes_no_memory() {
        for len in [u32::MAX, LEN_MAX] {
            let [near, mut far] = pair();
            let head = [(TakeoverStep::State as u32).to_le_bytes(), len.to_le_bytes()].concat();
            (&near.0).write_all(&head).expect("room");
            drop(near);
            assert!(far.receive(SILENCE).is_err());
        }
    }
}
