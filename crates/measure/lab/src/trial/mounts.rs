//! Mount points at and below a path.

use crate::error::Error;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// At this path and below it. The path must be without symbolic links: the kernel knows no others.
pub(crate) fn below(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let mountinfo = Path::new("/proc/self/mountinfo");
    let text = std::fs::read(mountinfo).map_err(Error::io("read", mountinfo))?;
    Ok(points(&text).filter(|point| point.starts_with(path)).collect())
}

/// Whether something is mounted just there.
pub(crate) fn is_point(path: &Path) -> Result<bool, Error> {
    Ok(below(path)?.iter().any(|point| point == path))
}

/// Column 5 of mountinfo.
fn points(text: &[u8]) -> impl Iterator<Item = PathBuf> {
    let columns =
        text.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    columns.map(|column| OsString::from_vec(unescaped(column)).into())
}

/// Blanks and the like are octal: `\040`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\');
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &behind[3..] } else { behind };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_paths_as_they_are() {
        let text =
            b"22 1 0:20 / /proc rw - proc proc rw\n30 1 7:0 / /a\\040b\\134/c rw - ext4 /dev/loop0 rw\n";
        let found: Vec<PathBuf> = points(text).collect();
        assert_eq!(found, [Path::new("/proc"), Path::new("/a b\\/c")]);
        assert!(is_point(Path::new("/proc")).expect("it is read"));
        assert!(!is_point(Path::new("/pro")).expect("it is read"));
    }
}
