//! GET requests over HTTP/1.1 to one server, bounded in time and length.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tls::Trust;
use wire::{Deadline, ServerAddress, Wire};

use crate::failure::Failure;

/// Time for one request and its answer: Prometheus gives up a query after two minutes by default.
const WITHIN: Duration = Duration::from_secs(130);

/// Bytes of an answer: 10,000 points have 400 KB.
const ANSWER_LEN_MAX: usize = 16 << 20;

/// Bytes of a token.
const TOKEN_LEN_MAX: usize = 16 << 10;

/// A server and the path below which its API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrometheusServer {
    is_encrypted: bool,
    host: String,
    port: u16,
    path: String,
}

/// A server with what it takes to ask it.
pub(super) struct PrometheusClient<'s> {
    server: &'s PrometheusServer,
    tls: Option<Arc<ClientConfig>>,
    token: Option<String>,
}

impl PrometheusServer {
    /// Parses `http[s]://host[:port][/path]`, an IPv6 address in brackets.
    pub(super) fn parse(text: &str) -> Result<PrometheusServer, String> {
        let wrong = || format!("expected http://HOST:PORT or https://HOST:PORT, found `{text}`");
        let (is_encrypted, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(wrong()),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"@?#\\".contains(&byte);
        if !text.bytes().all(is_plain) {
            return Err(wrong());
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|port| *port > 0)),
            _ => (authority, Some(if is_encrypted { 443 } else { 80 })),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare
            .or_else(|| (!host.contains([':', '[', ']'])).then_some(host))
            .filter(|host| !host.is_empty());
        let (host, port) = host.zip(port).ok_or_else(wrong)?;
        Ok(PrometheusServer {
            is_encrypted,
            host: host.to_owned(),
            port,
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// A client that trusts those authorities, or the system's, and shows that token.
    pub(super) fn client(
        &self,
        ca: Option<&Path>,
        token: Option<&Path>,
    ) -> Result<PrometheusClient<'_>, Failure> {
        let tls = self.is_encrypted.then(|| {
            let authorities = ca.unwrap_or_else(|| tls::system_authorities());
            Ok(Arc::new(tls::client(Trust::Authorities(authorities))?.with_no_client_auth()))
        });
        let tls = tls.transpose().map_err(|error: tls::TlsFileError| Failure::other(error))?;
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| Failure::system(format!("read {}", path.display()), error))?;
            let token = text.trim();
            let is_token = (1..=TOKEN_LEN_MAX).contains(&token.len())
                && token.bytes().all(|byte| byte.is_ascii_graphic());
            let wrong =
                || Failure::other(anyhow::anyhow!("read {}: expected a token, one word", path.display()));
            is_token.then(|| token.to_owned()).ok_or_else(wrong)
        };
        Ok(PrometheusClient { server: self, tls, token: token.map(read).transpose()? })
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for PrometheusServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.is_encrypted { "https" } else { "http" }, self.authority(), self.path)
    }
}

impl PrometheusClient<'_> {
    /// The body of an answer. One with the status of an error has it, too, if it is JSON: it says why.
    pub(super) fn get(&self, path: &str) -> io::Result<String> {
        let deadline = Deadline::within(WITHIN);
        let address = ServerAddress::Tcp(self.server.host.clone(), self.server.port);
        let mut wire = Wire::connect(&address, self.tls.as_ref(), &deadline)?;
        let token =
            self.token.as_ref().map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
        let (below, authority) = (&self.server.path, self.server.authority());
        let request = format!(
            "GET {below}{path} HTTP/1.1\r\nHost: {authority}\r\nAccept: application/json\r\n{token}Connection: close\r\n\r\n"
        );
        wire.send(request.as_bytes(), &deadline)?;
        let (mut answer, mut piece) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            match wire.receive(&mut piece, &deadline) {
                Ok(len) => answer.extend_from_slice(&piece[..len]),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return body(&answer),
                Err(error) => return Err(error),
            }
            if answer.len() > ANSWER_LEN_MAX {
                return Err(io::Error::other(format!(
                    "the answer has more than {} MiB",
                    ANSWER_LEN_MAX >> 20
                )));
            }
        }
    }
}

/// The body of a whole answer.
fn body(answer: &[u8]) -> io::Result<String> {
    let wrong = |why: &str| io::Error::new(ErrorKind::InvalidData, why.to_owned());
    let no_http = || wrong("the answer is not HTTP");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or_else(no_http)?;
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| no_http())?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.")?.get(2..5)).ok_or_else(no_http)?;
    let header = |name: &str| {
        let fields = lines.clone().filter_map(|line| line.split_once(':'));
        fields.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    };
    let rest = &answer[end + 4..];
    let cut_off = || wrong("the answer was cut off");
    let bytes = match (header("transfer-encoding"), header("content-length")) {
        (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => chunks(rest).ok_or_else(cut_off)?,
        (None, Some(length)) => {
            let length: usize = length.parse().map_err(|_| no_http())?;
            rest.get(..length).ok_or_else(cut_off)?.to_vec()
        }
        (None, None) => rest.to_vec(),
        (Some(other), _) => return Err(wrong(&format!("the answer has the coding {other}"))),
    };
    let text = String::from_utf8(bytes).map_err(|_| wrong("the answer is no text"))?;
    match status {
        "200" => Ok(text),
        // Prometheus explains its errors in JSON.
        _ if text.starts_with('{') => Ok(text),
        status => Err(wrong(&format!("the answer has status {status}"))),
    }
}

/// The contents of all chunks; `None` if they do not end.
fn chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let end = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(all);
        }
        let from = end + 2;
        all.extend_from_slice(rest.get(from..from.checked_add(size)?)?);
        rest = rest.get(from + size..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, shown: &str) {
        assert_eq!(
            PrometheusServer::parse(url).map(|server| server.to_string()),
            Ok(shown.to_owned()),
            "{url}"
        );
    }

    #[test]
    fn a_server_is_a_url_without_a_query() {
        check("http://prometheus:9090", "http://prometheus:9090");
        check("https://prometheus.example/", "https://prometheus.example:443");
        check("http://[::1]:9090/prometheus/", "http://[::1]:9090/prometheus");
        check("http://[::1]", "http://[::1]:80");
        for wrong in [
            "",
            "prometheus:9090",
            "ftp://a",
            "http://",
            "http://a:b",
            "http://a:0",
            "http://a b",
            "http://u@a",
            "http://a/?x",
            "http://::1",
            "http://a\r\nX: y",
        ] {
            assert!(PrometheusServer::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[track_caller]
    fn check_body(answer: &str, expected: Result<&str, &str>) {
        let found = body(answer.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(|error| &**error), expected, "{answer:?}");
    }

    #[test]
    fn an_answer_ends_where_it_says() {
        check_body("HTTP/1.1 200 OK\r\n\r\n{}", Ok("{}"));
        check_body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", Ok("{}"));
        check_body(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n",
            Ok("{}"),
        );
        check_body("HTTP/1.1 400 Bad Request\r\n\r\n{\"status\": \"error\"}", Ok("{\"status\": \"error\"}"));
        check_body("HTTP/1.1 404 Not Found\r\n\r\n<html>", Err("the answer has status 404"));
        check_body("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}", Err("the answer was cut off"));
        for cut in ["", "5\r\n{}", "2\r\n{}\r\n", "2\r\n{}", "x\r\n", "ffffffffffffffff\r\n{}"] {
            check_body(
                &format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{cut}"),
                Err("the answer was cut off"),
            );
        }
        check_body(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            Err("the answer has the coding gzip"),
        );
        for other in ["", "VERSION 1.6\r\n", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 2\r\n\r\n"] {
            check_body(other, Err("the answer is not HTTP"));
        }
    }
}
