//! Constants that every configuration has without defining them: names of this router, and its options.

use super::json::JsonValue;
use crate::message::routing_prefix::RoutingPrefix;

/// What this router knows of itself.
#[derive(Clone, Debug)]
pub struct GlobalParams<'a> {
    /// `--route-prefix`.
    pub default_route: &'a RoutingPrefix,
    /// Names the host, as `HostIdRoute` uses it.
    pub host_id: u32,
    /// `--router-name`.
    pub router_name: &'a str,
    /// `--service-name`.
    pub service_name: &'a str,
    /// `--num-proxies`.
    pub proxy_count: u32,
    /// `--config-params`, see [`config_params`].
    pub config_params: &'a [(String, String)],
    /// Numbers and switches (`0`, `1`) among the options, by mcrouter's names with underscores.
    pub options: &'a [(String, String)],
}

impl GlobalParams<'_> {
    /// Names and values. Of a name that stands twice, the first value counts.
    pub fn constants(&self) -> Vec<(String, JsonValue)> {
        let text = |value: &str| JsonValue::String(value.to_owned());
        let own = [
            ("default-route", text(self.default_route.as_str())),
            ("default-region", text(self.default_route.region())),
            ("default-cluster", text(self.default_route.cluster())),
            ("hostid", JsonValue::Int(i64::from(self.host_id))),
            ("router-name", text(self.router_name)),
            ("service-name", text(self.service_name)),
            ("service-router-capable", JsonValue::Int(0)),
            ("router-info-name", text("Memcache")),
            ("num-proxies", JsonValue::Int(i64::from(self.proxy_count))),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        let given = self.config_params.iter().map(|(name, value)| (name.clone(), text(value)));
        let options = self.options.iter().map(|(name, value)| (format!("mcr_opts-{name}"), text(value)));
        own.chain(given).chain(options).collect()
    }
}

/// Reads `name:value,name:value`: the argument of `--config-params`, and behind it that of `--additional-config-params`,
/// whose values replace those of the first.
pub fn config_params(given: &str, additional: &str) -> Result<Vec<(String, String)>, String> {
    let mut params = pairs(additional)?;
    // The first of equal names counts in the one, the last in the other.
    params.reverse();
    params.extend(pairs(given)?);
    Ok(params)
}

fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let pieces = text.split(',').filter(|piece| !piece.is_empty());
    pieces
        .map(|piece| match piece.split_once(':') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(format!("expected name:value, found `{piece}`")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_knows_its_route_and_its_options() {
        let params = config_params("pool:a,x:1,x:2", "").expect("are pairs");
        let options = [("server_timeout_ms".to_owned(), "200".to_owned())];
        let globals = GlobalParams {
            default_route: &RoutingPrefix::parse("/west/c1/").expect("a prefix"),
            host_id: 7,
            router_name: "libmcrouter.11211",
            service_name: "main",
            proxy_count: 4,
            config_params: &params,
            options: &options,
        };
        let constants = globals.constants();
        let check = |name: &str, expected: JsonValue| {
            let found = constants.iter().find(|(constant, _)| constant == name).map(|(_, value)| value);
            assert_eq!(found, Some(&expected), "{name}");
        };
        let text = |value: &str| JsonValue::String(value.to_owned());
        check("default-route", text("/west/c1/"));
        check("default-region", text("west"));
        check("default-cluster", text("c1"));
        check("hostid", JsonValue::Int(7));
        check("num-proxies", JsonValue::Int(4));
        check("pool", text("a"));
        check("x", text("1"));
        check("mcr_opts-server_timeout_ms", text("200"));
    }

    #[test]
    fn additional_params_replace_others() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let params = config_params("a:1,b:x:y,", ",a:2,a:3").expect("are pairs");
        assert_eq!(params, [pair("a", "3"), pair("a", "2"), pair("a", "1"), pair("b", "x:y")]);
        assert_eq!(config_params("", ""), Ok(Vec::new()));
        assert_eq!(config_params("a", ""), Err("expected name:value, found `a`".to_owned()));
        assert_eq!(config_params(":a", ""), Err("expected name:value, found `:a`".to_owned()));
    }
}
