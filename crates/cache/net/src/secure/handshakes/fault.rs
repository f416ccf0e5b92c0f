//! Faults of handshakes, by what a peer has done: for lines to operators.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// Why there is no session with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFault {
    /// The peer has closed the connection.
    Closed,
    /// The socket has failed: most often, the peer has reset the connection.
    Socket,
    /// What came is no TLS.
    NotTls,
    /// The peer's certificate was valid once.
    Expired,
    /// The peer's certificate will be valid.
    NotValidYet,
    /// The authority of the peer's certificate is not among those that are trusted.
    UnknownAuthority,
    /// The peer's certificate is for others.
    OtherName,
    /// The peer's certificate is that of an authority, which is no server's.
    CertificateOfAuthority,
    /// There is another fault of the peer's certificate.
    BadCertificate,
    /// The peer asks for a certificate, and there is none to show.
    CertificateRequired,
    /// The peer does not accept the certificate that it was shown.
    CertificateRefused,
    /// There is no version or cipher that both have.
    NothingInCommon,
    /// The peer has sent another alert.
    Alert,
    /// The peer has broken the protocol.
    Protocol,
}

impl From<Error> for HandshakeFault {
    fn from(error: Error) -> HandshakeFault {
        match error {
            Error::InvalidCertificate(error) => of_certificate(&error),
            Error::AlertReceived(alert) => of_alert(alert),
            Error::NoCertificatesPresented | Error::UnsupportedNameType => HandshakeFault::BadCertificate,
            Error::PeerIncompatible(_) => HandshakeFault::NothingInCommon,
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType
                | InvalidMessage::UnknownProtocolVersion
                | InvalidMessage::MessageTooLarge
                | InvalidMessage::InvalidEmptyPayload,
            ) => HandshakeFault::NotTls,
            _ => HandshakeFault::Protocol,
        }
    }
}

fn of_certificate(error: &CertificateError) -> HandshakeFault {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => HandshakeFault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            HandshakeFault::NotValidYet
        }
        CertificateError::UnknownIssuer => HandshakeFault::UnknownAuthority,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            HandshakeFault::OtherName
        }
        // webpki's own error, which rustls hides behind a trait.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            HandshakeFault::CertificateOfAuthority
        }
        _ => HandshakeFault::BadCertificate,
    }
}

fn of_alert(alert: AlertDescription) -> HandshakeFault {
    match alert {
        AlertDescription::CertificateRequired => HandshakeFault::CertificateRequired,
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => HandshakeFault::CertificateRefused,
        AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion => {
            HandshakeFault::NothingInCommon
        }
        _ => HandshakeFault::Alert,
    }
}

impl fmt::Display for HandshakeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HandshakeFault::Closed => "the server has closed the connection",
            HandshakeFault::Socket => "the server has reset the connection",
            HandshakeFault::NotTls => "the server does not speak TLS",
            HandshakeFault::Expired => "the server's certificate has expired",
            HandshakeFault::NotValidYet => "the server's certificate is not valid yet",
            HandshakeFault::UnknownAuthority => "the authority of the server's certificate is not trusted",
            HandshakeFault::OtherName => "the server's certificate is for another name",
            HandshakeFault::CertificateOfAuthority => {
                "the server's certificate is that of an authority (CA:TRUE): give it one with \
                 basicConstraints=CA:FALSE"
            }
            HandshakeFault::BadCertificate => "the server's certificate is not valid",
            HandshakeFault::CertificateRequired => "the server asks for a certificate",
            HandshakeFault::CertificateRefused => "the server does not accept our certificate",
            HandshakeFault::NothingInCommon => "the server has no version or cipher in common with us",
            HandshakeFault::Alert => "the server has sent an alert",
            HandshakeFault::Protocol => "the server breaks the protocol",
        })
    }
}
