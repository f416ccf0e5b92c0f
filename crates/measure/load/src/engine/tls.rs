//! Encryption around another engine, which moves what is encrypted.

use super::{ConnectionEvent, Engine, GATHER_TIME, WAIT_MAX, Wait};
use crate::engine::outbox::Outbox;
use crate::engine::trust::Party;
use crate::types::error::Error;
use rustls::{ClientConnection, HandshakeKind};
use std::io::{self, Read, Write};

/// The connections of `E`, encrypted.
pub(crate) struct Encrypted<E> {
    engine: E,
    links: Vec<Link>,
    /// What is sent in this turn, encrypted.
    sealed: Outbox,
    /// Connections whose session has something to say of its own accord: part of a handshake, new keys.
    talking: Vec<usize>,
    /// Handshakes that nobody has been told of.
    agreed: Vec<Agreed>,
    /// What is to be told of connections that were opened anew.
    news: Vec<ConnectionEvent>,
    /// What was received, decrypted.
    plain: Vec<u8>,
}

struct Link {
    party: Party,
    /// How long the connection took that is being encrypted anew.
    opening_ns: Option<u64>,
    session: ClientConnection,
    /// When the handshake began; `None`: it is over.
    began_ns: Option<u64>,
}

#[derive(Clone, Copy)]
struct Agreed {
    took_ns: u64,
    is_resumed: bool,
}

/// Handshakes of one thread at the same time: as many as connections are opened at the same time.
const AT_ONCE: usize = 64;
/// When no server says anything for so many waits, none will: 10 s.
const SILENCES_MAX: u32 = 200;
const _: () = assert!(WAIT_MAX.as_millis() * SILENCES_MAX as u128 == 10_000);
/// What a record holds at most.
const PLAIN_LEN: usize = 16 * 1024;

impl<E: Engine> Encrypted<E> {
    /// Agrees with the server on each connection of `engine`.
    pub(crate) fn new(engine: E, parties: Vec<Party>) -> Result<Encrypted<E>, Error> {
        let links = parties.into_iter().enumerate().map(|(connection, party)| {
            let session = party.session().map_err(|source| Error::Handshake { connection, source })?;
            Ok(Link { party, opening_ns: None, session, began_ns: None })
        });
        let mut encrypted = Encrypted {
            engine,
            links: links.collect::<Result<_, Error>>()?,
            sealed: Outbox::default(),
            talking: Vec::new(),
            agreed: Vec::new(),
            news: Vec::new(),
            plain: vec![0; PLAIN_LEN],
        };
        encrypted.agree()?;
        Ok(encrypted)
    }

    /// All handshakes, some at a time.
    fn agree(&mut self) -> Result<(), Error> {
        let (nothing, wait) =
            (Outbox::default(), Wait { gather: 1, gather_time: GATHER_TIME, at_most: WAIT_MAX });
        let (mut begun, mut silences) = (0, 0);
        while self.agreed.len() < self.links.len() {
            let now_ns = self.now_ns();
            while begun < self.links.len() && begun - self.agreed.len() < AT_ONCE {
                self.begin(begun, now_ns);
                begun += 1;
            }
            let before = self.agreed.len();
            self.exchange(&nothing, wait)?;
            self.arrivals(|_, _, _| Ok(()))?;
            let mut ended = None;
            self.engine.events(|event| ended = error_of(event).or(ended.take()))?;
            if let Some(error) = self.news.drain(..).find_map(error_of).or(ended) {
                return Err(error);
            }
            silences = if self.agreed.len() > before { 0 } else { silences + 1 };
            if silences > SILENCES_MAX {
                return Err(Error::HandshakeSilence);
            }
        }
        Ok(())
    }

    fn begin(&mut self, connection: usize, now_ns: u64) {
        self.links[connection].began_ns = Some(now_ns);
        self.talking.push(connection);
    }

    /// Encrypts `bytes` and whatever else the session has to say.
    fn seal(&mut self, connection: usize, bytes: &[u8]) -> Result<(), Error> {
        let session = &mut self.links[connection].session;
        let start = self.sealed.bytes.len();
        let broken = |source| Error::Broken { connection, source };
        session.writer().write_all(bytes).map_err(broken)?;
        while session.wants_write() {
            session.write_tls(&mut self.sealed.bytes).map_err(broken)?;
        }
        if self.sealed.bytes.len() > start {
            self.sealed.address(connection, start);
        }
        Ok(())
    }
}

impl<E: Engine> Engine for Encrypted<E> {
    const NAME: &'static str = E::NAME;

    fn exchange(&mut self, outbox: &Outbox, wait: Wait) -> Result<(), Error> {
        for (connection, bytes) in outbox.parcels() {
            self.seal(connection, bytes)?;
        }
        for connection in std::mem::take(&mut self.talking) {
            // Whoever has sent a parcel has said it with that.
            if self.links[connection].session.wants_write() {
                self.seal(connection, b"")?;
            }
        }
        let exchanged = self.engine.exchange(&self.sealed, wait);
        self.sealed.clear();
        exchanged
    }

    fn now_ns(&self) -> u64 {
        self.engine.now_ns()
    }

    fn arrivals(
        &mut self,
        mut each: impl FnMut(usize, &[u8], Option<u64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Encrypted { engine, links, talking, agreed, news, plain, .. } = self;
        let now_ns = engine.now_ns();
        engine.arrivals(|connection, mut bytes, at_ns| {
            let link = &mut links[connection];
            while !bytes.is_empty() {
                match link.decrypt(connection, &mut bytes, plain, |bytes| each(connection, bytes, at_ns)) {
                    Ok(true) => {}
                    // The server has said goodbye, and the session wants nothing of what it says afterwards.
                    Ok(false) => break,
                    Err(error) => {
                        news.push(ConnectionEvent::Ended { connection, error });
                        return Ok(());
                    }
                }
            }
            if link.session.wants_write() {
                talking.push(connection);
            }
            if let Some(began_ns) = link.began_ns.filter(|_| !link.session.is_handshaking()) {
                link.began_ns = None;
                news.extend(
                    link.opening_ns.take().map(|took_ns| ConnectionEvent::Opened { connection, took_ns }),
                );
                agreed.push(Agreed {
                    took_ns: now_ns - began_ns,
                    is_resumed: link.session.handshake_kind() == Some(HandshakeKind::Resumed),
                });
            }
            Ok(())
        })
    }

    fn events(&mut self, mut each: impl FnMut(ConnectionEvent)) -> Result<(), Error> {
        for Agreed { took_ns, is_resumed } in self.agreed.drain(..) {
            each(ConnectionEvent::Agreed { took_ns, is_resumed });
        }
        let mut opened = Vec::new();
        self.engine.events(|event| match event {
            ConnectionEvent::Opened { connection, took_ns } => opened.push((connection, took_ns)),
            event => each(event),
        })?;
        let now_ns = self.now_ns();
        for (connection, took_ns) in opened {
            let link = &mut self.links[connection];
            link.session = link.party.session().map_err(|source| Error::Handshake { connection, source })?;
            link.opening_ns = Some(took_ns);
            self.begin(connection, now_ns);
        }
        self.news.drain(..).for_each(each);
        Ok(())
    }

    fn reopen(&mut self, connection: usize) -> Result<(), Error> {
        self.close(connection);
        self.engine.reopen(connection)
    }

    fn close(&mut self, connection: usize) {
        self.talking.retain(|other| *other != connection);
        let link = &mut self.links[connection];
        (link.opening_ns, link.began_ns) = (None, None);
        self.engine.close(connection);
    }
}

/// The error of a connection that has ended.
fn error_of(event: ConnectionEvent) -> Option<Error> {
    match event {
        ConnectionEvent::Ended { error, .. } => Some(error),
        _ => None,
    }
}

impl Link {
    /// Passes on what some of the bytes hold; `false` if no more are wanted.
    fn decrypt(
        &mut self,
        connection: usize,
        bytes: &mut &[u8],
        plain: &mut [u8],
        mut each: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let broken = |source| Error::Broken { connection, source };
        if self.session.read_tls(bytes).map_err(broken)? == 0 {
            return Ok(false);
        }
        self.session.process_new_packets().map_err(|source| Error::Handshake { connection, source })?;
        loop {
            match self.session.reader().read(plain) {
                // The end of the connection itself follows.
                Ok(0) => return Ok(true),
                Ok(len) => each(&plain[..len])?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(source) => return Err(Error::Broken { connection, source }),
            }
        }
    }
}
