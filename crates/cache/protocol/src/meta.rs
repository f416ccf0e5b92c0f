//! The key and the flags of a meta command.
//!
//! A flag is a word: a letter, and for some letters an argument directly after it. Every meta command accepts every
//! flag; the server decides which of them have an effect. Errors are found in memcached's order, which is not the order
//! of the words.

mod numbers;
mod reader;
mod table;

pub(crate) use reader::{parse, starts_flag};
pub use table::{Argument, COMMANDS, FLAGS, FlagRow, MetaCommand, Range};
pub(crate) use table::{bit, bits, returned_by};

use crate::base64::{self, KeyBuffer};
use crate::limits::OPAQUE_LEN_MAX;
use crate::reply::line;
use crate::words::Words;
use numbers::Numbers;
use table::{BARE, KNOWN};

/// The key of a meta command, as it was written: text, or base64 of any bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MetaKey<'a> {
    text: &'a [u8],
    binary: bool,
}

impl<'a> MetaKey<'a> {
    /// The caller has checked the length, and that a binary key can be decoded.
    pub(crate) fn new(text: &'a [u8], binary: bool) -> MetaKey<'a> {
        MetaKey { text, binary }
    }

    /// The key as in the request; replies repeat it in this form.
    pub fn as_written(&self) -> &'a [u8] {
        self.text
    }

    /// Whether the key was given in base64 (flag `b`).
    pub fn is_binary(&self) -> bool {
        self.binary
    }

    /// The bytes of the key, decoded into `buffer` if it is in base64. Costs nothing for a text key.
    #[inline]
    pub fn bytes<'b>(&self, buffer: &'b mut KeyBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.binary {
            return self.text;
        }
        base64::decode(self.text, buffer).expect("the key was decoded once when it was parsed")
    }
}

impl std::fmt::Debug for MetaKey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.binary { "base64:" } else { "" }, self.text.escape_ascii())
    }
}

/// The flags of a meta command: parsed, and as they were written for the reply to repeat their order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MetaFlags<'a> {
    words: Words<'a>,
    /// One bit for every letter from `A` on.
    present: u64,
    /// The byte behind `M`; 0 if there is no mode.
    pub(crate) mode: u8,
    numbers: Numbers,
}

/// Used by the short cuts, which add flag by flag.
impl<'a> MetaFlags<'a> {
    #[inline]
    pub(crate) fn none() -> MetaFlags<'a> {
        MetaFlags { words: Words::behind(0, &[]), present: 0, mode: 0, numbers: Numbers::DEFAULT }
    }

    /// Marks `letter` as given; `None` if there is no such flag, or if it was given before.
    #[inline]
    pub(crate) fn claim(&mut self, letter: u8) -> Option<()> {
        let bit = bit(letter);
        let free = KNOWN & !self.present & bit != 0;
        self.present |= bit;
        free.then_some(())
    }

    /// How many flags were given.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.present.count_ones() as usize
    }

    /// Sets the argument of a flag that takes a number; `None` if it takes none, or not this one.
    #[inline]
    pub(crate) fn set_number(&mut self, letter: u8, number: u64) -> Option<()> {
        self.numbers.set(letter, number)
    }

    /// `text` is all flags as they were written, after `before` other words.
    #[inline]
    pub(crate) fn set_words(&mut self, before: usize, text: &'a [u8]) {
        self.words = Words::behind(before, text);
    }
}

/// Whether `letter` takes no argument, so that anything after it is ignored.
#[inline]
pub(crate) fn takes_no_argument(letter: u8) -> bool {
    BARE & bit(letter) != 0
}

impl<'a> MetaFlags<'a> {
    /// Whether flag `letter` was given. For the flags that take no argument.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        debug_assert!(KNOWN & bit(letter) != 0, "no such flag");
        self.present & bit(letter) != 0
    }

    /// `v`: return the value.
    pub fn value(&self) -> bool {
        self.has(b'v')
    }

    /// `q`: do not send the reply for the usual outcome.
    pub fn quiet(&self) -> bool {
        self.has(b'q')
    }

    /// `u`: do not count this as a use of the item.
    pub fn no_bump(&self) -> bool {
        self.has(b'u')
    }

    /// `I`: invalidate (`md`), or store although the CAS is older (`ms`).
    pub fn invalidate(&self) -> bool {
        self.has(b'I')
    }

    /// `x`: drop the value, keep the item.
    pub fn drop_value(&self) -> bool {
        self.has(b'x')
    }

    /// `T`: the new exptime.
    pub fn exptime(&self) -> Option<i32> {
        self.has(b'T').then_some(self.numbers.get(b'T') as i32)
    }

    /// `N`: create the item on a miss, with this exptime.
    pub fn vivify(&self) -> Option<i32> {
        self.has(b'N').then_some(self.numbers.get(b'N') as i32)
    }

    /// `R`: win the right to recache if the item's exptime is before this one.
    pub fn recache(&self) -> Option<i32> {
        self.has(b'R').then_some(self.numbers.get(b'R') as i32)
    }

    /// `C`: only if the item's CAS is this one.
    pub fn compare_cas(&self) -> Option<u64> {
        self.has(b'C').then_some(self.numbers.get(b'C'))
    }

    /// `E`: the item's new CAS.
    pub fn new_cas(&self) -> Option<u64> {
        self.has(b'E').then_some(self.numbers.get(b'E'))
    }

    /// `D`: how much to add or subtract; 1 if not given.
    pub fn delta(&self) -> u64 {
        self.numbers.get(b'D')
    }

    /// `J`: the initial value of a created counter; 0 if not given.
    pub fn initial(&self) -> u64 {
        self.numbers.get(b'J')
    }

    /// `F`: the client's flags; 0 if not given.
    pub fn client_flags(&self) -> u32 {
        self.numbers.get(b'F') as u32
    }

    /// The flags as they were written. For `ms` the data length is not among them.
    #[inline]
    pub fn words(&self) -> Words<'a> {
        self.words
    }

    /// `O`: the opaque word with its letter, which the reply repeats.
    pub fn opaque(&self) -> Option<&'a [u8]> {
        self.has(b'O').then(|| self.words.into_iter().find(|word| word[0] == b'O')).flatten()
    }
}

impl std::fmt::Debug for MetaFlags<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.words)
    }
}

impl MetaFlags<'_> {
    /// memcached checks the length of the opaque last, while it writes the reply.
    pub(crate) fn check_opaque(&self) -> Result<(), &'static [u8]> {
        match self.opaque() {
            Some(word) if word.len() > OPAQUE_LEN_MAX => Err(line::META_LONG_OPAQUE),
            _ => Ok(()),
        }
    }
}
