//! The address of an API server: a URL, or what a pod is told of its own cluster.

use std::fmt;
use std::str::FromStr;

use http_client::HttpPlace;

/// Where an API server is: `https://HOST[:PORT][/PATH]`, or `http://` for `kubectl proxy` on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiPlace {
    pub(crate) place: HttpPlace,
    /// A path before all others.
    pub(crate) below: String,
}

/// Outside of a pod.
#[derive(Debug, thiserror::Error)]
#[error(
    "this is no pod of a cluster: expected KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT in the environment, found {found}"
)]
pub struct InClusterError {
    found: String,
}

impl ApiPlace {
    /// That of the cluster whose pod this is, from its environment.
    ///
    /// # Errors
    /// If the environment does not say.
    pub fn in_cluster(variable: impl Fn(&str) -> Option<String>) -> Result<ApiPlace, InClusterError> {
        let value = |name| variable(name).filter(|value| !value.is_empty());
        let host = value("KUBERNETES_SERVICE_HOST");
        let port = value("KUBERNETES_SERVICE_PORT");
        let wrong = |found: String| InClusterError { found };
        let (Some(host), Some(port)) = (host, port) else {
            return Err(wrong("none, or one of them".to_owned()));
        };
        let port =
            port.parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong(format!("the port `{port}`")))?;
        Ok(ApiPlace { place: HttpPlace::Network { is_tls: true, host, port }, below: String::new() })
    }

    /// Whether requests are encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.place, HttpPlace::Network { is_tls: true, .. })
    }

    /// Whether it is on this host, as `kubectl proxy` is.
    pub fn is_loopback(&self) -> bool {
        match &self.place {
            HttpPlace::Network { host, .. } => {
                host == "localhost"
                    || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
            }
            HttpPlace::Unix(_) => true,
        }
    }
}

impl FromStr for ApiPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<ApiPlace, String> {
        let wrong = || {
            format!("expected https://HOST:PORT, or http://127.0.0.1:PORT of `kubectl proxy`, found `{text}`")
        };
        let (is_tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong()),
        };
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#\\".contains(&byte)) {
            return Err(wrong());
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|port| *port > 0)),
            _ => (authority, Some(if is_tls { 443 } else { 80 })),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.or_else(|| (!host.contains([':', '[', ']'])).then_some(host));
        let (host, port) = host.filter(|host| !host.is_empty()).zip(port).ok_or_else(wrong)?;
        let place = HttpPlace::Network { is_tls, host: host.to_owned(), port };
        Ok(ApiPlace { place, below: path.trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for ApiPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_url() {
        for (text, shown) in [
            ("https://k.example", "https://k.example:443"),
            ("https://[::1]:6443/", "https://[::1]:6443"),
            ("http://127.0.0.1:8001", "http://127.0.0.1:8001"),
            ("https://rancher/k8s/clusters/c-1", "https://rancher:443/k8s/clusters/c-1"),
        ] {
            assert_eq!(text.parse::<ApiPlace>().map(|place| place.to_string()), Ok(shown.to_owned()));
        }
        for wrong in [
            "",
            "k.example:6443",
            "https://",
            "https://a:b",
            "https://a:0",
            "https://u@a",
            "https://a/?x",
            "https://::1",
        ] {
            assert!(wrong.parse::<ApiPlace>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pod_is_told_where_its_cluster_is() {
        let place = |host: &'static str, port: &'static str| {
            let variable =
                move |name: &str| Some(if name.ends_with("HOST") { host } else { port }.to_owned());
            ApiPlace::in_cluster(variable).map(|place| place.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(place("10.96.0.1", "443"), Ok("https://10.96.0.1:443".to_owned()));
        assert_eq!(place("fd00::1", "443"), Ok("https://[fd00::1]:443".to_owned()));
        assert!(place("", "443").is_err_and(|error| error.ends_with("found none, or one of them")));
        assert!(place("10.96.0.1", "x").is_err_and(|error| error.ends_with("found the port `x`")));
    }
}
