//! The flags of a meta reply: the facts that the request asked for, and the marks that the server adds.

use super::line::number;
use super::reply::MalformedReply;
use crate::meta::bit;

/// The flags of a meta reply as they were written; [`ReturnFlags::read`] parses them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReturnFlags<'a>(&'a [u8]);

/// The facts in a meta reply after its code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returned<'a> {
    /// `k`: the key, in base64 if `is_binary`.
    pub key: Option<&'a [u8]>,
    /// `b`: the key is in base64.
    pub is_binary: bool,
    /// `O`: the opaque of the request, without the letter.
    pub opaque: Option<&'a [u8]>,
    /// `c`: the CAS.
    pub cas: Option<u64>,
    /// `f`: the client's flags.
    pub flags: Option<u64>,
    /// `s`: the value's length.
    pub size: Option<u64>,
    /// `t`: its time to live.
    pub ttl: Option<Ttl>,
    /// `l`: seconds since the last access.
    pub idle_s: Option<u64>,
    /// `h`: whether it had been fetched before.
    pub hit_before: Option<bool>,
    /// `W`: this client is to recache the item.
    pub won: bool,
    /// `X`: the item is stale.
    pub stale: bool,
    /// `Z`: another client is recaching it.
    pub token_sent: bool,
}

/// Time to live of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// In seconds.
    Seconds(u64),
    /// `-1`
    Forever,
}

impl<'a> ReturnFlags<'a> {
    /// No flags.
    pub(super) const NONE: ReturnFlags<'static> = ReturnFlags(&[]);

    #[inline]
    pub(super) fn new(text: &'a [u8]) -> ReturnFlags<'a> {
        ReturnFlags(text)
    }

    /// As they were written, after the space that separates them from the code.
    pub fn as_written(self) -> &'a [u8] {
        self.0
    }

    /// Each flag: its letter and its argument.
    #[inline]
    pub fn words(self) -> impl Iterator<Item = (u8, &'a [u8])> {
        self.0
            .split(|&byte| byte == b' ')
            .filter_map(|word| word.split_first())
            .map(|(&letter, rest)| (letter, rest))
    }

    /// The key that `k` returns, as written: in base64 if flag `b` is present, too. Other flags are not parsed.
    #[inline]
    pub fn key(self) -> Option<&'a [u8]> {
        self.words().find(|&(letter, _)| letter == b'k').map(|(_, key)| key)
    }

    /// Parses all of them. Unknown flags are skipped.
    pub fn read(self) -> Result<Returned<'a>, MalformedReply<'a>> {
        let mut returned = Returned::default();
        let mut seen = 0;
        for (letter, argument) in self.words() {
            if seen & bit(letter) != 0 {
                return Err(MalformedReply { found: self.0, accepted: "each return flag once" });
            }
            seen |= bit(letter);
            returned.take(letter, argument).ok_or(MalformedReply { found: self.0, accepted: ARGUMENTS })?;
        }
        Ok(returned)
    }
}

const ARGUMENTS: &str = "return flags with numbers of 64 bits behind c, f, l, s and t, and 0 or 1 behind h";

impl<'a> Returned<'a> {
    /// Stores one flag; `None` if its argument is malformed.
    fn take(&mut self, letter: u8, argument: &'a [u8]) -> Option<()> {
        match letter {
            b'k' => self.key = Some(argument),
            b'b' => self.is_binary = true,
            b'O' => self.opaque = Some(argument),
            b'c' => self.cas = Some(whole(argument)?),
            b'f' => self.flags = Some(whole(argument)?),
            b's' => self.size = Some(whole(argument)?),
            b't' if argument == b"-1" => self.ttl = Some(Ttl::Forever),
            b't' => self.ttl = Some(Ttl::Seconds(whole(argument)?)),
            b'l' => self.idle_s = Some(whole(argument)?),
            b'h' => self.hit_before = Some(whole(argument).filter(|&number| number < 2)? == 1),
            b'W' => self.won = true,
            b'X' => self.stale = true,
            b'Z' => self.token_sent = true,
            _ => {}
        }
        Some(())
    }
}

fn whole(argument: &[u8]) -> Option<u64> {
    number(argument).and_then(|(number, rest)| rest.is_empty().then_some(number))
}

impl std::fmt::Debug for ReturnFlags<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
