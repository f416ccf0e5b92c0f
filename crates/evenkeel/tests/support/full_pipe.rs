//! A pipe whose reader has stopped.

use std::io::{PipeReader, PipeWriter, Write};

use rustix::pipe::fcntl_getpipe_size;

/// A pipe that takes nothing more until it is read from.
pub(crate) fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let len = fcntl_getpipe_size(&writer).expect("its size");
    writer.write_all(&vec![b'\n'; len]).expect("its size fits into it");
    (reader, writer)
}
