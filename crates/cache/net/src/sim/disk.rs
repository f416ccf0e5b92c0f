//! Simulated files: contents, and how reads of them go.

use rustix::io::Errno;
use stdx::prng::Prng;

use crate::files::file_read::{DiskFile, FileRead, FinishedRead};

/// Conditions of the disk that a file lies on.
#[derive(Clone, Copy, Debug)]
pub struct DiskConditions {
    /// Time that each read takes.
    pub delay_us: u64,
    /// The most that is added to it, at random.
    pub jitter_us: u64,
    /// Reads of a million that fail with EIO.
    pub error_ppm: u32,
    /// Reads of a million that bring a random part of what there is. A handler does not notice: they are continued.
    pub short_ppm: u32,
}

impl Default for DiskConditions {
    fn default() -> DiskConditions {
        DiskConditions { delay_us: 80, jitter_us: 40, error_ppm: 0, short_ppm: 0 }
    }
}

/// All files, and the results that event loops have not taken.
#[derive(Default)]
pub(super) struct Disks {
    files: Vec<(Vec<u8>, DiskConditions)>,
    /// By host.
    finished: Vec<Vec<FinishedRead>>,
}

impl Disks {
    pub(super) fn add_host(&mut self) {
        self.finished.push(Vec::new());
    }

    pub(super) fn add_file(&mut self, contents: Vec<u8>) -> DiskFile {
        self.files.push((contents, DiskConditions::default()));
        DiskFile::simulated(self.files.len() - 1)
    }

    pub(super) fn set_conditions(&mut self, file: &DiskFile, conditions: DiskConditions) {
        self.files[file.number().expect("a simulated file")].1 = conditions;
    }

    /// Time that a read takes, if it can be begun.
    pub(super) fn delay_us(&self, read: &FileRead, prng: &mut Prng) -> Result<u64, Errno> {
        read.position()?;
        let (_, conditions) = &self.files[read.file.number()?];
        Ok(conditions.delay_us + prng.below(conditions.jitter_us + 1))
    }

    /// Carries out a read, for which its host gets an event.
    pub(super) fn finish(&mut self, host: usize, mut read: FileRead, prng: &mut Prng) {
        let result = self.carry_out(&mut read, prng);
        self.finished[host].push(FinishedRead::Done(read, result));
    }

    fn carry_out(&self, read: &mut FileRead, prng: &mut Prng) -> Result<usize, Errno> {
        let position = read.position()?;
        let (contents, conditions) = &self.files[read.file.number()?];
        let mut happens = |ppm: u32| ppm > 0 && prng.below(1_000_000) < u64::from(ppm);
        if happens(conditions.error_ppm) {
            return Err(Errno::IO);
        }
        let is_short = happens(conditions.short_ppm);
        let start = usize::try_from(position).unwrap_or(usize::MAX).min(contents.len());
        let mut len = read.block.rest().len().min(contents.len() - start);
        if is_short && len > 0 {
            let part = 1 + prng.below(len as u64) as usize;
            len = len.min(part.next_multiple_of(read.block.alignment()));
        }
        read.block.rest()[..len].copy_from_slice(&contents[start..start + len]);
        Ok(len)
    }

    pub(super) fn has_finished(&self, host: usize) -> bool {
        !self.finished[host].is_empty()
    }

    pub(super) fn take_finished(&mut self, host: usize) -> Vec<FinishedRead> {
        std::mem::take(&mut self.finished[host])
    }
}
