//! Pages, pieces and segments of flash, and where on which device they lie.

use crate::index::FlashPlace;
use crate::tier::config::FlashConfig;

/// Bytes of a page: records are read in whole pages.
pub const FLASH_PAGE: usize = flash::PAGE_BYTES;

/// A part of a segment that is written at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceId {
    pub(crate) segment: u32,
    pub(crate) number: u32,
}

/// Where bytes lie on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlashRange {
    pub(crate) device: usize,
    /// From the beginning of the device, in bytes.
    pub(crate) position: u64,
    pub(crate) len: usize,
}

#[derive(Debug)]
pub(crate) struct Geometry {
    segment_bytes: u64,
    piece_bytes: usize,
    /// The first segment of each device, then the number of all.
    firsts: Vec<u32>,
}

impl Geometry {
    pub(crate) fn new(config: &FlashConfig, piece_bytes: u64) -> Geometry {
        let mut firsts = vec![0];
        for device in &config.devices {
            let segments = (device.bytes / config.segment_bytes) as u32;
            firsts.push(firsts[firsts.len() - 1] + segments);
        }
        Geometry { segment_bytes: config.segment_bytes, piece_bytes: piece_bytes as usize, firsts }
    }

    pub(crate) fn devices(&self) -> usize {
        self.firsts.len() - 1
    }

    /// The segments of a device.
    pub(crate) fn segments_of(&self, device: usize) -> std::ops::Range<u32> {
        self.firsts[device]..self.firsts[device + 1]
    }

    pub(crate) fn segments(&self) -> u32 {
        self.firsts[self.devices()]
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    pub(crate) fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    pub(crate) fn pieces_per_segment(&self) -> u32 {
        (self.segment_bytes / self.piece_bytes as u64) as u32
    }

    pub(crate) fn device_of(&self, segment: u32) -> usize {
        self.firsts.partition_point(|first| *first <= segment) - 1
    }

    /// The place of a record of `len` bytes at byte `at` of a piece.
    pub(crate) fn place(&self, piece: PieceId, at: usize, len: usize, hash: u64) -> FlashPlace {
        let start = self.start(piece) + at as u64;
        let page = start / FLASH_PAGE as u64;
        // Page 0 is no place, so all are counted from 1.
        FlashPlace::new(page + 1, pages(at, len), hash)
    }

    /// Bytes before this piece, over all devices.
    fn start(&self, piece: PieceId) -> u64 {
        u64::from(piece.segment) * self.segment_bytes + u64::from(piece.number) * self.piece_bytes as u64
    }

    pub(crate) fn segment_at(&self, place: FlashPlace) -> u32 {
        ((place.page() - 1) * FLASH_PAGE as u64 / self.segment_bytes) as u32
    }

    /// The piece of a place, and the bytes in it that are to be read.
    pub(crate) fn in_piece(&self, place: FlashPlace) -> (PieceId, std::ops::Range<usize>) {
        let segment = self.segment_at(place);
        let start = (place.page() - 1) * FLASH_PAGE as u64 - u64::from(segment) * self.segment_bytes;
        let number = (start / self.piece_bytes as u64) as u32;
        let at = (start % self.piece_bytes as u64) as usize;
        let end = (at + place.pages() * FLASH_PAGE).min(self.piece_bytes);
        (PieceId { segment, number }, at..end)
    }

    /// The same for a record that is known to have `len` bytes.
    pub(crate) fn all_in_piece(&self, place: FlashPlace, len: usize) -> (PieceId, std::ops::Range<usize>) {
        let (piece, first) = self.in_piece(place);
        let end = (first.start + len).next_multiple_of(FLASH_PAGE).min(self.piece_bytes);
        (piece, first.start..end)
    }

    pub(crate) fn range(&self, piece: PieceId, bytes: std::ops::Range<usize>) -> FlashRange {
        let device = self.device_of(piece.segment);
        let first = PieceId { segment: self.firsts[device], number: 0 };
        let position = self.start(piece) - self.start(first) + bytes.start as u64;
        FlashRange { device, position, len: bytes.len() }
    }
}

/// Pages with bytes of a record of `len` bytes at byte `at` of a piece.
pub(crate) fn pages(at: usize, len: usize) -> usize {
    (at % FLASH_PAGE + len).div_ceil(FLASH_PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::config::{FlashDevice, FlashSettings};
    use flash::Bucket;

    fn geometry() -> Geometry {
        let device = |mib: u64| FlashDevice { bytes: mib << 20, bucket: Bucket::Default };
        let config = FlashConfig {
            devices: vec![device(33), device(16)],
            segment_bytes: 8 << 20,
            piece_bytes: 1 << 20,
            settings: FlashSettings::default(),
        };
        config.check().unwrap();
        Geometry::new(&config, 1 << 20)
    }

    #[test]
    fn places_lie_one_after_the_other_on_each_device() {
        let geometry = geometry();
        assert_eq!((geometry.segments(), geometry.segments_of(1)), (6, 4..6));
        let piece = PieceId { segment: 5, number: 7 };
        let place = geometry.place(piece, 3 * FLASH_PAGE + 64, 2 * FLASH_PAGE, 0x155);
        assert_eq!(place.pages(), 3);
        assert_eq!(geometry.segment_at(place), 5);
        let (found, bytes) = geometry.in_piece(place);
        assert_eq!((found, bytes.clone()), (piece, 3 * FLASH_PAGE..6 * FLASH_PAGE));
        let range = geometry.range(found, bytes);
        assert_eq!(range, FlashRange { device: 1, position: (15 << 20) + 12288, len: 12288 });
    }

    #[test]
    fn a_read_ends_with_its_piece() {
        let geometry = geometry();
        let piece = PieceId { segment: 0, number: 0 };
        let at = (1 << 20) - 6 * FLASH_PAGE;
        let place = geometry.place(piece, at, 6 * FLASH_PAGE, 0);
        assert_eq!(place.pages(), 7, "no slot says six");
        assert_eq!(geometry.in_piece(place), (piece, at..1 << 20));
        assert_eq!(geometry.place(piece, 0, 1, 0).page(), 1, "page 0 is no place");
    }

    #[test]
    fn a_long_record_is_read_by_its_first_page_and_then_whole() {
        let geometry = geometry();
        let piece = PieceId { segment: 1, number: 2 };
        let len = 100_000;
        let place = geometry.place(piece, FLASH_PAGE, len, 5);
        assert!(place.is_long());
        assert_eq!(geometry.in_piece(place), (piece, FLASH_PAGE..2 * FLASH_PAGE));
        assert_eq!(geometry.all_in_piece(place, len), (piece, FLASH_PAGE..26 * FLASH_PAGE));
    }
}
