//! Keys on the curve P-256 that sign certificates and requests for them, and their PEM.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, SigningKey};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use std::io;

/// Characters of a line of PEM.
const LINE_LEN: usize = 64;

/// A private key, with which ring signs.
pub(crate) struct P256Key {
    pair: EcdsaKeyPair,
    public: Vec<u8>,
    pkcs8: Vec<u8>,
    random: SystemRandom,
}

impl P256Key {
    /// A new one.
    pub(crate) fn new(random: &SystemRandom) -> io::Result<P256Key> {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, random)
            .map_err(|_| no_random_numbers())?;
        P256Key::from_pkcs8(pkcs8.as_ref(), random).ok_or_else(no_random_numbers)
    }

    /// The one in PKCS #8. `None` if it is none of this curve.
    pub(crate) fn from_pkcs8(pkcs8: &[u8], random: &SystemRandom) -> Option<P256Key> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, random).ok()?;
        let public = pair.public_key().as_ref().to_vec();
        Some(P256Key { pair, public, pkcs8: pkcs8.to_vec(), random: random.clone() })
    }

    /// The key for a file that nobody else is to read.
    pub(crate) fn pem(&self) -> String {
        pem("PRIVATE KEY", &self.pkcs8)
    }

    /// The public half: a point of the curve.
    pub(crate) fn public(&self) -> &[u8] {
        &self.public
    }
}

impl PublicKeyData for P256Key {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl SigningKey for P256Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signed = self.pair.sign(&self.random, message);
        signed.map(|signature| signature.as_ref().to_vec()).map_err(|_| rcgen::Error::RemoteKeyError)
    }
}

/// The identifier of a public key in a certificate (RFC 7093, section 2, method 1).
pub(crate) fn key_identifier(public: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, public).as_ref()[..20].to_vec()
}

/// A serial number that nobody can guess: positive, and without a leading zero.
pub(crate) fn serial_number(random: &SystemRandom) -> io::Result<[u8; 16]> {
    let mut serial = [0; 16];
    random.fill(&mut serial).map_err(|_| no_random_numbers())?;
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(serial)
}

pub(crate) fn failed(error: rcgen::Error) -> io::Error {
    io::Error::other(format!("a certificate cannot be made: {error}"))
}

fn no_random_numbers() -> io::Error {
    io::Error::other("the system has no random numbers")
}

/// DER as text between the lines that name its kind.
pub(crate) fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: String = text
        .as_bytes()
        .chunks(LINE_LEN)
        .map(|line| format!("{}\n", std::str::from_utf8(line).expect("base64 is ASCII")))
        .collect();
    format!("-----BEGIN {kind}-----\n{lines}-----END {kind}-----\n")
}
