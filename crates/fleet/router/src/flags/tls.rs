//! Flags for TLS to servers.

use ::flags::Kind;

use super::entry::{RouteFlag, flag};

pub(super) const FLAGS: &[RouteFlag] = &[
    flag(
        None,
        "pem-cert-path",
        "Certificate to show to servers, PEM, with its chain",
        "Files of TLS are read again when they change, and for SIGHUP. Connections go on.",
        |options, given| options.tls.cert = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(None, "pem-key-path", "Its key, PEM", "", |options, given| {
        options.tls.key = Some(given.text().into())
    })
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "pem-ca-path",
        "Authorities of servers' certificates, PEM",
        "Only looked at with --ssl-verify-peers.",
        |options, given| options.tls.ca = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "ssl-verify-peers",
        "Checks that an authority has signed a server's certificate",
        "Without this flag any server is trusted. Names in the certificate are not compared, as in mcrouter, unless a \
            further flag says so.",
        |options, _| options.tls.verify_peers = true,
    ),
    flag(
        None,
        "ssl-verify-names",
        "Checks that a server's certificate is for its name, too",
        "The host name or the address that the configuration has. Needs --ssl-verify-peers. mcrouter has no such flag.",
        |options, _| options.tls.verify_names = true,
    ),
    flag(
        None,
        "ssl-service-identity",
        "Name that servers' certificates must have",
        "A host name or URI among its alternative names, or a common name. Only compared with \
            --ssl-service-identity-authorization-enforce.",
        |options, given| options.tls.identities.push(given.text().to_owned()),
    )
    .takes("name", Kind::Text, ""),
    flag(
        None,
        "additional-ssl-service-identities",
        "Further such names, separated by commas",
        "",
        |options, given| options.tls.identities.extend(given.text().split(',').map(str::to_owned)),
    )
    .takes("list", Kind::List, ""),
    flag(
        None,
        "ssl-service-identity-authorization-enforce",
        "Refuses servers without such a name",
        "Needs --ssl-verify-peers.",
        |options, _| options.tls.enforce_identity = true,
    ),
    flag(
        None,
        "ssl-connection-cache",
        "Resumes TLS sessions with servers",
        "Those of the 4096 servers that were used last.",
        |options, _| options.tls.resumes = true,
    ),
    flag(
        None,
        "enable-ssl-tfo",
        "TCP Fast Open for connections with TLS",
        "To servers; and from clients, if all ports are those of --ssl-port. The first packet carries the first word of the \
            handshake. Without TLS a pool may say `tcp_fast_open`.",
        |options, _| options.tls.fast_open = true,
    ),
    flag(
        None,
        "tfo-queue-size",
        "Such connections that may wait at each listener",
        "Cut at net.core.somaxconn.",
        |options, given| options.tls.fast_open_queue = given.number(),
    )
    .takes("num", Kind::Number { min: 0, max: i32::MAX as i64 }, "100000"),
];
