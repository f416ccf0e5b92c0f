//! CRC-32 of zlib and Ethernet (reflected, polynomial 0xedb88320), eight bytes at a time.

/// `TABLES[k][byte]`: what a byte adds that `k` more bytes follow.
static TABLES: [[u32; 256]; 8] = tables();

/// The checksum of a text.
pub fn crc32(text: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    let (words, rest) = text.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(crc);
        crc = (0..8).fold(0, |sum, n| sum ^ TABLES[7 - n][(word >> (8 * n)) as usize & 0xff]);
    }
    for byte in rest {
        crc = (crc >> 8) ^ TABLES[0][(crc as u8 ^ byte) as usize];
    }
    !crc
}

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut entry = 0;
    while entry < 7 * 256 {
        let (table, byte) = (entry / 256, entry % 256);
        let crc = tables[table][byte];
        tables[table + 1][byte] = (crc >> 8) ^ tables[0][(crc & 0xff) as usize];
        entry += 1;
    }
    tables
}
