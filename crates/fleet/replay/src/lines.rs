//! Lines of a file that may have anything in it: bounded pieces, and where they end.

use std::io::{self, BufRead};

/// The longest record has two names and a key of 250 bytes, each of which may be six in JSON; beyond this length a line is
/// no record, and is read in pieces.
pub(super) const LINE_MAX: usize = 16 * 1024;

/// The end of a piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceEnd {
    /// A line ends.
    Line,
    /// The file ends.
    File,
    /// The line is longer, and goes on.
    Long,
}

/// A file that is read line by line.
pub(super) struct LineReader<R> {
    input: R,
    /// Where the next piece begins.
    pub(super) offset: u64,
    /// The line of the last piece, from 1.
    pub(super) number: u64,
    is_inside: bool,
}

impl<R: BufRead> LineReader<R> {
    /// `input` begins at `offset` of the file.
    pub(super) fn new(input: R, offset: u64) -> LineReader<R> {
        LineReader { input, offset, number: 0, is_inside: false }
    }

    /// Passes over zeros before a line. They stand for what is done, or for what a host that crashed has not kept.
    pub(super) fn skip_zeros(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.input.fill_buf()?;
            let zeros = buffer.iter().take_while(|byte| **byte == 0).count();
            let is_end = zeros < buffer.len() || zeros == 0;
            self.input.consume(zeros);
            self.offset += zeros as u64;
            if is_end {
                return Ok(());
            }
        }
    }

    /// Reads the next piece, without the line's end; `None` at the end of the file.
    pub(super) fn next(&mut self, piece: &mut Vec<u8>) -> io::Result<Option<PieceEnd>> {
        piece.clear();
        if !self.is_inside {
            self.skip_zeros()?;
            self.number += 1;
        }
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                let is_end = piece.is_empty() && !self.is_inside;
                self.is_inside = false;
                return Ok((!is_end).then_some(PieceEnd::File));
            }
            let some = &buffer[..buffer.len().min(LINE_MAX - piece.len())];
            let end = some.iter().position(|byte| *byte == b'\n');
            piece.extend_from_slice(&some[..end.unwrap_or(some.len())]);
            let taken = end.map_or(some.len(), |end| end + 1);
            self.input.consume(taken);
            self.offset += taken as u64;
            if end.is_some() {
                self.is_inside = false;
                return Ok(Some(PieceEnd::Line));
            }
            if piece.len() == LINE_MAX {
                self.is_inside = true;
                return Ok(Some(PieceEnd::Long));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &[u8]) -> Vec<(usize, PieceEnd, u64, u64)> {
        let (mut reader, mut piece, mut all) = (LineReader::new(text, 0), Vec::new(), Vec::new());
        while let Some(end) = reader.next(&mut piece).expect("memory") {
            all.push((piece.len(), end, reader.number, reader.offset));
        }
        all
    }

    #[test]
    fn pieces_are_lines_the_last_half_of_one_and_parts_of_long_ones() {
        use PieceEnd::{File, Line, Long};
        assert_eq!(pieces(b""), []);
        assert_eq!(pieces(b"ab\n\nc"), [(2, Line, 1, 3), (0, Line, 2, 4), (1, File, 3, 5)]);
        let max = LINE_MAX as u64;
        let long = [vec![b'x'; LINE_MAX + 5], b"\ny\n".to_vec()].concat();
        assert_eq!(pieces(&long), [(LINE_MAX, Long, 1, max), (5, Line, 1, max + 6), (1, Line, 2, max + 8)]);
        assert_eq!(pieces(&vec![b'x'; LINE_MAX]), [(LINE_MAX, Long, 1, max), (0, File, 1, max)]);
    }

    #[test]
    fn zeros_before_a_line_are_passed_over() {
        let mut reader = LineReader::new(&b"\0\0\0a\n\0\0b\0\n\0"[..], 10);
        reader.skip_zeros().expect("memory");
        let mut piece = Vec::new();
        assert_eq!((reader.offset, reader.next(&mut piece).expect("memory")), (13, Some(PieceEnd::Line)));
        assert_eq!(piece, b"a");
        assert_eq!(reader.next(&mut piece).expect("memory"), Some(PieceEnd::Line));
        assert_eq!((&*piece, reader.number), (&b"b\0"[..], 2));
        assert_eq!((reader.next(&mut piece).expect("memory"), reader.offset), (None, 21));
    }
}
