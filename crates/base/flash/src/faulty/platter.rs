//! Contents of a device in memory, and the sectors of a write that reach them.

use super::draws::Draws;
use std::ops::Range;

/// The unit that a device writes as a whole.
const SECTOR_BYTES: u64 = 512;

/// The bytes of a device.
pub(super) struct Platter(Vec<u8>);

impl Platter {
    pub(super) fn new(bytes: u64) -> Platter {
        Platter(vec![0; usize::try_from(bytes).expect("a device in memory")])
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn clear(&mut self) {
        self.0 = vec![0; self.0.len()];
    }

    pub(super) fn bytes(&self, range: Range<u64>) -> &[u8] {
        &self.0[range.start as usize..range.end as usize]
    }

    pub(super) fn bytes_mut(&mut self, range: Range<u64>) -> &mut [u8] {
        &mut self.0[range.start as usize..range.end as usize]
    }

    /// Writes those of the sectors that get there.
    pub(super) fn write(&mut self, position: u64, bytes: &[u8], sectors: &Sectors) {
        let targets = self.bytes_mut(position..position + bytes.len() as u64);
        let pairs = targets.chunks_mut(SECTOR_BYTES as usize).zip(bytes.chunks(SECTOR_BYTES as usize));
        for ((target, source), arrives) in pairs.zip(&sectors.arrive) {
            if *arrives {
                target.copy_from_slice(source);
            }
        }
    }
}

/// For each sector of a write, whether it gets there.
pub(super) struct Sectors {
    /// The first one's number on the device.
    first: u64,
    arrive: Vec<bool>,
}

impl Sectors {
    /// All sectors of a range, which consists of whole ones.
    pub(super) fn all(range: &Range<u64>) -> Sectors {
        let first = range.start / SECTOR_BYTES;
        Sectors { first, arrive: vec![true; (range.end / SECTOR_BYTES - first) as usize] }
    }

    /// Those of a range, which lies in the write, get lost.
    pub(super) fn lose(&mut self, range: &Range<u64>) {
        self.touched(range).fill(false);
    }

    /// Each of a range gets there or not, by chance. At least one does not; of two or more, at least one does.
    pub(super) fn tear(&mut self, range: &Range<u64>, draws: &mut Draws) {
        let touched = self.touched(range);
        let count = touched.len() as u64;
        let lost = draws.below(count);
        // Any of the others.
        let arriving = (lost + 1 + draws.below((count - 1).max(1))) % count;
        for (number, arrives) in (0..).zip(touched) {
            let chance = draws.happens(0.5);
            *arrives &= number != lost && (chance || number == arriving);
        }
    }

    /// Sectors of which a part is in the range.
    fn touched(&mut self, range: &Range<u64>) -> &mut [bool] {
        let start = range.start / SECTOR_BYTES - self.first;
        let end = range.end.div_ceil(SECTOR_BYTES) - self.first;
        &mut self.arrive[start as usize..end as usize]
    }
}
