//! Security of connections to servers: `security_mech` and what overrides it, and the ports that go with it.
//!
//! As in mcrouter's public version, every server counts as one of another data centre.

use crate::config::error::ConfigError;
use crate::config::json::Json;
use crate::routes::steps::pool::Pool;

/// Whether requests are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mechanism {
    Plain,
    /// TLS 1.2 or 1.3, also where mcrouter distinguishes libraries, or leaves TLS after the handshake.
    Tls,
}

/// The names that a configuration has for [`Mechanism::Tls`].
const TLS_NAMES: [&str; 4] = ["ssl", "tls_to_plain", "fizz", "ktls12"];

impl Mechanism {
    /// The mechanism with this name.
    pub(super) fn named(name: &str) -> Option<Mechanism> {
        match name {
            "plain" => Some(Mechanism::Plain),
            name => TLS_NAMES.contains(&name).then_some(Mechanism::Tls),
        }
    }

    fn parse(json: &Json) -> Result<Mechanism, ConfigError> {
        let name = json.string("a security mechanism")?;
        Mechanism::named(name)
            .ok_or_else(|| json.error(format!("expected {}, found `{name}`", Mechanism::accepted())))
    }

    /// What is accepted, for errors.
    pub(super) fn accepted() -> String {
        format!("plain, {}", TLS_NAMES.join(", "))
    }
}

/// What a pool says about all of its servers.
pub(super) struct PoolSecurity {
    /// For servers that do not say themselves.
    usual: Mechanism,
    /// For all servers.
    always: Option<Mechanism>,
    /// In place of the servers' own port.
    pub(super) port: Option<u16>,
}

impl PoolSecurity {
    pub(super) fn of(pool: &Pool<'_>) -> Result<PoolSecurity, ConfigError> {
        let mechanism = |field| pool.get(field).map(Mechanism::parse).transpose();
        let port = |field: &'static str| {
            let number =
                pool.get(field).map(|json| json.integer(format_args!("`{field}` of a pool"), 1..=65_535));
            number.transpose().map(|number| number.map(|number| number as u16))
        };
        // Of use only where servers of the own data centre are known.
        let _within = (mechanism("security_mech_within_dc")?, port("port_override_within_dc")?);
        let usual = match (mechanism("security_mech")?, pool.get("use_ssl")) {
            (Some(mechanism), _) => mechanism,
            (None, Some(json)) if json.bool("`use_ssl` of a pool")? => Mechanism::Tls,
            (None, _) => Mechanism::Plain,
        };
        let usual_port = port("port_override")?;
        Ok(PoolSecurity {
            usual,
            always: mechanism("security_mech_cross_dc")?,
            port: port("port_override_cross_dc")?.or(usual_port),
        })
    }

    /// The mechanism for a server that says `own` itself.
    pub(super) fn mechanism(&self, own: Option<Mechanism>) -> Mechanism {
        self.always.or(own).unwrap_or(self.usual)
    }
}
