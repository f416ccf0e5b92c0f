//! The numbers of a manifest, written and read in the same order.

/// Numbers of a manifest that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// Writes numbers one behind the other.
#[derive(Debug, Default)]
pub(crate) struct ManifestWriter(pub(crate) Vec<u64>);

impl ManifestWriter {
    pub(crate) fn put(&mut self, number: impl Into<u64>) {
        self.0.push(number.into());
    }

    /// Writes how many numbers there are, and then these.
    pub(crate) fn list<'n>(&mut self, numbers: impl ExactSizeIterator<Item = &'n u32>) {
        self.0.push(numbers.len() as u64);
        self.0.extend(numbers.map(|number| u64::from(*number)));
    }
}

/// Reads numbers in the order in which they were written.
#[derive(Debug)]
pub(crate) struct ManifestReader<'m>(pub(crate) &'m [u64]);

impl<'m> ManifestReader<'m> {
    pub(crate) fn take(&mut self) -> Result<u64, Damaged> {
        let (first, rest) = self.0.split_first().ok_or(Damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number that is less than `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> Result<u64, Damaged> {
        self.take().and_then(|number| if number < bound { Ok(number) } else { Err(Damaged) })
    }

    /// A count that only grows: none gets as far as half of what it can hold, so adding to it never overflows.
    pub(crate) fn count(&mut self) -> Result<u64, Damaged> {
        self.below(1 << 62)
    }

    pub(crate) fn list(&mut self) -> Result<&'m [u64], Damaged> {
        let len = self.take()?;
        let (list, rest) =
            self.0.split_at_checked(usize::try_from(len).unwrap_or(usize::MAX)).ok_or(Damaged)?;
        self.0 = rest;
        Ok(list)
    }
}
