//! Files of a user, read whole: of a bounded length, and without waiting for a writer.

use std::io::{self, Read};
use std::path::Path;

/// The bytes of a file, unless there are too many.
pub(crate) fn read_at_most(path: &Path, len_max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = os::file::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("expected a file, found a folder, a fifo or a device"));
    }
    file.take(len_max + 1).read_to_end(&mut text)?;
    if text.len() as u64 > len_max {
        return Err(io::Error::other(format!("expected at most {len_max} bytes, found more")));
    }
    Ok(text)
}
