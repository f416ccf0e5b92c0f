//! Pseudo-random numbers from a seed that can be printed: SplitMix64 (Steele, Lea, Flood 2014).

/// A generator. Fast, 64 bits of state, not for secrets.
#[derive(Clone, Debug)]
pub struct Prng {
    state: u64,
}

impl Prng {
    /// The same seed always gives the same numbers, in every version.
    pub fn new(seed: u64) -> Prng {
        Prng { state: seed }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number in `0..bound`, uniform to within `bound / 2^64` (Lemire's multiplication).
    ///
    /// Panics if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "below(0) has no answer");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[0, 1)`, with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// SplitMix64's finaliser: a bijection that spreads every bit of `x` over the whole result.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference() {
        // The reference implementation's first outputs for seed 1234567.
        let mut prng = Prng::new(1_234_567);
        assert_eq!(prng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(prng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn below_and_unit_stay_in_range() {
        let mut prng = Prng::new(1);
        for _ in 0..10_000 {
            assert!(prng.below(7) < 7);
            assert!((0.0..1.0).contains(&prng.unit()));
        }
    }
}
