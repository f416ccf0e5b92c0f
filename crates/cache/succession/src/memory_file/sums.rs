//! Checksums of a file's contents, by blocks. A file is mostly holes, and blocks of zeros have none.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Bytes of a block: a thread reads one at a time, and it fits into a processor's cache.
const BLOCK_LEN: u64 = 1 << 20;

/// The numbers of blocks that are not zeros, and their checksums, in order.
pub(super) type Sums = Vec<(u64, u32)>;

/// Reads the file with so many threads.
pub(super) fn of(file: &File, threads: usize) -> io::Result<Sums> {
    let blocks = blocks_with_data(file)?;
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Ok(Sums::new())));
    let read = || {
        let mut buffer = vec![0; BLOCK_LEN as usize];
        let mut own = Sums::new();
        let outcome = loop {
            let Some(&block) = blocks.get(next.fetch_add(1, Relaxed)) else { break Ok(()) };
            match sum(file, block, &mut buffer) {
                Ok(sum) => own.extend(sum.map(|sum| (block, sum))),
                Err(error) => break Err(error),
            }
        };
        let mut found = found.lock().expect("no thread panics with it");
        match (&mut *found, outcome) {
            (Ok(all), Ok(())) => all.append(&mut own),
            (Ok(_), Err(error)) => *found = Err(error),
            (Err(_), _) => {}
        }
    };
    std::thread::scope(|scope| {
        // The calling thread is one of them: it needs no thread that the system might refuse.
        let more = (1..threads).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, read).ok());
        let more: Vec<_> = more.collect();
        read();
        more.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    let mut sums = found.into_inner().expect("no thread panicked")?;
    sums.sort_unstable();
    Ok(sums)
}

/// The blocks that have a page.
fn blocks_with_data(file: &File) -> io::Result<Vec<u64>> {
    let mut blocks = Vec::new();
    let mut at = 0;
    loop {
        let data = match seek(file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return Ok(blocks),
            data => data?,
        };
        let hole = seek(file, SeekFrom::Hole(data))?;
        let first = (data / BLOCK_LEN).max(blocks.last().map_or(0, |last| last + 1));
        blocks.extend(first..hole.div_ceil(BLOCK_LEN));
        at = hole;
    }
}

/// `None` for zeros.
fn sum(file: &File, block: u64, buffer: &mut [u8]) -> io::Result<Option<u32>> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], block * BLOCK_LEN + filled as u64) {
            Ok(0) => break,
            Ok(len) => filled += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let bytes = &buffer[..filled];
    // Zeros end at the first look, anything else soon.
    let is_zeros = bytes.chunks(64).all(|chunk| chunk.iter().all(|byte| *byte == 0));
    Ok((!is_zeros).then(|| crc32fast::hash(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        rustix::fs::memfd_create("sums", rustix::fs::MemfdFlags::CLOEXEC).expect("a file in memory").into()
    }

    #[test]
    fn holes_and_zeros_are_the_same() {
        let file = file();
        file.set_len(100 << 30).expect("a sparse file");
        assert_eq!(of(&file, 2).expect("sums"), []);
        file.write_all_at(b"x", 50 << 30).expect("room");
        let one = of(&file, 2).expect("sums");
        assert_eq!(one.iter().map(|(block, _)| *block).collect::<Vec<_>>(), [50 << 10]);
        file.write_all_at(&[0; 8192], 7 << 20).expect("room");
        assert_eq!(of(&file, 2).expect("sums"), one);
    }

    #[test]
    fn any_bit_makes_a_difference_however_many_threads_look() {
        let file = file();
        let bytes: Vec<u8> = (0..5_000_000u32).map(|at| ((at * 7) >> 3) as u8).collect();
        file.write_all_at(&bytes, 0).expect("room");
        let sums = of(&file, 1).expect("sums");
        assert_eq!(sums.len(), 5);
        assert_eq!(of(&file, 3).expect("sums"), sums);
        for (at, bit) in [(0, 0), (1 << 20, 7), (4_999_999, 3), (2_345_678, 5)] {
            file.write_all_at(&[bytes[at] ^ 1 << bit], at as u64).expect("room");
            assert_ne!(of(&file, 3).expect("sums"), sums, "{at}");
            file.write_all_at(&bytes[at..=at], at as u64).expect("room");
        }
        assert_eq!(of(&file, 3).expect("sums"), sums);
    }
}
