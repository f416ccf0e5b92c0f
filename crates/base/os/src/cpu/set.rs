//! Sets of CPUs, in the two notations of the kernel: lists (`0-3,8`) and masks (`ff,00000003`).
//!
//! A mask is words of 32 bits in hexadecimal, the most significant first, separated by commas (lib/bitmap.c,
//! `bitmap_parse`); leading words may be missing or zero, so equal sets may have different texts: compare sets, never
//! texts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The kernel's own limit (`NR_CPUS` of the largest configuration).
const CPUS_MAX: u32 = 8192;

/// A set of CPUs. Prints as a list.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet {
    /// Word `i` holds CPUs `64 i` to `64 i + 63`; the last word is not 0.
    words: Vec<u64>,
}

/// A text that is not a set of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetError {
    /// Not a list.
    #[error("expected a CPU list such as 0-3,8, found {0:?}")]
    List(String),
    /// Not a mask.
    #[error("expected a CPU mask such as ff,00000003, found {0:?}")]
    Mask(String),
}

impl CpuSet {
    /// No CPU.
    pub fn new() -> CpuSet {
        CpuSet::default()
    }

    /// CPUs 0 to `count - 1`.
    pub fn first(count: u32) -> CpuSet {
        (0..count).collect()
    }

    /// Adds a CPU. Panics from 8192 on, the limit of every kernel.
    pub fn insert(&mut self, cpu: u32) {
        assert!(cpu < CPUS_MAX, "CPU {cpu} is beyond what any kernel supports");
        let word = cpu as usize / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % 64);
    }

    /// Whether the CPU is in it.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get(cpu as usize / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// The number of CPUs.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has no CPU.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().zip(0..).flat_map(|(word, at)| {
            let lowest = |rest: u64| (rest != 0).then_some(rest);
            std::iter::successors(lowest(*word), move |rest| lowest(rest & (rest - 1)))
                .map(move |rest| 64 * at + rest.trailing_zeros())
        })
    }

    /// The lowest CPU.
    pub fn lowest(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The CPUs in both.
    #[must_use]
    pub fn and(&self, other: &CpuSet) -> CpuSet {
        CpuSet::trimmed(self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect())
    }

    /// The CPUs in either.
    #[must_use]
    pub fn or(&self, other: &CpuSet) -> CpuSet {
        let (long, short) = if self.words.len() < other.words.len() { (other, self) } else { (self, other) };
        let mut words = long.words.clone();
        words.iter_mut().zip(&short.words).for_each(|(word, other)| *word |= other);
        CpuSet { words }
    }

    /// The CPUs that are not in the other.
    #[must_use]
    pub fn without(&self, other: &CpuSet) -> CpuSet {
        let missing = other.words.iter().copied().chain(std::iter::repeat(0));
        CpuSet::trimmed(self.words.iter().zip(missing).map(|(a, b)| a & !b).collect())
    }

    /// Reads a list: `0-3,8`; empty for none.
    pub fn parse_list(text: &str) -> Result<CpuSet, CpuSetError> {
        let wrong = || CpuSetError::List(text.to_owned());
        let number =
            |text: &str| text.trim().parse::<u32>().ok().filter(|cpu| *cpu < CPUS_MAX).ok_or_else(wrong);
        let mut set = CpuSet::new();
        for range in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong());
            }
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Ok(set)
    }

    /// Reads a mask: `ff`, `3,00000000`. An empty word is 0, as for the kernel.
    pub fn parse_mask(text: &str) -> Result<CpuSet, CpuSetError> {
        let wrong = || CpuSetError::Mask(text.to_owned());
        let trimmed = text.trim();
        let bare = trimmed.strip_prefix("0x").unwrap_or(trimmed);
        if bare.is_empty() || bare.chars().any(|c| !c.is_ascii_hexdigit() && c != ',') {
            return Err(wrong());
        }
        let mut set = CpuSet::new();
        let mut words: Vec<&str> = bare.split(',').collect();
        words.reverse();
        // Without commas a mask may be of any length.
        let pieces: Vec<u128> = match words.as_slice() {
            [whole] if whole.len() > 8 => whole
                .as_bytes()
                .rchunks(8)
                .map(|chunk| u128::from_str_radix(&String::from_utf8_lossy(chunk), 16).map_err(|_| wrong()))
                .collect::<Result<_, _>>()?,
            words => words
                .iter()
                .map(|word| match word.len() {
                    0 => Ok(0),
                    1..=8 => u128::from_str_radix(word, 16).map_err(|_| wrong()),
                    _ => Err(wrong()),
                })
                .collect::<Result<_, _>>()?,
        };
        for (place, piece) in pieces.into_iter().enumerate() {
            for bit in (0..32).filter(|bit| piece >> bit & 1 == 1) {
                let cpu = place as u32 * 32 + bit;
                if cpu >= CPUS_MAX {
                    return Err(wrong());
                }
                set.insert(cpu);
            }
        }
        Ok(set)
    }

    /// As a mask: words of 32 bits, the first without leading zeros.
    pub fn mask(&self) -> String {
        let halves = self.words.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]);
        let mut words: Vec<u32> = halves.collect();
        while words.len() > 1 && words.last() == Some(&0) {
            words.pop();
        }
        let mut words = words.into_iter().rev();
        let first = words.next().unwrap_or(0);
        words.fold(format!("{first:x}"), |text, word| format!("{text},{word:08x}"))
    }

    fn trimmed(mut words: Vec<u64>) -> CpuSet {
        while words.last() == Some(&0) {
            words.pop();
        }
        CpuSet { words }
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<CpuSet, CpuSetError> {
        CpuSet::parse_list(text)
    }
}

impl TryFrom<String> for CpuSet {
    type Error = CpuSetError;

    fn try_from(text: String) -> Result<CpuSet, CpuSetError> {
        CpuSet::parse_list(&text)
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> String {
        set.to_string()
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| *next == last + 1) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_give_the_same_sets() {
        for (list, mask) in [
            ("", "0"),
            ("0", "1"),
            ("0-3,8", "10f"),
            ("31", "80000000"),
            ("32", "1,00000000"),
            ("0,63-64", "1,80000000,00000001"),
            ("1000", &format!("100{}", ",00000000".repeat(31))),
        ] {
            let set = CpuSet::parse_list(list).unwrap();
            assert_eq!(set.to_string(), list);
            assert_eq!(set.mask(), mask, "{list}");
            assert_eq!(CpuSet::parse_mask(mask).unwrap(), set, "{mask}");
        }
    }

    #[test]
    fn the_kernels_other_spellings_are_read() {
        let check = |text: &str, list: &str| {
            assert_eq!(CpuSet::parse_mask(text).unwrap().to_string(), list, "{text}")
        };
        check("00000000,00000003", "0-1");
        check("1,,00000001", "0,64");
        check("0xf", "0-3");
        check("ffffffffff", "0-39");
        check("00000000\n", "");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["3-1", "a", "1,", "-1", "8192", "0--1"] {
            assert!(CpuSet::parse_list(text).is_err(), "{text}");
        }
        for text in ["", "g", "123456789,0", &format!("1{}", ",0".repeat(300))] {
            assert!(CpuSet::parse_mask(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sets_are_combined() {
        let set = |text: &str| CpuSet::parse_list(text).unwrap();
        assert_eq!(set("0-70").and(&set("3,70,99")), set("3,70"));
        assert_eq!(set("0-3").or(&set("100")), set("0-3,100"));
        assert_eq!(set("0-100").without(&set("1-99")), set("0,100"));
        assert_eq!(set("0,100").without(&set("100")), set("0"), "no empty words are left");
        assert_eq!((set("5-9").len(), set("5-9").lowest(), set("").is_empty()), (5, Some(5), true));
    }
}
