//! Limits of a turn: what a report may hold, and how long an answer waits.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::fault::{TurnFault, shorten};
use super::{TextReport, TurnReport, figures};

/// How long an answer waits for other orders: the interval of heartbeats.
pub const TURN_WAIT: Duration = Duration::from_secs(15);
/// By how much that differs from agent to agent and turn to turn, either way, so that they do not come together.
pub const TURN_WAIT_SPREAD: Duration = Duration::from_secs(5);

/// Servers on one host: one for each CPU of the largest.
pub const MEMBERS_PER_HOST_MAX: usize = 256;
/// Routers on one host.
pub const ROUTERS_PER_HOST_MAX: usize = 256;
/// Servers that a router does not ask, in one turn: a zone of the largest fleet. The first ones count.
pub const SUSPECTS_MAX: usize = 2048;
/// Servers that a router has not asked lately, in one turn. One that has more of them is believed to know them all.
pub const UNASKED_MAX: usize = fleet::health::UNASKED_PER_ROUTER_MAX;

/// The longest host name (RFC 1035, 2.3.4).
const HOST_LEN_MAX: usize = 253;

/// Counts bytes, and keeps none.
struct ByteCount(usize);

impl std::io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl TurnReport {
    /// Bytes that it has as JSON.
    pub(crate) fn json_len(&self) -> usize {
        let mut count = ByteCount(0);
        serde_json::to_writer(&mut count, self).expect("it has texts, numbers and lists");
        count.0
    }

    /// Refuses what no honest agent sends, and shortens texts, which are for people.
    ///
    /// # Errors
    /// Names the limit.
    pub fn checked(mut self) -> Result<TurnReport, TurnFault> {
        let most = |what, found, most| match found > most {
            true => Err(TurnFault::TooMany { what, found, most }),
            false => Ok(()),
        };
        most("servers", self.members.len(), MEMBERS_PER_HOST_MAX)?;
        most("routers", self.routers.len(), ROUTERS_PER_HOST_MAX)?;
        // Each router has the text in force, the one before, perhaps one that was refused, and a list; each server has one.
        most("texts", self.texts.len(), 4 * ROUTERS_PER_HOST_MAX + MEMBERS_PER_HOST_MAX)?;
        let mut names: Vec<&str> = self.members.iter().map(|one| one.member.as_str()).collect();
        twice(&mut names)?;
        let mut names: Vec<&str> = self.routers.iter().map(|one| one.router.as_str()).collect();
        twice(&mut names)?;
        let sweeps = self.members.iter_mut().filter_map(|member| member.sweep.as_mut());
        sweeps.flat_map(|sweep| &mut sweep.trouble).for_each(shorten);
        if let Some(agent) = &mut self.agent {
            shorten(&mut agent.version);
            agent.version = agent.version.replace(char::is_control, " ");
            most("servers by hand", agent.by_hand.len(), MEMBERS_PER_HOST_MAX)?;
        }
        if let Some(changes) = &mut self.changes {
            changes.check_limits()?;
        }
        if let Some(standard) = &mut self.standard {
            standard.limit();
        }
        if let Some(tune) = &mut self.tune {
            tune.check_limits()?;
        }
        let pages = self.members.iter_mut().map(|member| &mut member.page);
        // Browsers are led there: what is no address is not known.
        for page in pages.chain(self.routers.iter_mut().map(|router| &mut router.page)) {
            *page = page.take().filter(|page| is_client_address(page));
        }
        for router in &mut self.routers {
            router.suspects.truncate(SUSPECTS_MAX);
            router.suspects.iter_mut().for_each(shorten);
            router.unasked.truncate(UNASKED_MAX);
            router.unasked.iter_mut().for_each(shorten);
            router.trouble.iter_mut().for_each(shorten);
            router.client_address.iter_mut().for_each(shorten);
            router.figures.iter_mut().for_each(|tally| figures::limit(tally));
            if let TextReport::Refused { reason, .. } | TextReport::Crashed { reason, .. } = &mut router.text
            {
                shorten(reason);
            }
        }
        Ok(self)
    }
}

fn twice(names: &mut [&str]) -> Result<(), TurnFault> {
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(TurnFault::Twice(pair[0].to_owned())),
        None => Ok(()),
    }
}

/// Whether clients with auto-discovery can be told this address: HOST:PORT, with a name, an IPv4 address, or an IPv6 address in
/// brackets.
pub fn is_client_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_port = port.parse::<u16>().is_ok_and(|number| number > 0) && !port.starts_with('+');
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
            (1..=HOST_LEN_MAX).contains(&host.len()) && host.bytes().all(is_good)
        }
    };
    is_host && is_port
}
