//! Heads of requests: header, extras and key, parsed to a checked value.

use super::header::{HEADER_LEN, REQUEST_MAGIC, ReplyTo, RequestHeader};
use super::opcode::Opcode;
use super::status::ReplyStatus;
use crate::discovery::DISCOVERY_NAME;
use crate::limits::{KEY_LEN_MAX, PACKET_BODY_LEN_MAX};
use crate::request::{ArithmeticMode, SetMode};

/// The expiry of an increment or decrement that must not create an item.
const CREATE_NOTHING: u32 = u32::MAX;

/// `config get` of AWS' clients. It is no [`Opcode`]: memcached does not know it, and a server without a list of members
/// answers as memcached does.
const CONFIG_GET: u8 = 0x60;

/// The start of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryParsed<'a> {
    /// The head is not complete.
    Incomplete,
    /// The first byte is not that of a request: the connection is closed without a reply.
    NoRequest,
    /// A whole head.
    Head {
        /// The request.
        request: BinaryRequest<'a>,
        /// Length of the head.
        consumed: usize,
    },
}

/// One request, without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinaryRequest<'a> {
    /// What replies repeat.
    pub reply_to: ReplyTo,
    /// Send no reply for the usual outcome.
    pub quiet: bool,
    /// The CAS unique that the item must have; 0 for any.
    pub cas: u64,
    /// What to do.
    pub command: BinaryCommand<'a>,
}

/// What a request wants. Keys have 1 to [`KEY_LEN_MAX`] bytes, any bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryCommand<'a> {
    /// `get`, `gat`.
    Get {
        /// The key.
        key: &'a [u8],
        /// Reply with the key, also if there is no item.
        with_key: bool,
        /// Also set this expiry (`gat`).
        exptime: Option<u32>,
    },
    /// `touch`.
    Touch {
        /// The key.
        key: &'a [u8],
        /// The item's new expiry.
        exptime: u32,
    },
    /// `set`, `add`, `replace`, `append`, `prepend`. A value follows.
    Store(BinaryStore<'a>),
    /// `delete`.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// `increment`, `decrement`.
    Arithmetic {
        /// Up or down.
        mode: ArithmeticMode,
        /// The key.
        key: &'a [u8],
        /// By how much.
        delta: u64,
        /// The value of an item that is created, and its expiry; `None`: create nothing.
        create: Option<(u64, u32)>,
    },
    /// `flush`.
    Flush {
        /// When: 0 is now.
        exptime: u32,
    },
    /// `noop`.
    Noop,
    /// `version`.
    Version,
    /// `quit`.
    Quit,
    /// `stat`.
    Stat {
        /// Which statistics; empty for the general ones.
        name: &'a [u8],
    },
    /// `sasl_list_mechs`.
    SaslList,
    /// `sasl_auth`, `sasl_step`. `len` bytes of credentials follow.
    Sasl {
        /// The first step.
        is_first: bool,
        /// The mechanism.
        mechanism: &'a [u8],
        /// Length of the credentials.
        len: usize,
    },
    /// `config get cluster` of AWS' clients, which memcached does not know.
    Discover,
    /// An unknown opcode. The rest of the request is dropped.
    Unknown {
        /// Its length.
        rest: usize,
    },
    /// A request that memcached refuses: after the rest of its head the error is sent, and the connection closed.
    Refused {
        /// The error.
        status: ReplyStatus,
        /// Length of the extras and the key, which are not consumed.
        rest: usize,
    },
}

/// A storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinaryStore<'a> {
    /// Which one.
    pub mode: SetMode,
    /// The key.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// 0 is never, up to 30 days is from now, and more is Unix time.
    pub exptime: u32,
    /// Length of the value.
    pub len: usize,
}

impl<'a> BinaryRequest<'a> {
    /// Length of the value that follows the head.
    #[inline]
    pub fn value_len(&self) -> usize {
        match self.command {
            BinaryCommand::Store(store) => store.len,
            BinaryCommand::Sasl { len, .. } => len,
            _ => 0,
        }
    }

    /// Whether memcached executes the request also before an authentication.
    pub fn comes_before_authentication(&self) -> bool {
        use Opcode::*;
        matches!(Opcode::of(self.reply_to.opcode), Some(SaslList | SaslAuth | SaslStep | Version))
    }

    /// The key, if the request is about an item.
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        match self.command {
            BinaryCommand::Get { key, .. }
            | BinaryCommand::Touch { key, .. }
            | BinaryCommand::Store(BinaryStore { key, .. })
            | BinaryCommand::Delete { key }
            | BinaryCommand::Arithmetic { key, .. } => Some(key),
            _ => None,
        }
    }
}

/// Parses the head of the request that `input` starts with.
#[inline]
pub fn parse(input: &[u8]) -> BinaryParsed<'_> {
    let Some((header, rest)) = input.split_first_chunk::<HEADER_LEN>() else {
        return match input.first() {
            None | Some(&REQUEST_MAGIC) => BinaryParsed::Incomplete,
            Some(_) => BinaryParsed::NoRequest,
        };
    };
    if header[0] != REQUEST_MAGIC {
        return BinaryParsed::NoRequest;
    }
    let header = RequestHeader::read(header);
    let head_rest = header.extras_len + header.key_len;
    let refused = |status| {
        let command = BinaryCommand::Refused { status, rest: head_rest };
        BinaryParsed::Head { request: request(&header, false, command), consumed: HEADER_LEN }
    };
    if head_rest > header.body_len {
        return refused(ReplyStatus::UnknownCommand);
    }
    if header.key_len > KEY_LEN_MAX || header.body_len > PACKET_BODY_LEN_MAX {
        return refused(ReplyStatus::InvalidArguments);
    }
    let value_len = header.body_len - head_rest;
    let Some(opcode) = header.opcode() else {
        // Its reply, too, waits for the rest of the head.
        if rest.len() < head_rest {
            return BinaryParsed::Incomplete;
        }
        let command = match header.reply_to.opcode {
            CONFIG_GET
                if header.extras_len == 0 && rest[..head_rest] == *DISCOVERY_NAME && value_len == 0 =>
            {
                BinaryCommand::Discover
            }
            _ => BinaryCommand::Unknown { rest: value_len },
        };
        return BinaryParsed::Head {
            request: request(&header, false, command),
            consumed: HEADER_LEN + head_rest,
        };
    };
    if !suits(opcode, &header, value_len) {
        return refused(ReplyStatus::InvalidArguments);
    }
    let Some(head) = rest.get(..head_rest) else { return BinaryParsed::Incomplete };
    let (extras, key) = head.split_at(header.extras_len);
    let command = command(opcode, extras, key, value_len);
    let request = request(&header, opcode.is_quiet(), command);
    BinaryParsed::Head { request, consumed: HEADER_LEN + head_rest }
}

#[inline]
fn request<'a>(header: &RequestHeader, quiet: bool, command: BinaryCommand<'a>) -> BinaryRequest<'a> {
    BinaryRequest { reply_to: header.reply_to, quiet, cas: header.cas, command }
}

/// Whether the lengths in the header are those of the opcode. As in memcached, `touch`, `gat` and `stat` may have a
/// value, which is then taken for the next request.
#[inline]
fn suits(opcode: Opcode, header: &RequestHeader, value_len: usize) -> bool {
    use Opcode::*;
    let (has_key, extras_len) = (header.key_len > 0, header.extras_len);
    match opcode {
        Get | GetQ | GetK | GetKQ | Delete | DeleteQ => has_key && extras_len == 0 && value_len == 0,
        Set | SetQ | Add | AddQ | Replace | ReplaceQ => has_key && extras_len == 8,
        Append | AppendQ | Prepend | PrependQ | SaslAuth | SaslStep => has_key && extras_len == 0,
        Increment | IncrementQ | Decrement | DecrementQ => has_key && extras_len == 20 && value_len == 0,
        Touch | Gat | GatQ | GatK | GatKQ => has_key && extras_len == 4,
        Flush | FlushQ => !has_key && value_len == 0 && matches!(extras_len, 0 | 4),
        Noop | Version | Quit | QuitQ | SaslList => header.body_len == 0,
        Stat => extras_len == 0,
    }
}

/// The command of an opcode whose lengths have been checked.
#[inline]
fn command<'a>(opcode: Opcode, extras: &[u8], key: &'a [u8], len: usize) -> BinaryCommand<'a> {
    use Opcode::*;
    let store = |mode| {
        let (flags, exptime) =
            if extras.is_empty() { (0, 0) } else { (u32_at(extras, 0), u32_at(extras, 4)) };
        BinaryCommand::Store(BinaryStore { mode, key, flags, exptime, len })
    };
    let arithmetic = |mode| {
        let exptime = u32_at(extras, 16);
        let create = (exptime != CREATE_NOTHING).then(|| (u64_at(extras, 8), exptime));
        BinaryCommand::Arithmetic { mode, key, delta: u64_at(extras, 0), create }
    };
    let get = |with_key, exptime| BinaryCommand::Get { key, with_key, exptime };
    match opcode {
        Get | GetQ => get(false, None),
        GetK | GetKQ => get(true, None),
        Gat | GatQ => get(false, Some(u32_at(extras, 0))),
        GatK | GatKQ => get(true, Some(u32_at(extras, 0))),
        Touch => BinaryCommand::Touch { key, exptime: u32_at(extras, 0) },
        Set | SetQ => store(SetMode::Set),
        Add | AddQ => store(SetMode::Add),
        Replace | ReplaceQ => store(SetMode::Replace),
        Append | AppendQ => store(SetMode::Append),
        Prepend | PrependQ => store(SetMode::Prepend),
        Delete | DeleteQ => BinaryCommand::Delete { key },
        Increment | IncrementQ => arithmetic(ArithmeticMode::Increment),
        Decrement | DecrementQ => arithmetic(ArithmeticMode::Decrement),
        Flush | FlushQ => {
            BinaryCommand::Flush { exptime: if extras.is_empty() { 0 } else { u32_at(extras, 0) } }
        }
        Noop => BinaryCommand::Noop,
        Version => BinaryCommand::Version,
        Quit | QuitQ => BinaryCommand::Quit,
        Stat => BinaryCommand::Stat { name: key },
        SaslList => BinaryCommand::SaslList,
        SaslAuth | SaslStep => BinaryCommand::Sasl { is_first: opcode == SaslAuth, mechanism: key, len },
    }
}

/// The number at byte `at` of extras whose length has been checked.
#[inline]
fn u32_at(extras: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(*extras[at..].first_chunk().expect("the length of the extras was checked"))
}

#[inline]
fn u64_at(extras: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(*extras[at..].first_chunk().expect("the length of the extras was checked"))
}
