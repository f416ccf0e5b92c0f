//! Lines about fields of a configuration that have no effect.
//!
//! Configurations of mcrouter may have any field, so one that is not known is a line and no error. Fields that mcrouter knows
//! and that have no effect here are known.

use flags::nearest;

use crate::config::json::Object;

/// Lines about the fields of an object that this kind does not have.
pub(super) fn lines(
    object: &Object<'_>,
    kind: &str,
    fields: &[&'static str],
) -> impl Iterator<Item = String> {
    object.entries().iter().filter(|(name, _)| !fields.contains(&name.as_str())).map(move |(name, json)| {
        let meant = nearest(name, fields.iter().copied());
        let meant = meant.map(|meant| format!(", `{meant}` is")).unwrap_or_default();
        format!("line {}: `{name}` is not known in {kind}{meant}: it has no effect", json.place.line)
    })
}
