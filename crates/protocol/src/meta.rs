//! The key and the flags of a meta command.
//!
//! A flag is a word: a letter, and for some letters an argument right behind it. Every meta command accepts
//! every flag; which of them mean something to it is the server's business. Errors are found in memcached's
//! order, which is not the order of the words.

mod reader;

pub(crate) use reader::{parse, starts_flag};

use crate::base64::{self, KeyBuffer};
use crate::limits::OPAQUE_LEN_MAX;
use crate::reply::line;
use crate::words::Words;

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

    /// The key as it stands in the request; replies repeat it so.
    pub fn as_written(&self) -> &'a [u8] {
        self.text
    }

    /// Whether the key was given in base64 (flag `b`).
    pub fn is_binary(&self) -> bool {
        self.binary
    }

    /// The bytes of the key: decoded into `buffer` if need be, which costs a text key nothing.
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
    client_flags: u32,
    exptime: i32,
    vivify: i32,
    recache: i32,
    compare_cas: u64,
    new_cas: u64,
    delta: u64,
    initial: u64,
}

/// The letters that memcached knows.
const KNOWN: u64 = bits(b"CDEFIJLMNOPRTbcfhklqstuvx");

pub(crate) const fn bits(letters: &[u8]) -> u64 {
    let mut bits = 0;
    let mut at = 0;
    while at < letters.len() {
        bits |= bit(letters[at]);
        at += 1;
    }
    bits
}

/// The bit of a letter; none for what cannot be a flag.
pub(crate) const fn bit(letter: u8) -> u64 {
    match letter {
        b'A'..=b'z' => 1 << (letter - b'A'),
        _ => 0,
    }
}

/// The letters whose argument, if there is one, is ignored: they say all by themselves.
const BARE: u64 = bits(b"IPLcfhklqstuvx");

/// What the short cuts put together flag by flag.
impl<'a> MetaFlags<'a> {
    #[inline]
    pub(crate) fn none() -> MetaFlags<'a> {
        MetaFlags {
            words: Words::behind(0, &[]),
            present: 0,
            mode: 0,
            client_flags: 0,
            exptime: 0,
            vivify: 0,
            recache: 0,
            compare_cas: 0,
            new_cas: 0,
            delta: 1,
            initial: 0,
        }
    }

    /// Notes that `letter` was given; `None` if there is no such flag, or if it was given before.
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
        match letter {
            b'T' => self.exptime = i32::try_from(number).ok()?,
            b'N' => self.vivify = i32::try_from(number).ok()?,
            b'R' => self.recache = i32::try_from(number).ok()?,
            b'F' => self.client_flags = u32::try_from(number).ok()?,
            b'C' => self.compare_cas = number,
            b'E' => self.new_cas = number,
            b'D' => self.delta = number,
            b'J' => self.initial = number,
            _ => return None,
        }
        Some(())
    }

    /// `text` is all flags as they were written, behind `before` other words.
    #[inline]
    pub(crate) fn set_words(&mut self, before: usize, text: &'a [u8]) {
        self.words = Words::behind(before, text);
    }
}

/// Whether what may stand behind `letter` is ignored.
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

    /// `q`: do not send the reply that says all went as usual.
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
        self.has(b'T').then_some(self.exptime)
    }

    /// `N`: create the item on a miss, with this exptime.
    pub fn vivify(&self) -> Option<i32> {
        self.has(b'N').then_some(self.vivify)
    }

    /// `R`: win the right to recache if the item's exptime is before this one.
    pub fn recache(&self) -> Option<i32> {
        self.has(b'R').then_some(self.recache)
    }

    /// `C`: only if the item's CAS is this one.
    pub fn compare_cas(&self) -> Option<u64> {
        self.has(b'C').then_some(self.compare_cas)
    }

    /// `E`: the item's CAS from now on.
    pub fn new_cas(&self) -> Option<u64> {
        self.has(b'E').then_some(self.new_cas)
    }

    /// `D`: how much to add or subtract; 1 if not given.
    pub fn delta(&self) -> u64 {
        self.delta
    }

    /// `J`: what a counter that is created starts with; 0 if not given.
    pub fn initial(&self) -> u64 {
        self.initial
    }

    /// `F`: the client's flags; 0 if not given.
    pub fn client_flags(&self) -> u32 {
        self.client_flags
    }

    /// The flags as they were written. For `ms` the data length is not among them.
    #[inline]
    pub fn words(&self) -> Words<'a> {
        self.words
    }

    /// `O`: the opaque word with its letter, to be repeated in the reply.
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
    /// memcached notices an overlong opaque last of all, while it writes the reply.
    pub(crate) fn check_opaque(&self) -> Result<(), &'static [u8]> {
        match self.opaque() {
            Some(word) if word.len() > OPAQUE_LEN_MAX => Err(line::META_LONG_OPAQUE),
            _ => Ok(()),
        }
    }
}
