//! A key with bytes behind it, in a buffer on the stack.

/// Bytes of a salt. A key has 250 at most, so that both and a counter fit the buffer.
pub(super) const SALT_LEN_MAX: usize = 242;

/// Bytes of the buffer.
const BUFFER_LEN: usize = 512;

/// Bytes of the buffer for short keys with short salts.
const SMALL_LEN: usize = 64;

/// A key that gets other endings.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack, so that nothing is allocated")]
pub(super) enum Salted {
    /// All keys of clients.
    Short([u8; BUFFER_LEN]),
    /// Text that is no key of a client, as in tests.
    Long(Vec<u8>),
}

impl Salted {
    /// A copy of the key, with room for `salt_len` bytes behind it.
    pub(super) fn new(key: &[u8], salt_len: usize) -> Salted {
        let mut salted = match key.len() + salt_len {
            ..=BUFFER_LEN => Salted::Short([0; BUFFER_LEN]),
            len => Salted::Long(vec![0; len]),
        };
        salted.bytes()[..key.len()].copy_from_slice(key);
        salted
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        match self {
            Salted::Short(bytes) => bytes,
            Salted::Long(bytes) => bytes,
        }
    }
}

/// What `hash` says of the key with the salt behind it.
#[inline]
pub(super) fn with_salt<T>(key: &[u8], salt: &[u8], hash: impl FnOnce(&[u8]) -> T) -> T {
    let len = key.len() + salt.len();
    if len <= SMALL_LEN {
        // Most keys: clearing a large buffer would take longer than the hash.
        let mut small = [0; SMALL_LEN];
        return hash(join(&mut small, key, salt));
    }
    hash(join(Salted::new(key, salt.len()).bytes(), key, salt))
}

fn join<'b>(buffer: &'b mut [u8], key: &[u8], salt: &[u8]) -> &'b [u8] {
    let len = key.len() + salt.len();
    buffer[..key.len()].copy_from_slice(key);
    buffer[key.len()..len].copy_from_slice(salt);
    &buffer[..len]
}
