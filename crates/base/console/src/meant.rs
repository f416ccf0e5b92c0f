//! Hosts by whose names browsers may ask: what `Host` of a request may say.

use std::net::IpAddr;

use admin::site::{SiteReply, SiteRequest};

use crate::{PLAIN, reply};

/// Addresses, `localhost`, and one name.
pub(crate) struct MeantHost {
    /// The name by which browsers may know this program, besides addresses.
    name: Option<String>,
}

impl MeantHost {
    pub(crate) fn new(name: Option<String>) -> MeantHost {
        MeantHost { name }
    }

    /// The answer to a browser that does not mean this program.
    pub(crate) fn refusal(&self, request: &SiteRequest) -> Option<SiteReply> {
        if self.is_meant(request.host.as_deref()) {
            return None;
        }
        let found = request.host.as_deref().unwrap_or("none");
        let text = format!(
            "expected an address of this host, localhost or the name that it was started with; found {found:?}\n"
        );
        Some(reply(421, PLAIN, text.into()))
    }

    /// A page of somebody else's may have a name that leads here (DNS rebinding); it has no address of ours, since a browser takes the
    /// name for the origin.
    fn is_meant(&self, host: Option<&str>) -> bool {
        let Some(host) = host else { return false };
        let bare = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        bare.parse::<IpAddr>().is_ok()
            || bare.eq_ignore_ascii_case("localhost")
            || self.name.as_ref().is_some_and(|name| bare.eq_ignore_ascii_case(name))
    }
}
