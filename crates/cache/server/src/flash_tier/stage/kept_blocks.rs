//! Blocks of reads that have ended, which the next reads of the same length use.

use net::Block;
use store::{FLASH_PAGE_BYTES, FlashRead};

/// Lengths that are kept, in pages.
const LENGTHS: usize = FlashRead::SHORT_LEN_MAX / FLASH_PAGE_BYTES;
/// Memory of blocks that are kept.
const BYTES_MAX: usize = 8 << 20;

/// The blocks, by length: one page, two, and so on.
#[derive(Default)]
pub(super) struct KeptBlocks {
    by_length: [Vec<Block>; LENGTHS],
    bytes: usize,
}

impl KeptBlocks {
    /// A block for a read.
    pub(super) fn take(&mut self, len: usize) -> Block {
        let kept = self.by_length.get_mut(len / FLASH_PAGE_BYTES - 1).and_then(Vec::pop);
        match kept {
            Some(block) => {
                self.bytes -= len;
                block
            }
            None => Block::aligned(len, FLASH_PAGE_BYTES),
        }
    }

    /// Keeps a block. Where there is no room, blocks of the length that has most memory go: clients may ask for other lengths than before,
    /// and those that nobody needs any more must not stay for ever.
    pub(super) fn keep(&mut self, block: Block) {
        let len = block.capacity();
        if len > FlashRead::SHORT_LEN_MAX {
            return;
        }
        let own = len / FLASH_PAGE_BYTES - 1;
        while self.bytes + len > BYTES_MAX {
            let pages = |at: &usize| (at + 1) * self.by_length[*at].len();
            let most = (0..LENGTHS).max_by_key(pages).filter(|most| *most != own);
            let Some(dropped) = most.and_then(|most| self.by_length[most].pop()) else { return };
            self.bytes -= dropped.capacity();
        }
        self.bytes += len;
        self.by_length[own].push(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(pages: usize) -> Block {
        Block::aligned(pages * FLASH_PAGE_BYTES, FLASH_PAGE_BYTES)
    }

    fn kept(blocks: &KeptBlocks, pages: usize) -> usize {
        blocks.by_length[pages - 1].len()
    }

    #[test]
    fn a_block_comes_back_for_its_length() {
        let mut blocks = KeptBlocks::default();
        blocks.keep(block(2));
        let address = blocks.by_length[1][0].bytes().as_ptr();
        assert_ne!(blocks.take(FLASH_PAGE_BYTES).bytes().as_ptr(), address);
        assert_eq!(blocks.bytes, 2 * FLASH_PAGE_BYTES);
        assert_eq!(blocks.take(2 * FLASH_PAGE_BYTES).bytes().as_ptr(), address);
        assert_eq!(blocks.bytes, 0);
        assert_eq!(
            blocks.take((LENGTHS + 1) * FLASH_PAGE_BYTES).capacity(),
            (LENGTHS + 1) * FLASH_PAGE_BYTES
        );
        blocks.keep(block(LENGTHS + 1));
        assert_eq!(blocks.bytes, 0, "long ones are rare");
    }

    #[test]
    fn blocks_of_lengths_that_are_not_asked_for_any_more_make_room() {
        let mut blocks = KeptBlocks::default();
        let most = |pages: usize| BYTES_MAX / (pages * FLASH_PAGE_BYTES);
        (0..most(LENGTHS) + 10).for_each(|_| blocks.keep(block(LENGTHS)));
        assert_eq!(kept(&blocks, LENGTHS), most(LENGTHS));
        for pages in [1, 3, LENGTHS, 2] {
            for _ in 0..4 * most(pages) {
                let len = pages * FLASH_PAGE_BYTES;
                blocks.keep(block(pages));
                assert!(
                    blocks.bytes <= BYTES_MAX && blocks.bytes + len + LENGTHS * FLASH_PAGE_BYTES > BYTES_MAX
                );
            }
            assert!(kept(&blocks, pages) >= most(pages) / 5, "{} of {pages} pages", kept(&blocks, pages));
        }
    }
}
