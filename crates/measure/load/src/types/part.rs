//! Parts of a load: a machine's, and a thread's.

/// Which part of a load is this machine's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) index: usize,
    pub(crate) of: usize,
}

impl Part {
    pub(crate) const WHOLE: Part = Part { index: 0, of: 1 };

    /// The numbers of this part's items.
    pub(crate) fn items(self, count: u64) -> std::ops::Range<u64> {
        let edge = |index: usize| (u128::from(count) * index as u128 / self.of as u128) as u64;
        edge(self.index)..edge(self.index + 1)
    }

    /// How many of `total` are this part's: the first ones take the remainder.
    pub(crate) fn share(self, total: u64) -> u64 {
        let of = self.of as u64;
        total / of + u64::from((self.index as u64) < total % of)
    }
}

/// Which part of the requests a schedule is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Number of this thread, and how many there are.
    pub(crate) index: usize,
    pub(crate) threads: usize,
}
