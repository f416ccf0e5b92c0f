//! Keys of a TLS session for the kernel, which encrypts and decrypts from then on (Linux: Documentation/networking/tls.rst;
//! `ssl_kernel_tls`).
//!
//! The connection is then like any other for the worker. The kernel shows what is no content (an alert, a new key) as
//! EIO, and the connection ends.

#![expect(unsafe_code, reason = "a message of control data has no safe wrapper")]

use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets, ProtocolVersion};

use crate::sockets::socket_option;

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

/// TLS_SET_RECORD_TYPE of `linux/tls.h`: the control data is the type of the record to be sent.
const SET_RECORD_TYPE: i32 = 1;

/// The type of a record with an alert, and its content: a warning, close_notify (RFC 8446, 6).
const ALERT: u8 = 21;
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// Control data with one byte: its head, and one word for the byte.
#[repr(C)]
struct RecordType {
    head: libc::cmsghdr,
    record_type: u64,
}

/// Tells the peer that nothing more comes.
///
/// # Errors
/// The socket does not take it now, or has no keys.
pub(crate) fn send_close_notify(socket: impl AsFd) -> Result<(), Errno> {
    let socket = socket.as_fd();
    let mut content = CLOSE_NOTIFY;
    let mut piece = libc::iovec { iov_base: content.as_mut_ptr().cast(), iov_len: content.len() };
    // SAFETY: a macro of C that computes with lengths only.
    let len = unsafe { libc::CMSG_LEN(1) };
    let mut control = RecordType {
        head: libc::cmsghdr { cmsg_len: len as _, cmsg_level: libc::SOL_TLS, cmsg_type: SET_RECORD_TYPE },
        // The byte is the first one behind the head, in either order of bytes.
        record_type: u64::from_ne_bytes([ALERT, 0, 0, 0, 0, 0, 0, 0]),
    };
    // SAFETY: all fields of `msghdr` are numbers or addresses, for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
    (message.msg_control, message.msg_controllen) = ((&raw mut control).cast(), size_of_val(&control) as _);
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the kernel reads the message, its piece and its control data, at addresses of values that outlive the call and
    // with their lengths, and keeps none. The descriptor is borrowed, so it is open.
    match unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
        _ => Ok(()),
    }
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
