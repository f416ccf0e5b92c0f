use super::*;
use crate::servers::compression::Dictionary;
use stdx::prng::Prng;

fn with(codec: Codec, dictionaries: Vec<Dictionary>) -> Compression {
    Compression { codec, flag: 1 << 30, min_len: 32, dictionaries }
}

fn dictionary(bytes: &[u8]) -> Dictionary {
    Dictionary::new(bytes, Some(3)).expect("a dictionary")
}

/// A value that compresses well, badly or not at all.
fn value(random: &mut Prng) -> Vec<u8> {
    let most = 1 << random.below(18);
    let len = random.below(most) as usize;
    let letters = 1 + random.below(256);
    let mut value = Vec::with_capacity(len);
    while value.len() < len {
        if !value.is_empty() && random.below(4) > 0 {
            let start = random.below(value.len() as u64) as usize;
            let end = (start + random.below(40) as usize).min(value.len());
            value.extend_from_within(start..end);
        }
        value.push(random.below(letters) as u8);
    }
    value.truncate(len);
    value
}

fn codecs() -> [Compression; 4] {
    [
        with(Codec::Lz4, Vec::new()),
        with(Codec::Zstd(1), Vec::new()),
        with(Codec::Zstd(9), Vec::new()),
        with(Codec::Zstd(3), vec![dictionary(&b"what many values have in common, ".repeat(20))]),
    ]
}

#[test]
fn random_values_come_back_as_they_were() {
    let (mut random, mut compressor) = (Prng::new(1), Compressor::default());
    let codecs = codecs();
    for round in 0..600 {
        let (value, compression) = (value(&mut random), &codecs[round % codecs.len()]);
        let Some(packed) = compressor.pack(compression, &value).map(<[u8]>::to_vec) else { continue };
        let stored = packed.strip_suffix(b"\r\n").expect("a line end");
        assert!(stored.len() < value.len());
        assert_eq!(compressor.unpack(compression, stored), Some(&value[..]), "round {round}");
    }
    let counts = compressor.counts;
    assert!(counts.compressed > 100 && counts.compressed == counts.decompressed, "{counts:?}");
    assert!(counts.not_smaller > 20 && counts.bytes_after < counts.bytes_before, "{counts:?}");
    assert_eq!((counts.damaged, counts.no_dictionary), (0, 0));
}

#[test]
fn any_changed_byte_and_any_cut_is_a_miss_and_never_another_value() {
    let (mut random, mut compressor) = (Prng::new(2), Compressor::default());
    let value = b"a value of a pool, ".repeat(12);
    for compression in &codecs() {
        let packed = compressor.pack(compression, &value).expect("is smaller").to_vec();
        let stored = &packed[..packed.len() - 2];
        for at in 0..stored.len() {
            let mut changed = stored.to_vec();
            changed[at] ^= 1 << random.below(8);
            // A codec may have several forms of a value.
            assert!(compressor.unpack(compression, &changed).is_none_or(|found| found == value), "byte {at}");
            assert_eq!(compressor.unpack(compression, &stored[..at]), None, "cut at {at}");
        }
        let mut random_bytes = stored.to_vec();
        for _ in 0..2000 {
            random_bytes[HEADER_LEN..].fill_with(|| random.below(256) as u8);
            assert_eq!(compressor.unpack(compression, &random_bytes), None);
        }
    }
    assert!(compressor.buffer.len() <= COMPRESSED_LEN_MAX + 64, "what a header says is bounded");
}

#[test]
fn a_length_that_lies_is_a_miss() {
    let mut compressor = Compressor::default();
    let value = vec![b'x'; 5000];
    for compression in &codecs() {
        for lie in
            [4999_u32, 5001, 100_000, COMPRESSED_LEN_MAX as u32, COMPRESSED_LEN_MAX as u32 + 1, u32::MAX]
        {
            let mut stored = compressor.pack(compression, &value).expect("is smaller").to_vec();
            stored.truncate(stored.len() - 2);
            stored[8..12].copy_from_slice(&lie.to_le_bytes());
            assert_eq!(compressor.unpack(compression, &stored), None, "{lie}");
        }
    }
    assert!(compressor.buffer.len() <= COMPRESSED_LEN_MAX + 64);
    assert_eq!(compressor.counts.damaged, 24);
}

#[test]
fn values_at_the_limits() {
    let mut compressor = Compressor::default();
    for compression in &codecs() {
        let mut packs = |len: usize| compressor.pack(compression, &vec![b'x'; len]).is_some();
        assert!(!packs(0) && !packs(31));
        assert!(packs(200) && packs(COMPRESSED_LEN_MAX));
        assert!(!packs(COMPRESSED_LEN_MAX + 1));
        let longest = vec![b'y'; COMPRESSED_LEN_MAX];
        let packed = compressor.pack(compression, &longest).expect("is smaller").to_vec();
        // However well it compresses.
        assert_eq!(packed.len() - 2, COMPRESSED_LEN_MAX / 64);
        assert_eq!(compressor.unpack(compression, &packed[..packed.len() - 2]), Some(&longest[..]));
    }
    // Those beyond the limits are not counted.
    assert_eq!(compressor.counts.not_smaller, 0);
}

#[test]
fn dictionaries_can_be_rolled_over() {
    let mut compressor = Compressor::default();
    let old = b"the fields of a user: name, address, language; ".repeat(8);
    let new = b"the fields of an order: number, amount, currency; ".repeat(8);
    let value =
        b"the fields of a user: name, address, language; the fields of an order: number, amount, currency; ";
    let pack = |compressor: &mut Compressor, dictionaries| {
        let packed = compressor.pack(&with(Codec::Zstd(3), dictionaries), value).expect("is smaller");
        packed[..packed.len() - 2].to_vec()
    };
    let stored = pack(&mut compressor, vec![dictionary(&old)]);
    let without = compressor.pack(&with(Codec::Zstd(3), Vec::new()), value);
    assert_eq!(without, None, "only a dictionary makes it smaller");
    let both = || vec![dictionary(&new), Dictionary::new(&old, None).expect("a dictionary")];
    let unpack = |compressor: &mut Compressor, stored: &[u8], dictionaries| {
        compressor.unpack(&with(Codec::Lz4, dictionaries), stored).map(<[u8]>::to_vec)
    };
    assert_eq!(unpack(&mut compressor, &stored, both()), Some(value.to_vec()));
    let stored_now = pack(&mut compressor, both());
    assert_eq!(unpack(&mut compressor, &stored_now, vec![dictionary(&new)]), Some(value.to_vec()));
    // Without the old one, its values are misses.
    assert_eq!(unpack(&mut compressor, &stored, vec![dictionary(&new)]), None);
    assert_eq!(unpack(&mut compressor, &stored, Vec::new()), None);
    assert_eq!((compressor.counts.no_dictionary, compressor.counts.damaged), (2, 0));
}

#[test]
fn a_dictionary_is_checked_when_it_is_read() {
    let error = |bytes: &[u8]| Dictionary::new(bytes, Some(3)).err().expect("is refused");
    assert_eq!(error(b"1234567"), "expected a dictionary of 8 to 1048576 bytes, found 7");
    assert_eq!(error(&vec![0; (1 << 20) + 1]), "expected a dictionary of 8 to 1048576 bytes, found 1048577");
    // The magic number of trained dictionaries, and nothing that follows it.
    assert_eq!(
        error(b"\x37\xa4\x30\xec and then no tables"),
        "expected a dictionary of zstd, found a damaged one"
    );
    assert!(Dictionary::new(b"any text", None).is_ok());
}
