//! SpookyHash V2 (Bob Jenkins, public domain), and Thomas Wang's mix of 64 bits.
//!
//! Both mixings of SpookyHash are rows of one shape over a ring of variables; only the rotations differ.

const FILL: u64 = 0xdead_beef_dead_beef;
/// Bytes of a block of long texts.
const BLOCK_LEN: usize = 96;
/// Texts below this length are hashed with four variables instead of twelve.
const LONG_LEN: usize = 2 * BLOCK_LEN;

const SHORT_MIX: [u32; 12] = [50, 52, 30, 41, 54, 48, 38, 37, 62, 34, 5, 36];
const SHORT_END: [u32; 11] = [15, 52, 26, 51, 28, 9, 47, 54, 32, 25, 63];
const LONG_MIX: [u32; 12] = [11, 32, 43, 31, 17, 28, 39, 57, 55, 54, 22, 46];
const LONG_END: [u32; 12] = [44, 15, 34, 21, 38, 33, 10, 13, 38, 53, 42, 54];

/// 32 bits of hash.
#[inline]
pub fn spooky32(text: &[u8], seed: u32) -> u32 {
    spooky64(text, u64::from(seed)) as u32
}

/// 64 bits of hash.
#[inline]
pub fn spooky64(text: &[u8], seed: u64) -> u64 {
    if text.len() < LONG_LEN { short(text, seed) } else { long(text, seed) }
}

fn short(text: &[u8], seed: u64) -> u64 {
    let mut h = [seed, seed, FILL, FILL];
    let (blocks, mut rest) = text.as_chunks::<32>();
    for block in blocks {
        short_step(&mut h, &block[..16]);
        h[0] = h[0].wrapping_add(word(&block[16..]));
        h[1] = h[1].wrapping_add(word(&block[24..]));
    }
    if let Some((half, after)) = rest.split_at_checked(16) {
        short_step(&mut h, half);
        rest = after;
    }
    h[3] = h[3].wrapping_add((text.len() as u64) << 56);
    if rest.is_empty() {
        h[2] = h[2].wrapping_add(FILL);
        h[3] = h[3].wrapping_add(FILL);
    } else {
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        h[2] = h[2].wrapping_add(word(&last));
        h[3] = h[3].wrapping_add(word(&last[8..]));
    }
    for (n, &bits) in SHORT_END.iter().enumerate() {
        let (to, from) = ((n + 3) % 4, (n + 2) % 4);
        h[to] ^= h[from];
        h[from] = h[from].rotate_left(bits);
        h[to] = h[to].wrapping_add(h[from]);
    }
    h[0]
}

#[inline]
fn short_step(h: &mut [u64; 4], half: &[u8]) {
    h[2] = h[2].wrapping_add(word(half));
    h[3] = h[3].wrapping_add(word(&half[8..]));
    for (n, &bits) in SHORT_MIX.iter().enumerate() {
        let (this, next, to) = ((n + 2) % 4, (n + 3) % 4, n % 4);
        h[this] = h[this].rotate_left(bits).wrapping_add(h[next]);
        h[to] ^= h[this];
    }
}

fn long(text: &[u8], seed: u64) -> u64 {
    let mut h: [u64; 12] = std::array::from_fn(|n| if n % 3 == 2 { FILL } else { seed });
    let (blocks, rest) = text.as_chunks::<BLOCK_LEN>();
    for block in blocks {
        for (n, &bits) in LONG_MIX.iter().enumerate() {
            let (before, after) = ((n + 11) % 12, (n + 1) % 12);
            h[n] = h[n].wrapping_add(word(&block[8 * n..]));
            h[(n + 2) % 12] ^= h[(n + 10) % 12];
            h[before] ^= h[n];
            h[n] = h[n].rotate_left(bits);
            h[before] = h[before].wrapping_add(h[after]);
        }
    }
    let mut last = [0; BLOCK_LEN];
    last[..rest.len()].copy_from_slice(rest);
    last[BLOCK_LEN - 1] = rest.len() as u8;
    for (n, variable) in h.iter_mut().enumerate() {
        *variable = variable.wrapping_add(word(&last[8 * n..]));
    }
    for _ in 0..3 {
        for (n, &bits) in LONG_END.iter().enumerate() {
            let (before, after) = ((n + 11) % 12, (n + 1) % 12);
            h[before] = h[before].wrapping_add(h[after]);
            h[(n + 2) % 12] ^= h[before];
            h[after] = h[after].rotate_left(bits);
        }
    }
    h[0]
}

/// The first 8 bytes.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("8 bytes are there"))
}

/// Spreads every bit of a number over 64.
#[inline]
pub fn twang_mix64(number: u64) -> u64 {
    let mixed = (!number).wrapping_add(number << 21);
    let mixed = mixed ^ (mixed >> 24);
    let mixed = mixed.wrapping_mul(1 + (1 << 3) + (1 << 8));
    let mixed = mixed ^ (mixed >> 14);
    let mixed = mixed.wrapping_mul(1 + (1 << 2) + (1 << 4));
    let mixed = mixed ^ (mixed >> 28);
    mixed.wrapping_add(mixed << 31)
}
