//! Flags for TLS of clients, and for listeners that another process has made.

use ::flags::Kind;

use super::entry::{RouteFlag, flag};

pub(super) const FLAGS: &[RouteFlag] = &[
    flag(
        None,
        "ssl-port",
        "TCP ports with TLS to listen on, separated by commas",
        "On the addresses of --listen-addresses. Needs --server-pem-cert-path and --server-pem-key-path, or --pem-cert-path \
            and --pem-key-path, which then count for both sides.",
        |options, given| options.tls.ssl_ports.push(given.text().to_owned()),
    )
    .takes("list", Kind::List, ""),
    flag(
        None,
        "server-pem-cert-path",
        "Certificate to show to clients, PEM, with its chain",
        "Read again when it changes, and for SIGHUP, as the other files of TLS.",
        |options, given| options.tls.server_cert = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(None, "server-pem-key-path", "Its key, PEM", "", |options, given| {
        options.tls.server_key = Some(given.text().into())
    })
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "server-pem-ca-path",
        "Authorities of clients' certificates, PEM",
        "With it, clients are asked for a certificate, and one that they show must be valid.",
        |options, given| options.tls.server_ca = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "ssl-require-peer-certs",
        "Refuses clients without a valid certificate",
        "Needs --server-pem-ca-path. Where --ssl-port takes the certificate of --pem-cert-path, --pem-ca-path counts in its \
            place.",
        |options, _| options.tls.require_peer_certs = true,
    ),
    flag(
        None,
        "tls-ticket-keys",
        "Keys of session tickets that a fleet of routers accepts",
        "The file of `evenkeel serve --tls-ticket-keys`: 64 hexadecimal digits on each line. Without it, tickets are \
            accepted only by the process that made them. mcrouter has another format, in --tls-ticket-key-seed-path.",
        |options, given| options.tls.ticket_keys = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "ssl-use-ktls12",
        "Gives the keys of clients' sessions to the kernel, if it can",
        "Of both versions of TLS.",
        |options, _| options.tls.kernel = true,
    ),
    flag(
        None,
        "listen-sock-fd",
        "Number of a listening socket that this process was given",
        "A TCP or unix socket that the process which starts this one has made. Beside -p and the others; mcrouter then \
            listens nowhere else.",
        |options, given| options.listen_fd = Some(given.number::<i32>()).filter(|number| *number >= 0),
    )
    .takes("num", Kind::Number { min: -1, max: i32::MAX as i64 }, "-1"),
];
