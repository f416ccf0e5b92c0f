//! The numbers that the flags of one request carry: a place for each flag whose row says that it takes one.

use super::table::{Argument, FLAGS};

/// One number for each flag that takes one; negative ones as they wrap.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers([u64; COUNT]);

impl Numbers {
    /// What holds where no flag says otherwise.
    pub(super) const DEFAULT: Numbers = {
        let mut numbers = [0; COUNT];
        let mut at = 0;
        while at < FLAGS.len() {
            if let Argument::Number { default, .. } = FLAGS[at].argument {
                numbers[PLACES[FLAGS[at].letter as usize] as usize] = default;
            }
            at += 1;
        }
        Numbers(numbers)
    };

    /// The number behind `letter`, or what holds without. Only for the flags that take one.
    #[inline]
    pub(super) fn get(&self, letter: u8) -> u64 {
        self.0[usize::from(PLACES[usize::from(letter)])]
    }

    /// Notes a number that is not negative; `None` if the flag takes none, or not this one.
    #[inline]
    pub(super) fn set(&mut self, letter: u8, number: u64) -> Option<()> {
        let place = usize::from(PLACES[usize::from(letter)]);
        let max = *MAXIMA.get(place)?;
        self.0[place] = if number <= max { number } else { return None };
        Some(())
    }

    /// Notes a number that is known to be in the flag's range.
    #[inline]
    pub(super) fn set_wrapped(&mut self, letter: u8, number: u64) {
        self.0[usize::from(PLACES[usize::from(letter)])] = number;
    }
}

/// How many flags take a number.
const COUNT: usize = {
    let mut count = 0;
    let mut at = 0;
    while at < FLAGS.len() {
        count += matches!(FLAGS[at].argument, Argument::Number { .. }) as usize;
        at += 1;
    }
    count
};

/// The place of each letter's number; beyond [`COUNT`] for a letter that takes none.
const PLACES: [u8; 256] = {
    let mut places = [u8::MAX; 256];
    let (mut at, mut place) = (0, 0);
    while at < FLAGS.len() {
        if matches!(FLAGS[at].argument, Argument::Number { .. }) {
            places[FLAGS[at].letter as usize] = place;
            place += 1;
        }
        at += 1;
    }
    places
};

/// The largest number of each place.
const MAXIMA: [u64; COUNT] = {
    let mut maxima = [0; COUNT];
    let mut at = 0;
    while at < FLAGS.len() {
        if let Argument::Number { range, .. } = FLAGS[at].argument {
            maxima[PLACES[FLAGS[at].letter as usize] as usize] = range.max();
        }
        at += 1;
    }
    maxima
};
