//! The flags of a meta command, to be written.

use crate::limits::OPAQUE_LEN_MAX;
use crate::number::{write_i64, write_u64};
use crate::request::{ArithmeticMode, SetMode};

/// One flag. protocol.txt lists the flags of each command; a server ignores a flag that its command does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag<'a> {
    /// `b`: the key is in base64.
    Binary,
    /// `c`: return the CAS.
    Cas,
    /// `f`: return the client's flags.
    ClientFlags,
    /// `h`: return whether the item was fetched before.
    HitBefore,
    /// `k`: return the key.
    Key,
    /// `l`: return the seconds since the last access.
    Idle,
    /// `q`: no reply to the usual outcome.
    Quiet,
    /// `s`: return the value's length.
    Size,
    /// `t`: return the time to live.
    Ttl,
    /// `u`: do not count this as a use.
    NoBump,
    /// `v`: return the value.
    Value,
    /// `x`: drop the value, keep the item.
    DropValue,
    /// `I`: invalidate, or store although the CAS is older.
    Invalidate,
    /// `O`: the reply repeats it.
    Opaque(Opaque<'a>),
    /// `C`: only if the CAS is this one.
    CompareCas(u64),
    /// `E`: the new CAS.
    NewCas(u64),
    /// `F`: the client's flags.
    SetClientFlags(u32),
    /// `T`: the new exptime.
    Exptime(i32),
    /// `N`: create on a miss, with this exptime.
    Vivify(i32),
    /// `R`: recache if less time is left than this.
    Recache(i32),
    /// `J`: the initial value of a created counter.
    Initial(u64),
    /// `D`: how much to add or subtract.
    Delta(u64),
    /// `M` of `ms`.
    SetMode(SetMode),
    /// `M` of `ma`.
    ArithmeticMode(ArithmeticMode),
}

/// The argument of flag `O`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opaque<'a>(&'a [u8]);

impl<'a> Opaque<'a> {
    /// At most [`OPAQUE_LEN_MAX`] bytes with the letter, none of which ends a word or a line; `None` for other bytes.
    pub fn new(bytes: &'a [u8]) -> Option<Opaque<'a>> {
        let fits = bytes.len() < OPAQUE_LEN_MAX;
        let is_word = !bytes.iter().any(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
        (fits && is_word).then_some(Opaque(bytes))
    }

    /// Without the letter.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl Flag<'_> {
    /// Appends a space and the flag.
    #[inline]
    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Flag::Binary => out.extend_from_slice(b" b"),
            Flag::Cas => out.extend_from_slice(b" c"),
            Flag::ClientFlags => out.extend_from_slice(b" f"),
            Flag::HitBefore => out.extend_from_slice(b" h"),
            Flag::Key => out.extend_from_slice(b" k"),
            Flag::Idle => out.extend_from_slice(b" l"),
            Flag::Quiet => out.extend_from_slice(b" q"),
            Flag::Size => out.extend_from_slice(b" s"),
            Flag::Ttl => out.extend_from_slice(b" t"),
            Flag::NoBump => out.extend_from_slice(b" u"),
            Flag::Value => out.extend_from_slice(b" v"),
            Flag::DropValue => out.extend_from_slice(b" x"),
            Flag::Invalidate => out.extend_from_slice(b" I"),
            Flag::Opaque(Opaque(bytes)) => {
                out.extend_from_slice(b" O");
                out.extend_from_slice(bytes);
            }
            Flag::CompareCas(cas) => unsigned(out, b" C", cas),
            Flag::NewCas(cas) => unsigned(out, b" E", cas),
            Flag::SetClientFlags(flags) => unsigned(out, b" F", u64::from(flags)),
            Flag::Exptime(exptime) => signed(out, b" T", exptime),
            Flag::Vivify(exptime) => signed(out, b" N", exptime),
            Flag::Recache(exptime) => signed(out, b" R", exptime),
            Flag::Initial(number) => unsigned(out, b" J", number),
            Flag::Delta(number) => unsigned(out, b" D", number),
            Flag::SetMode(mode) => out.extend_from_slice(match mode {
                SetMode::Set => b" MS",
                SetMode::Add => b" ME",
                SetMode::Replace => b" MR",
                SetMode::Append => b" MA",
                SetMode::Prepend => b" MP",
            }),
            Flag::ArithmeticMode(ArithmeticMode::Increment) => out.extend_from_slice(b" MI"),
            Flag::ArithmeticMode(ArithmeticMode::Decrement) => out.extend_from_slice(b" MD"),
        }
    }
}

#[inline]
fn unsigned(out: &mut Vec<u8>, letter: &[u8; 2], number: u64) {
    out.extend_from_slice(letter);
    write_u64(out, number);
}

#[inline]
fn signed(out: &mut Vec<u8>, letter: &[u8; 2], number: i32) {
    out.extend_from_slice(letter);
    write_i64(out, i64::from(number));
}
