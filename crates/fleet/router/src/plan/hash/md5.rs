//! MD5 (RFC 1321), by which mcrouter names configurations. It protects nothing.

/// Left rotations of each round's steps.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The digest in hexadecimal.
pub fn md5_hex(bytes: &[u8]) -> String {
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().for_each(|block| step(&mut state, block));
    // A one bit, zeros, and the length in bits, in one block or two.
    let mut last = [0; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let len = if rest.len() < 56 { 64 } else { 128 };
    last[len - 8..len].copy_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    last[..len].as_chunks::<64>().0.iter().for_each(|block| step(&mut state, block));
    state.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

fn step(state: &mut [u32; 4], block: &[u8; 64]) {
    let words: [u32; 16] =
        std::array::from_fn(|place| u32::from_le_bytes(std::array::from_fn(|byte| block[4 * place + byte])));
    let [mut a, mut b, mut c, mut d] = *state;
    for place in 0..64_usize {
        let (mixed, word) = match place / 16 {
            0 => ((b & c) | (!b & d), place),
            1 => ((d & b) | (!d & c), 5 * place + 1),
            2 => (b ^ c ^ d, 3 * place + 5),
            _ => (c ^ (b | !d), 7 * place),
        };
        // The constants of the standard are defined by the sine.
        let constant = ((place + 1) as f64).sin().abs() * 4_294_967_296.0;
        let sum = a.wrapping_add(mixed).wrapping_add(constant as u32).wrapping_add(words[word % 16]);
        let rotated = sum.rotate_left(ROTATIONS[place / 16][place % 4]);
        (a, b, c, d) = (d, b.wrapping_add(rotated), b, c);
    }
    for (sum, part) in state.iter_mut().zip([a, b, c, d]) {
        *sum = sum.wrapping_add(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard_hold() {
        assert_eq!(md5_hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(md5_hex(b"message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        let digits = "1234567890".repeat(8);
        assert_eq!(md5_hex(digits.as_bytes()), "57edf4a22be3c955ac49da2e2107b67a");
        // From md5sum(1): lengths around those where another block is needed.
        assert_eq!(md5_hex(&[b'a'; 55]), "ef1772b6dff9a122358552954ad0df65");
        assert_eq!(md5_hex(&[b'a'; 56]), "3b0c8ac703f828b04c6c197006d17218");
        assert_eq!(md5_hex(&[b'a'; 64]), "014842d480b571495a4a0363793f7367");
    }
}
