//! Requests for certificates (CSR, RFC 2986): the public key of one, proved by its signature.
//!
//! The names in a request are not read at all: who asks says who it is by other means, and the authority decides.

use crate::certificate::{Der, INTEGER, SEQUENCE};
use crate::issue::signing_key::key_identifier;
use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;

/// The longest request in PEM. One with a key on P-256 and a short name has 400 bytes; a host may add some names.
const REQUEST_LEN_MAX: usize = 8 * 1024;

const BIT_STRING: u8 = 0x03;

/// An AlgorithmIdentifier's content: a public key on a curve (1.2.840.10045.2.1), the curve P-256 (1.2.840.10045.3.1.7).
const ON_P256: &[u8] = &[
    0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, //
    0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
];

/// ecdsa-with-SHA256 (1.2.840.10045.4.3.2).
const SIGNED_BY_ECDSA: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

/// A request whose sender has proved that it holds the private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    public: Vec<u8>,
}

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateRequestError {
    /// It is too long.
    #[error("read a certificate request: it has more than {REQUEST_LEN_MAX} bytes")]
    TooLong,
    /// It is none.
    #[error("read a certificate request: expected PEM with CERTIFICATE REQUEST, found something else")]
    NoRequest,
    /// Its key is of another kind.
    #[error(
        "read a certificate request: expected an ECDSA key on P-256, signed with SHA-256, found another kind"
    )]
    OtherKey,
    /// Whoever has sent it does not hold the key.
    #[error("read a certificate request: its signature is not that of its key")]
    BadSignature,
}

impl CertificateRequest {
    /// Reads one in PEM.
    ///
    /// # Errors
    /// If it is none, or not signed by its key.
    pub fn parse(pem: &str) -> Result<CertificateRequest, CertificateRequestError> {
        if pem.len() > REQUEST_LEN_MAX {
            return Err(CertificateRequestError::TooLong);
        }
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes());
        let der = der.map_err(|_| CertificateRequestError::NoRequest)?;
        parts(&der).ok_or(CertificateRequestError::NoRequest)?.verified()
    }

    /// A hash of the public key, in hexadecimal digits: two requests for one key have the same.
    pub fn fingerprint(&self) -> String {
        key_identifier(&self.public).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl PublicKeyData for CertificateRequest {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// What of a request counts.
struct Parts<'d> {
    /// The bytes that are signed.
    signed: &'d [u8],
    key_algorithm: &'d [u8],
    key: &'d [u8],
    algorithm: &'d [u8],
    signature: &'d [u8],
}

fn parts(der: &[u8]) -> Option<Parts<'_>> {
    let mut outer = Der(der);
    let mut request = Der(outer.expect(SEQUENCE)?);
    let whole = request.0;
    let mut body = Der(request.expect(SEQUENCE)?);
    let signed = &whole[..whole.len() - request.0.len()];
    body.expect(INTEGER)?; // version
    body.expect(SEQUENCE)?; // subject
    let mut public = Der(body.expect(SEQUENCE)?);
    let key_algorithm = public.expect(SEQUENCE)?;
    let key = bits(&mut public)?;
    let algorithm = request.expect(SEQUENCE)?;
    let signature = bits(&mut request)?;
    let is_whole = outer.0.is_empty() && request.0.is_empty() && public.0.is_empty();
    is_whole.then_some(Parts { signed, key_algorithm, key, algorithm, signature })
}

/// A string of bits that is one of bytes: none of the last byte is unused.
fn bits<'d>(der: &mut Der<'d>) -> Option<&'d [u8]> {
    der.expect(BIT_STRING)?.strip_prefix(&[0])
}

impl Parts<'_> {
    fn verified(&self) -> Result<CertificateRequest, CertificateRequestError> {
        if self.key_algorithm != ON_P256 || self.algorithm != SIGNED_BY_ECDSA {
            return Err(CertificateRequestError::OtherKey);
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, self.key);
        let proved = key.verify(self.signed, self.signature);
        proved.map_err(|_| CertificateRequestError::BadSignature)?;
        Ok(CertificateRequest { public: self.key.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::CertificateKey;
    use crate::issue::signing_key::pem;

    #[track_caller]
    fn check(request: &str, expected: CertificateRequestError) {
        assert_eq!(CertificateRequest::parse(request), Err(expected));
    }

    #[test]
    fn a_request_gives_its_key() {
        let (one, other) = (CertificateKey::new().expect("a key"), CertificateKey::new().expect("a key"));
        let read = |key: &CertificateKey| CertificateRequest::parse(&key.request().expect("a request"));
        assert_eq!(read(&one).expect("a request"), read(&one).expect("a request"));
        assert_ne!(read(&one).expect("a request").fingerprint(), read(&other).expect("one").fingerprint());
    }

    #[test]
    fn a_request_that_is_cut_or_damaged_is_refused() {
        let text = CertificateKey::new().expect("a key").request().expect("a request");
        let der = CertificateSigningRequestDer::from_pem_slice(text.as_bytes()).expect("PEM").to_vec();
        let read = |der: &[u8]| CertificateRequest::parse(&pem("CERTIFICATE REQUEST", der));
        assert!(read(&der).is_ok());
        for end in 0..der.len() {
            assert_eq!(read(&der[..end]), Err(CertificateRequestError::NoRequest), "cut at {end}");
        }
        for at in 0..der.len() {
            for bit in 0..8 {
                let mut damaged = der.clone();
                damaged[at] ^= 1 << bit;
                assert!(read(&damaged).is_err(), "bit {bit} of byte {at}");
            }
        }
        check(&pem("CERTIFICATE REQUEST", &[&der[..], &[0]].concat()), CertificateRequestError::NoRequest);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        check("", CertificateRequestError::NoRequest);
        check(&"A".repeat(REQUEST_LEN_MAX + 1), CertificateRequestError::TooLong);
        let certificate = std::fs::read_to_string(crate::testing::tests_file("cert.pem")).expect("a file");
        check(&certificate, CertificateRequestError::NoRequest);
    }

    #[test]
    fn a_key_of_another_kind_is_refused() {
        // Made with `openssl req -new -newkey ed25519 -nodes -subj /CN=x`.
        check(
            "-----BEGIN CERTIFICATE REQUEST-----\n\
             MIGLMD8CAQAwDDEKMAgGA1UEAwwBeDAqMAUGAytlcAMhAI5oqQyaVhCAIzAn/7nC\n\
             S+sXGwKVOig6o+/rz1TQ5s4MoAAwBQYDK2VwA0EAVG7Kxap/ZUGPKwxlVZ1Z6e84\n\
             3SC2yF9+lf0Pf08BCDyxk2rb+0Wn0II5pi8LoXqhO9H1SIX/6gN88n/P7P2hBg==\n\
             -----END CERTIFICATE REQUEST-----\n",
            CertificateRequestError::OtherKey,
        );
    }
}
