//! The table of meta flags: a row for each letter, and what follows from the rows.
//!
//! The parsers take the letters and their arguments from here, and replies take the letters that they return.
//! `server/tests/meta_flags.rs` checks the server, the transcripts and the documentation against every row.

use MetaCommand::{Arithmetic, Delete, Get, Set};

use crate::reply::line;

/// A meta command that takes flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaCommand {
    /// `mg`
    Get,
    /// `ms`
    Set,
    /// `md`
    Delete,
    /// `ma`
    Arithmetic,
}

/// All that take flags, in the order of the documentation.
pub const COMMANDS: [MetaCommand; 4] = [Get, Set, Delete, Arithmetic];

/// One flag.
#[derive(Clone, Copy, Debug)]
pub struct FlagRow {
    /// Its letter.
    pub letter: u8,
    /// Its argument.
    pub argument: Argument,
    /// The placeholder of the argument in the documentation; empty if there is none.
    pub value: &'static str,
    /// The commands in which it has an effect. All commands accept all flags.
    pub commands: &'static [MetaCommand],
    /// The commands that return it in a reply about an item, followed by the requested fact.
    pub returned: &'static [MetaCommand],
    /// Its meaning: a cell of the documentation's table.
    pub meaning: &'static str,
}

/// The argument of a letter.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// None; anything after the letter is ignored.
    Nothing,
    /// None, and the key of this request is in base64.
    KeyIsBinary,
    /// Up to 31 bytes, which the reply repeats.
    Opaque,
    /// One character.
    Mode,
    /// A whole number.
    Number {
        /// The accepted numbers.
        range: Range,
        /// The value without the flag.
        default: u64,
        /// The reply to a malformed number. memcached does not set one for some flags, so that an earlier error
        /// remains.
        error: Option<&'static [u8]>,
    },
}

/// The whole numbers that a flag accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// Of 32 bits, with a sign.
    I32,
    /// Of 32 bits.
    U32,
    /// Of 64 bits.
    U64,
}

impl Range {
    pub(super) const fn max(self) -> u64 {
        match self {
            Range::I32 => i32::MAX as u64,
            Range::U32 => u32::MAX as u64,
            Range::U64 => u64::MAX,
        }
    }
}

const ALL: &[MetaCommand] = &COMMANDS;
const NONE: &[MetaCommand] = &[];

const EXPTIME: Argument =
    Argument::Number { range: Range::I32, default: 0, error: Some(line::META_BAD_TOKEN) };
const CAS: Argument = Argument::Number { range: Range::U64, default: 0, error: Some(line::META_BAD_TOKEN) };

/// A row without argument that returns nothing, for the rows that differ from it in a few fields.
const PLAIN: FlagRow = FlagRow {
    letter: 0,
    argument: Argument::Nothing,
    value: "",
    commands: NONE,
    returned: NONE,
    meaning: "",
};

/// The table.
pub const FLAGS: &[FlagRow] = &[
    FlagRow {
        letter: b'b',
        argument: Argument::KeyIsBinary,
        commands: ALL,
        meaning: "the key is in base64",
        ..PLAIN
    },
    FlagRow { letter: b'k', commands: ALL, returned: ALL, meaning: "return the key", ..PLAIN },
    FlagRow {
        letter: b'O',
        argument: Argument::Opaque,
        value: "token",
        commands: ALL,
        returned: ALL,
        meaning: "return the opaque token, up to 31 bytes",
    },
    FlagRow { letter: b'q', commands: ALL, meaning: "send no reply for the usual outcome", ..PLAIN },
    FlagRow {
        letter: b'c',
        commands: &[Get, Set, Arithmetic],
        returned: &[Get, Set, Arithmetic],
        meaning: "return the CAS",
        ..PLAIN
    },
    FlagRow {
        letter: b't',
        commands: &[Get, Arithmetic],
        returned: &[Get, Arithmetic],
        meaning: "return the seconds left, -1 for no expiry",
        ..PLAIN
    },
    FlagRow { letter: b'v', commands: &[Get, Arithmetic], meaning: "return the value", ..PLAIN },
    FlagRow { letter: b'f', commands: &[Get], returned: &[Get], meaning: "return the client flags", ..PLAIN },
    FlagRow {
        letter: b's',
        commands: &[Get, Set],
        returned: &[Get, Set],
        meaning: "return the length of the value",
        ..PLAIN
    },
    FlagRow {
        letter: b'h',
        commands: &[Get],
        returned: &[Get],
        meaning: "return whether it was fetched before",
        ..PLAIN
    },
    FlagRow {
        letter: b'l',
        commands: &[Get],
        returned: &[Get],
        meaning: "return the seconds since the last access",
        ..PLAIN
    },
    FlagRow { letter: b'u', commands: &[Get], meaning: "do not count this as a use", ..PLAIN },
    FlagRow {
        letter: b'C',
        argument: CAS,
        value: "cas",
        commands: ALL,
        meaning: "only if the CAS is this one (`mg`: no value if it is)",
        ..PLAIN
    },
    FlagRow { letter: b'E', argument: CAS, value: "cas", commands: ALL, meaning: "the new CAS", ..PLAIN },
    FlagRow {
        letter: b'T',
        argument: EXPTIME,
        value: "ttl",
        commands: ALL,
        meaning: "the time to live (`md`: with `I`)",
        ..PLAIN
    },
    FlagRow {
        letter: b'N',
        argument: EXPTIME,
        value: "ttl",
        commands: &[Get, Set, Arithmetic],
        meaning: "create on a miss, with this time to live (`ms`: for append and prepend)",
        ..PLAIN
    },
    FlagRow {
        letter: b'R',
        argument: EXPTIME,
        value: "ttl",
        commands: &[Get],
        meaning: "win the right to recache if less time is left",
        ..PLAIN
    },
    FlagRow {
        letter: b'F',
        argument: Argument::Number { range: Range::U32, default: 0, error: None },
        value: "flags",
        commands: &[Set],
        meaning: "the client flags",
        ..PLAIN
    },
    FlagRow {
        letter: b'I',
        commands: &[Set, Delete],
        meaning: "invalidate; `ms`: store although the CAS is older",
        ..PLAIN
    },
    FlagRow {
        letter: b'M',
        argument: Argument::Mode,
        value: "mode",
        commands: &[Set, Arithmetic],
        meaning: "`ms`: set, add, replace, append, prepend; `ma`: increment, decrement",
        ..PLAIN
    },
    FlagRow {
        letter: b'D',
        argument: Argument::Number { range: Range::U64, default: 1, error: Some(line::META_BAD_DELTA) },
        value: "delta",
        commands: &[Arithmetic],
        meaning: "by how much",
        ..PLAIN
    },
    FlagRow {
        letter: b'J',
        argument: Argument::Number { range: Range::U64, default: 0, error: Some(line::META_BAD_INITIAL) },
        value: "initial",
        commands: &[Arithmetic],
        meaning: "the initial value of a counter",
        ..PLAIN
    },
    FlagRow { letter: b'x', commands: &[Delete], meaning: "drop the value, keep the item", ..PLAIN },
    FlagRow { letter: b'P', meaning: "accepted and ignored", ..PLAIN },
    FlagRow { letter: b'L', meaning: "accepted and ignored", ..PLAIN },
];

/// The letters of all rows.
pub(crate) const KNOWN: u64 = {
    let mut known = 0;
    let mut at = 0;
    while at < FLAGS.len() {
        assert!(bit(FLAGS[at].letter) != 0 && known & bit(FLAGS[at].letter) == 0, "a letter has one row");
        let takes_none = matches!(FLAGS[at].argument, Argument::Nothing | Argument::KeyIsBinary);
        assert!(takes_none == FLAGS[at].value.is_empty(), "an argument has a name in the documentation");
        known |= bit(FLAGS[at].letter);
        at += 1;
    }
    known
};

/// The letters without an argument.
pub(crate) const BARE: u64 = {
    let mut bare = 0;
    let mut at = 0;
    while at < FLAGS.len() {
        if matches!(FLAGS[at].argument, Argument::Nothing) {
            bare |= bit(FLAGS[at].letter);
        }
        at += 1;
    }
    bare
};

/// The letters that a reply to `command` returns.
pub(crate) const fn returned_by(command: MetaCommand) -> u64 {
    let mut letters = 0;
    let mut at = 0;
    while at < FLAGS.len() {
        let mut of = 0;
        while of < FLAGS[at].returned.len() {
            if FLAGS[at].returned[of] as u8 == command as u8 {
                letters |= bit(FLAGS[at].letter);
            }
            of += 1;
        }
        at += 1;
    }
    letters
}

/// The argument of a letter that has a row.
#[inline]
pub(crate) fn argument(letter: u8) -> &'static Argument {
    &FLAGS[usize::from(ROWS[usize::from(letter)])].argument
}

/// The index of each letter's row; 0 for a letter without one.
const ROWS: [u8; 256] = {
    let mut rows = [0; 256];
    let mut at = 0;
    while at < FLAGS.len() {
        rows[FLAGS[at].letter as usize] = at as u8;
        at += 1;
    }
    rows
};

pub(crate) const fn bits(letters: &[u8]) -> u64 {
    let mut bits = 0;
    let mut at = 0;
    while at < letters.len() {
        bits |= bit(letters[at]);
        at += 1;
    }
    bits
}

/// The bit of a letter; 0 for a byte that cannot be a flag.
pub(crate) const fn bit(letter: u8) -> u64 {
    match letter {
        b'A'..=b'z' => 1 << (letter - b'A'),
        _ => 0,
    }
}
