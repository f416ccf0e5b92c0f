//! Dictionaries for zstd: what the values of a pool have in common.

use zstd_safe::{CDict, DDict};

use crate::plan::hash::murmur64a;

/// The longest dictionary. Training makes 110 KiB by default, and each pool keeps tables for its own.
pub const DICTIONARY_LEN_MAX: usize = 1 << 20;

/// What zstd takes for no dictionary.
const DICTIONARY_LEN_MIN: usize = 8;

/// A dictionary.
pub(crate) struct Dictionary {
    id: u32,
    /// Of one that compresses.
    compressing: Option<CDict<'static>>,
    decompressing: DDict<'static>,
}

impl Dictionary {
    /// Made from the bytes of a file; for compression at `level`, too, if there is one.
    ///
    /// # Errors
    /// What was expected, and what was found.
    pub(crate) fn new(bytes: &[u8], level: Option<i32>) -> Result<Dictionary, String> {
        let len = bytes.len();
        if !(DICTIONARY_LEN_MIN..=DICTIONARY_LEN_MAX).contains(&len) {
            return Err(format!(
                "expected a dictionary of {DICTIONARY_LEN_MIN} to {DICTIONARY_LEN_MAX} bytes, found {len}"
            ));
        }
        let damaged = || "expected a dictionary of zstd, found a damaged one".to_owned();
        let compressing =
            level.map(|level| CDict::try_create(bytes, level).ok_or_else(damaged)).transpose()?;
        let decompressing = DDict::try_create(bytes).ok_or_else(damaged)?;
        Ok(Dictionary { id: id_of(bytes), compressing, decompressing })
    }

    /// Made of its bytes, so that the same file has it everywhere, and another one does not. Never 0.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn compressing(&self) -> Option<&CDict<'static>> {
        self.compressing.as_ref()
    }

    pub(super) fn decompressing(&self) -> &DDict<'static> {
        &self.decompressing
    }
}

fn id_of(bytes: &[u8]) -> u32 {
    (murmur64a(bytes, 0) as u32).max(1)
}
