//! The numeric arguments of one request's flags: a place for each flag that takes a number, by its row.
//!
//! Those of 32 bits have places of 32 bits: requests are copied into a batch, so their size counts.

use super::table::{Argument, FLAGS, Range};

/// One number for each flag that takes one; negative ones are wrapped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    wide: [u64; WIDE],
    narrow: [u32; NARROW],
}

/// The place of a letter's number.
#[derive(Clone, Copy)]
enum Place {
    /// None: the letter takes no number.
    None,
    /// Among those of 64 bits.
    Wide(u8),
    /// Among those of 32 bits, up to this one.
    Narrow(u8, u32),
}

impl Numbers {
    /// The numbers of a request without these flags.
    pub(super) const DEFAULT: Numbers = {
        let mut numbers = Numbers { wide: [0; WIDE], narrow: [0; NARROW] };
        let mut at = 0;
        while at < FLAGS.len() {
            if let Argument::Number { default, .. } = FLAGS[at].argument {
                match PLACES[FLAGS[at].letter as usize] {
                    Place::Wide(place) => numbers.wide[place as usize] = default,
                    Place::Narrow(place, _) => numbers.narrow[place as usize] = default as u32,
                    Place::None => {}
                }
            }
            at += 1;
        }
        numbers
    };

    /// The number behind `letter`, or the default of its row; negative ones wrapped to 32 or 64 bits. Only for the
    /// flags that take one.
    #[inline]
    pub(super) fn get(&self, letter: u8) -> u64 {
        match PLACES[usize::from(letter)] {
            Place::Wide(place) => self.wide[usize::from(place)],
            Place::Narrow(place, _) => u64::from(self.narrow[usize::from(place)]),
            Place::None => unreachable!("flag {letter} takes no number"),
        }
    }

    /// Stores a number that is not negative; `None` if the flag takes none, or not this one.
    #[inline]
    pub(super) fn set(&mut self, letter: u8, number: u64) -> Option<()> {
        match PLACES[usize::from(letter)] {
            Place::Wide(place) => self.wide[usize::from(place)] = number,
            Place::Narrow(place, max) if number <= u64::from(max) => {
                self.narrow[usize::from(place)] = number as u32;
            }
            Place::Narrow(..) | Place::None => return None,
        }
        Some(())
    }

    /// Stores a number that is known to be in the flag's range.
    #[inline]
    pub(super) fn set_wrapped(&mut self, letter: u8, number: u64) {
        match PLACES[usize::from(letter)] {
            Place::Wide(place) => self.wide[usize::from(place)] = number,
            Place::Narrow(place, _) => self.narrow[usize::from(place)] = number as u32,
            Place::None => {}
        }
    }
}

const WIDE: usize = count(true);
const NARROW: usize = count(false);

/// The number of flags with an argument of 64 bits, or of 32.
const fn count(wide: bool) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < FLAGS.len() {
        if let Argument::Number { range, .. } = FLAGS[at].argument {
            count += (matches!(range, Range::U64) == wide) as usize;
        }
        at += 1;
    }
    count
}

/// The place of each letter's number.
const PLACES: [Place; 256] = {
    let mut places = [Place::None; 256];
    let (mut at, mut wide, mut narrow) = (0, 0, 0);
    while at < FLAGS.len() {
        if let Argument::Number { range, .. } = FLAGS[at].argument {
            places[FLAGS[at].letter as usize] = match range {
                Range::U64 => {
                    wide += 1;
                    Place::Wide(wide - 1)
                }
                Range::I32 | Range::U32 => {
                    narrow += 1;
                    Place::Narrow(narrow - 1, range.max() as u32)
                }
            };
        }
        at += 1;
    }
    places
};
