//! Certificates for one run: an authority whose key nobody keeps, and what it has signed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SerialNumber, SignatureAlgorithm, SigningKey,
    date_time_ymd,
};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use std::io;

/// Characters of a line of PEM.
const LINE_LEN: usize = 64;

/// Years for which they are valid: longer than any run.
const YEARS: i32 = 10;
/// A year of the calendar, on average.
const YEAR_S: u64 = 31_556_952;

/// An authority, a certificate for some names and its key, all as PEM. The certificate is good for servers and for clients.
#[derive(Debug)]
pub struct RunCertificates {
    /// For those who are to trust the certificate. Its key is gone: it signs nothing else.
    pub authority: String,
    /// The certificate.
    pub certificate: String,
    /// Its key, which nobody else is to read.
    pub key: String,
}

impl RunCertificates {
    /// For these host names and addresses, from the year before this time on.
    ///
    /// # Errors
    /// If a name is none, or the system has no random numbers.
    pub fn new(names: &[&str], unix_s: u64) -> io::Result<RunCertificates> {
        let random = SystemRandom::new();
        let year = 1970 + i32::try_from(unix_s / YEAR_S).unwrap_or(0);
        let (authority_key, key) = (RunKey::new(&random)?, RunKey::new(&random)?);

        let mut authority = parameters("evenkeel: authority of one run", &[], &authority_key, year, &random)?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = authority.self_signed(&authority_key).map_err(failed)?;

        let mut member = parameters("evenkeel: member of one run", names, &key, year, &random)?;
        member.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        member.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        member.use_authority_key_identifier_extension = true;
        let issuer = Issuer::from_params(&authority, &authority_key);
        let leaf = member.signed_by(&key, &issuer).map_err(failed)?;
        Ok(RunCertificates {
            authority: pem("CERTIFICATE", root.der()),
            certificate: pem("CERTIFICATE", leaf.der()),
            key: pem("PRIVATE KEY", &key.pkcs8),
        })
    }
}

fn parameters(
    name: &str,
    names: &[&str],
    key: &RunKey,
    year: i32,
    random: &SystemRandom,
) -> io::Result<CertificateParams> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).map_err(failed)?;
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    (parameters.not_before, parameters.not_after) =
        (date_time_ymd(year - 1, 1, 1), date_time_ymd(year + YEARS, 1, 1));
    let mut serial = [0; 16];
    random.fill(&mut serial).map_err(|_| no_random_numbers())?;
    // Positive, and without a leading zero.
    serial[0] = serial[0] & 0x7f | 0x40;
    parameters.serial_number = Some(SerialNumber::from_slice(&serial));
    // RFC 7093, section 2, method 1.
    let id = digest::digest(&digest::SHA256, &key.public);
    parameters.key_identifier_method = KeyIdMethod::PreSpecified(id.as_ref()[..20].to_vec());
    Ok(parameters)
}

/// A key on the curve P-256, with which ring signs.
struct RunKey {
    pair: EcdsaKeyPair,
    public: Vec<u8>,
    pkcs8: Vec<u8>,
    random: SystemRandom,
}

impl RunKey {
    fn new(random: &SystemRandom) -> io::Result<RunKey> {
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, random).map_err(|_| no_random_numbers())?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), random)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let public = pair.public_key().as_ref().to_vec();
        Ok(RunKey { pair, public, pkcs8: pkcs8.as_ref().to_vec(), random: random.clone() })
    }
}

impl PublicKeyData for RunKey {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl SigningKey for RunKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signed = self.pair.sign(&self.random, message);
        signed.map(|signature| signature.as_ref().to_vec()).map_err(|_| rcgen::Error::RemoteKeyError)
    }
}

fn failed(error: rcgen::Error) -> io::Error {
    io::Error::other(format!("a certificate cannot be made: {error}"))
}

fn no_random_numbers() -> io::Error {
    io::Error::other("the system has no random numbers")
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: String = text
        .as_bytes()
        .chunks(LINE_LEN)
        .map(|line| format!("{}\n", std::str::from_utf8(line).expect("base64 is ASCII")))
        .collect();
    format!("-----BEGIN {kind}-----\n{lines}-----END {kind}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;
    use crate::{ClientSettings, ClientTls, NameCheck, certificates, key};
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::{ClientConnection, ServerConfig, ServerConnection};
    use std::sync::Arc;

    /// The result of a handshake of a client that trusts `authority`.
    fn handshake(
        scratch: &Scratch,
        authority: &str,
        shown: &RunCertificates,
        name: &str,
    ) -> Result<(), rustls::Error> {
        let authorities = Some(scratch.file("authority.pem", authority));
        let settings = ClientSettings { authorities, names: NameCheck::Host, ..ClientSettings::default() };
        let (client, _) = ClientTls::load(settings).expect("an authority");
        let chain = certificates(&scratch.file("member.pem", &shown.certificate)).expect("a certificate");
        let key = key(&scratch.file("member-key.pem", &shown.key)).expect("a key");
        let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .expect("a server");
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let mut client = ClientConnection::new(client.current(), name)?;
        let mut server = ServerConnection::new(Arc::new(server))?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).expect("memory takes all");
            server.read_tls(&mut &*wire).expect("memory gives all");
            server.process_new_packets()?;
            wire.clear();
            server.write_tls(&mut wire).expect("memory takes all");
            client.read_tls(&mut &*wire).expect("memory gives all");
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn a_certificate_is_trusted_by_its_authority_for_its_names_alone() {
        let scratch = Scratch::new();
        // Certificates are checked with the time of day.
        let now_s = UnixTime::now().as_secs();
        let new = || RunCertificates::new(&["127.0.0.1", "localhost"], now_s).expect("certificates");
        let (one, other) = (new(), new());
        for name in ["127.0.0.1", "localhost"] {
            assert_eq!(handshake(&scratch, &one.authority, &one, name), Ok(()));
        }
        let refused = |authority, name| handshake(&scratch, authority, &one, name).is_err();
        assert!(refused(&one.authority, "127.0.0.2") && refused(&other.authority, "127.0.0.1"));
        assert!(one.key.starts_with("-----BEGIN PRIVATE KEY-----\n") && one.key != other.key);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        assert!(RunCertificates::new(&["no näme"], 0).is_err());
    }
}
