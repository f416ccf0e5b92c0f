//! Certificates for one run: an authority whose key nobody keeps, and what it has signed.

use crate::issue::signing_key::{P256Key, failed, key_identifier, pem, serial_number};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod,
    KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use ring::rand::SystemRandom;
use std::io;

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
        let (authority_key, key) = (P256Key::new(&random)?, P256Key::new(&random)?);

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
            key: key.pem(),
        })
    }
}

fn parameters(
    name: &str,
    names: &[&str],
    key: &P256Key,
    year: i32,
    random: &SystemRandom,
) -> io::Result<CertificateParams> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).map_err(failed)?;
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    (parameters.not_before, parameters.not_after) =
        (date_time_ymd(year - 1, 1, 1), date_time_ymd(year + YEARS, 1, 1));
    parameters.serial_number = Some(SerialNumber::from_slice(&serial_number(random)?));
    parameters.key_identifier_method = KeyIdMethod::PreSpecified(key_identifier(key.public()));
    Ok(parameters)
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
