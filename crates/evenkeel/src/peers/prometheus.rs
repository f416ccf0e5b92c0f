//! Prometheus as an argument names it, and how it is asked: bounded in time and length.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_client::{AUTHORIZATION, HttpClient, HttpPlace};
use tls::Trust;

use crate::failure::Failure;

/// Time for one request and its answer: Prometheus gives up a query after two minutes by default.
const WITHIN: Duration = Duration::from_secs(130);

/// Time to connect: a server that is there needs milliseconds.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Bytes of an answer: 10,000 points have 400 KB.
const ANSWER_LEN_MAX: usize = 16 << 20;

/// Bytes of a token.
const TOKEN_LEN_MAX: usize = 16 << 10;

/// A server and the path below which its API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrometheusServer {
    is_encrypted: bool,
    host: String,
    port: u16,
    path: String,
}

/// A server with what it takes to ask it.
pub(crate) struct PrometheusClient {
    client: HttpClient,
    below: String,
    token: Option<String>,
}

impl PrometheusServer {
    /// Parses `http[s]://host[:port][/path]`, an IPv6 address in brackets.
    pub(crate) fn parse(text: &str) -> Result<PrometheusServer, String> {
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
    pub(crate) fn client(
        &self,
        ca: Option<&Path>,
        token: Option<&Path>,
    ) -> Result<PrometheusClient, Failure> {
        let trust = match self.is_encrypted {
            true => Trust::Authorities(ca.unwrap_or_else(|| tls::system_authorities())),
            // Nobody is asked for a certificate.
            false => Trust::Anyone,
        };
        let tls = tls::client(trust).map_err(Failure::other)?.with_no_client_auth();
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
        let token = token.map(read).transpose()?;
        let place =
            HttpPlace::Network { is_tls: self.is_encrypted, host: self.host.clone(), port: self.port };
        let client = HttpClient::new(place, Arc::new(tls), CONNECT_WITHIN).map_err(Failure::other)?;
        Ok(PrometheusClient { client, below: self.path.clone(), token })
    }

    /// `HOST:PORT`
    pub(crate) fn address(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for PrometheusServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.is_encrypted { "https" } else { "http" }, self.address(), self.path)
    }
}

impl PrometheusClient {
    /// The body of an answer. One with the status of an error has it, too, if it is JSON: it says why.
    pub(crate) fn get(&self, path: &str) -> io::Result<String> {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let header = bearer.as_deref().map(|bearer| (AUTHORIZATION, bearer));
        let path = format!("{}{path}", self.below);
        let (status, body) = http_client::get(&self.client, &path, header, WITHIN, ANSWER_LEN_MAX)?;
        let wrong = |why: String| io::Error::new(ErrorKind::InvalidData, why);
        let text = String::from_utf8(body).map_err(|_| wrong("the answer is no text".to_owned()))?;
        match status.is_success() || text.starts_with('{') {
            true => Ok(text),
            false => Err(wrong(format!("the answer has status {}", status.as_u16()))),
        }
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
}
