//! Keys of a TLS session for the kernel, which encrypts and decrypts from then on (Linux: Documentation/networking/tls.rst;
//! `ssl_kernel_tls`).
//!
//! The connection is then like any other for the worker. The kernel shows what is no content (an alert, a new key) as
//! EIO, and the connection ends; an end from our side has no alert.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets, ProtocolVersion};

use crate::socket_option;

/// Makes the socket one that can take keys.
///
/// # Errors
/// The kernel was built without `CONFIG_TLS`, its module is missing, or the socket is not TCP.
pub(crate) fn prepare(socket: impl AsFd) -> Result<(), Errno> {
    socket_option::set(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// Gives the kernel the keys of both directions. After an error the session is lost.
///
/// # Errors
/// The kernel does not have this cipher.
pub(crate) fn give_keys(
    socket: impl AsFd,
    version: Option<ProtocolVersion>,
    secrets: &ExtractedSecrets,
) -> Result<(), Errno> {
    let version = match version {
        Some(ProtocolVersion::TLSv1_3) => libc::TLS_1_3_VERSION,
        _ => libc::TLS_1_2_VERSION,
    };
    for (direction, (sequence, secrets)) in [(libc::TLS_TX, &secrets.tx), (libc::TLS_RX, &secrets.rx)] {
        let info = crypto_info(version, *sequence, secrets).ok_or(Errno::OPNOTSUPP)?;
        socket_option::set(&socket, libc::SOL_TLS, direction, &info)?;
    }
    Ok(())
}

/// `struct tls12_crypto_info_…` of `linux/tls.h`.
fn crypto_info(version: u16, sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Vec<u8>> {
    Some(match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => {
            layout(version, libc::TLS_CIPHER_AES_GCM_128, key.as_ref(), iv.as_ref().split_at(4), sequence)
        }
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => {
            layout(version, libc::TLS_CIPHER_AES_GCM_256, key.as_ref(), iv.as_ref().split_at(4), sequence)
        }
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            let cipher = libc::TLS_CIPHER_CHACHA20_POLY1305;
            layout(version, cipher, key.as_ref(), iv.as_ref().split_at(0), sequence)
        }
        _ => return None,
    })
}

/// Version, cipher, then the second part of the nonce, the key, the first part of the nonce (the salt) and the sequence
/// number, as bytes without gaps.
fn layout(version: u16, cipher: u16, key: &[u8], (salt, nonce): (&[u8], &[u8]), sequence: u64) -> Vec<u8> {
    [&version.to_ne_bytes()[..], &cipher.to_ne_bytes(), nonce, key, salt, &sequence.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_have_the_form_of_the_kernels_header() {
        let iv = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let info = layout(libc::TLS_1_3_VERSION, libc::TLS_CIPHER_AES_GCM_256, &[7; 32], iv.split_at(4), 258);
        assert_eq!(info.len(), size_of::<libc::tls12_crypto_info_aes_gcm_256>());
        assert_eq!(info[..4], [4, 3, 52, 0]);
        assert_eq!(info[4..12], [5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!((&info[12..44], &info[44..48]), (&[7; 32][..], &[1, 2, 3, 4][..]));
        assert_eq!(info[48..], [0, 0, 0, 0, 0, 0, 1, 2]);
        let short = layout(0, 0, &[7; 16], iv.split_at(4), 0);
        assert_eq!(short.len(), size_of::<libc::tls12_crypto_info_aes_gcm_128>());
        let chacha = layout(0, 0, &[7; 32], iv.split_at(0), 0);
        assert_eq!(chacha.len(), size_of::<libc::tls12_crypto_info_chacha20_poly1305>());
        assert_eq!(chacha[4..16], iv);
    }
}
