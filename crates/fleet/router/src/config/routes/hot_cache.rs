//! `hot_cache` of a pool: whether the values of its servers that are hot are kept in the router for a moment.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::config::error::ConfigError;
use crate::hot::cache::HotCacheSettings;
use crate::routes::steps::pool::Pool;

const FIELDS: [&str; 3] = ["ttl_ms", "memory_mb", "value_max"];

/// Clients see what others have changed after this time at the latest. A value that may be older than seconds belongs into a
/// cache that its users know of.
const TTL_MS: RangeInclusive<i64> = 1..=10_000;

/// A key with 1,000 gets a second goes to its server five times, and a change is late by less than people notice.
const TTL_MS_DEFAULT: i64 = 200;

/// Hot values are at most some 1,000 in each worker.
const MEMORY_MB: RangeInclusive<i64> = 1..=1024;

/// Room for 128 values of the longest length.
const MEMORY_MB_DEFAULT: i64 = 8;

/// memcached's own limit unless `-I` says otherwise.
const VALUE_MAX: RangeInclusive<i64> = 1..=1024 * 1024;

/// Longer values are seldom hot, and few of them would take all of the memory.
const VALUE_MAX_DEFAULT: i64 = 64 * 1024;

/// The settings, if the pool has them.
pub(super) fn settings(pool: &Pool<'_>) -> Result<Option<Arc<HotCacheSettings>>, ConfigError> {
    let Some(json) = pool.get("hot_cache") else { return Ok(None) };
    let object = json.object("`hot_cache` of a pool")?;
    if let Some((name, value)) = object.entries().iter().find(|(name, _)| !FIELDS.contains(&&**name)) {
        let fields = FIELDS.join(", ");
        return Err(value.error(format!("expected one of {fields} in `hot_cache`, found `{name}`")));
    }
    let ttl_ms = object.integer("ttl_ms", TTL_MS)?.unwrap_or(TTL_MS_DEFAULT) as u32;
    let memory_mb = object.integer("memory_mb", MEMORY_MB)?.unwrap_or(MEMORY_MB_DEFAULT);
    let value_max = object.integer("value_max", VALUE_MAX)?.unwrap_or(VALUE_MAX_DEFAULT) as usize;
    let memory = (memory_mb as usize) << 20;
    Ok(Some(Arc::new(HotCacheSettings { pool: pool.name.to_owned(), ttl_ms, memory, value_max })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::json::parse;
    use crate::config::{CompileOptions, compile};
    use crate::plan::RoutePlan;

    fn compiled(pools: &str) -> Result<RoutePlan, String> {
        let config = format!("{{\"pools\": {{{pools}}},\n\"route\": \"PoolRoute|A\"}}");
        let json = parse(0, config.as_bytes()).expect("JSON");
        let mut resolve = |_: &str, port: u16| Some(([127, 0, 0, 1], port).into());
        compile(&json, 1, &CompileOptions::default(), &mut resolve).map_err(|error| error.to_string())
    }

    /// Of a pool with this `hot_cache`, or the error.
    fn of(hot_cache: &str) -> Result<HotCacheSettings, String> {
        let plan = compiled(&format!("\"A\": {{\"servers\": [\"a:1\"],\n\"hot_cache\": {hot_cache}}}"))?;
        Ok((**plan.servers[0].hot_cache.as_ref().expect("settings")).clone())
    }

    #[track_caller]
    fn check(hot_cache: &str, expected: &str) {
        assert_eq!(of(hot_cache).expect_err("is refused"), format!("line 2: {expected}"), "{hot_cache}");
    }

    #[test]
    fn fields_have_defaults() {
        let settings =
            HotCacheSettings { pool: "A".to_owned(), ttl_ms: 200, memory: 8 << 20, value_max: 65_536 };
        assert_eq!(of("{}"), Ok(settings.clone()));
        let all = "{\"ttl_ms\": 5, \"memory_mb\": 2, \"value_max\": 100}";
        assert_eq!(of(all), Ok(HotCacheSettings { ttl_ms: 5, memory: 2 << 20, value_max: 100, ..settings }));
        assert_eq!(compiled("\"A\": {\"servers\": [\"a:1\"]}").expect("a plan").servers[0].hot_cache, None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        check("true", "expected an object (`hot_cache` of a pool), found true");
        check("{\"ttl\": 5}", "expected one of ttl_ms, memory_mb, value_max in `hot_cache`, found `ttl`");
        for (field, wrong, range) in [
            ("ttl_ms", "0", "1 to 10000"),
            ("ttl_ms", "10001", "1 to 10000"),
            ("memory_mb", "0", "1 to 1024"),
            ("memory_mb", "1025", "1 to 1024"),
            ("value_max", "0", "1 to 1048576"),
            ("value_max", "1048577", "1 to 1048576"),
        ] {
            check(
                &format!("{{\"{field}\": {wrong}}}"),
                &format!(
                    "expected an integer from {range} (`{field}` of `hot_cache` of a pool), found the number {wrong}"
                ),
            );
        }
    }

    #[test]
    fn pools_with_other_settings_have_other_connections_to_the_same_server() {
        let plan = compiled(
            "\"A\": {\"servers\": [\"a:1\", \"Pool|B\", \"Pool|C\"]}, \"B\": {\"servers\": [\"a:1\"]}, \
             \"C\": {\"inherit\": \"A\", \"servers\": [\"a:1\"], \"hot_cache\": {}}",
        );
        assert!(plan.is_err(), "a server is no route: {plan:?}");
        let plan = compiled(
            "\"A\": {\"servers\": [{\"type\": \"RandomRoute\", \"children\": [\"Pool|B\", \"Pool|C\", \"Pool|D\"]}]}, \
             \"B\": {\"servers\": [\"a:1\"]}, \"C\": {\"inherit\": \"B\", \"hot_cache\": {}}, \
             \"D\": {\"inherit\": \"C\"}",
        )
        .expect("a plan");
        let pools: Vec<_> =
            plan.servers.iter().map(|spec| spec.hot_cache.as_ref().map(|hot| hot.pool.as_str())).collect();
        assert_eq!(pools, [None, Some("C"), Some("D")]);
    }
}
