//! Reads and writes of whole ranges by calls that may be interrupted or do only a part.

use crate::disk::PAGE_BYTES;
use std::io;

/// Fills `bytes` by calls of `read_at`.
///
/// A part of a page is read again: a direct read can begin only where a page does.
pub(crate) fn read_all(
    bytes: &mut [u8],
    position: u64,
    mut read_at: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &mut bytes[done..];
        done += whole_pages(|| read_at(rest, position + done as u64), io::ErrorKind::UnexpectedEof)?;
    }
    Ok(())
}

/// Writes all of `bytes` by calls of `write_at`. A part of a page is written again.
pub(crate) fn write_all(
    bytes: &[u8],
    position: u64,
    mut write_at: impl FnMut(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        done += whole_pages(|| write_at(rest, position + done as u64), io::ErrorKind::WriteZero)?;
    }
    Ok(())
}

/// One call that is not interrupted, and the whole pages that it did. `too_little` if there are none, so that each call makes
/// progress and the loops end.
fn whole_pages(mut call: impl FnMut() -> io::Result<usize>, too_little: io::ErrorKind) -> io::Result<usize> {
    loop {
        match call() {
            Ok(len) if len >= PAGE_BYTES => return Ok(len - len % PAGE_BYTES),
            Ok(_) => return Err(too_little.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::{Interrupted, UnexpectedEof, WriteZero};

    const PAGE: usize = PAGE_BYTES;
    const BASE: u64 = 8 * PAGE as u64;

    /// Does three pages by calls that have these results. Expected are the positions of the calls, in bytes from the start,
    /// and the result, for reads and for writes.
    #[track_caller]
    fn check(
        results: &[Result<usize, io::ErrorKind>],
        positions: &[usize],
        expected: [Result<(), io::ErrorKind>; 2],
    ) {
        let mut calls = Vec::new();
        let read = read_all(&mut [0; 3 * PAGE], BASE, |rest, at| call(&mut calls, results, rest.len(), at));
        assert_eq!((read.map_err(|error| error.kind()), &*calls), (expected[0], positions));
        calls.clear();
        let written = write_all(&[0; 3 * PAGE], BASE, |rest, at| call(&mut calls, results, rest.len(), at));
        assert_eq!((written.map_err(|error| error.kind()), &*calls), (expected[1], positions));
    }

    fn call(
        calls: &mut Vec<usize>,
        results: &[Result<usize, io::ErrorKind>],
        len: usize,
        position: u64,
    ) -> io::Result<usize> {
        let done = (position - BASE) as usize;
        assert_eq!(len, 3 * PAGE - done, "each call is for all of the rest");
        calls.push(done);
        results[calls.len() - 1].map_err(io::Error::from)
    }

    #[test]
    fn a_call_that_does_all_is_the_only_one() {
        check(&[Ok(3 * PAGE)], &[0], [Ok(()); 2]);
    }

    #[test]
    fn short_and_interrupted_calls_are_continued() {
        check(&[Ok(PAGE), Ok(2 * PAGE)], &[0, PAGE], [Ok(()); 2]);
        check(
            &[Err(Interrupted), Ok(PAGE), Err(Interrupted), Ok(2 * PAGE)],
            &[0, 0, PAGE, PAGE],
            [Ok(()); 2],
        );
    }

    #[test]
    fn a_part_of_a_page_is_done_again() {
        check(&[Ok(PAGE + 512), Ok(2 * PAGE)], &[0, PAGE], [Ok(()); 2]);
    }

    #[test]
    fn a_call_without_progress_is_an_error() {
        for len in [0, 1, 512, PAGE - 1] {
            check(&[Ok(PAGE), Ok(len)], &[0, PAGE], [Err(UnexpectedEof), Err(WriteZero)]);
        }
        let refused = io::ErrorKind::PermissionDenied;
        check(&[Ok(PAGE), Err(refused)], &[0, PAGE], [Err(refused); 2]);
    }

    #[test]
    fn nothing_is_done_without_a_call() {
        read_all(&mut [], 0, |_, _| panic!("a call")).expect("nothing to read");
        write_all(&[], 0, |_, _| panic!("a call")).expect("nothing to write");
    }
}
