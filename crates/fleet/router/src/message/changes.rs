//! Changes that routes make to requests: to their keys, and to their times of expiry.
//!
//! mcrouter's rules (routes/ModifyKeyRoute.h, ModifyExptimeRoute.h). Nothing here knows a protocol.

use crate::message::key::RoutedKey;

/// What a ModifyKeyRoute does with keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyChange {
    /// The routing prefix becomes this one; empty for none (`set_routing_prefix`).
    pub routing_prefix: Option<Box<[u8]>>,
    /// What keys begin with afterwards (`ensure_key_prefix`).
    pub ensured: Box<[u8]>,
    /// A key that does not begin with it has as many of its first bytes replaced (`modify_inplace`).
    pub in_place: bool,
    /// A key that begins with this has it replaced (`replace_key_prefix`).
    pub replaced: Option<Box<[u8]>>,
    /// What keys end with afterwards (`set_key_suffix`).
    pub suffix: Box<[u8]>,
}

impl KeyChange {
    /// The key afterwards, with its routing prefix; `None` if it stays as it is. A key in base64 has no routing prefix,
    /// and gets none.
    pub(crate) fn apply(&self, key: &RoutedKey<'_>, is_binary: bool) -> Option<Vec<u8>> {
        let (old_prefix, bare) = (key.prefix(), key.bare());
        let new_prefix = self.routing_prefix.as_deref().filter(|_| !is_binary);
        let prefix = new_prefix.unwrap_or(old_prefix);
        let joined = |middle: &[u8], rest: &[u8]| Some([prefix, middle, rest, &self.suffix].concat());
        if let Some(rest) = self.replaced.as_deref().and_then(|replaced| bare.strip_prefix(replaced)) {
            return joined(&self.ensured, rest);
        }
        if !bare.starts_with(&self.ensured) {
            let cut = if self.in_place && bare.len() >= self.ensured.len() { self.ensured.len() } else { 0 };
            return joined(&self.ensured, &bare[cut..]);
        }
        if prefix != old_prefix || !self.suffix.is_empty() {
            return joined(b"", bare);
        }
        None
    }
}

/// What a route does with times of expiry, in seconds as memcached takes them: 0 is never, below 0 at once, beyond 30 days
/// a moment since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExptimeChange {
    /// Always this one.
    Set(i32),
    /// This one for items that would never expire, or later.
    AtMost(i32),
}

impl ExptimeChange {
    /// The time afterwards; `None` if it stays as it is.
    pub(crate) fn apply(self, exptime: i64) -> Option<i64> {
        match self {
            ExptimeChange::Set(new) => Some(i64::from(new)),
            ExptimeChange::AtMost(most) if exptime == 0 || exptime > i64::from(most) => Some(i64::from(most)),
            ExptimeChange::AtMost(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: &KeyChange, key: &str, expected: &str) {
        let routed = RoutedKey::new(key.as_bytes());
        let changed = change.apply(&routed, false).unwrap_or_else(|| key.as_bytes().to_vec());
        assert_eq!(std::str::from_utf8(&changed).expect("ASCII"), expected, "{key}");
    }

    fn change(prefix: Option<&str>, ensured: &str, suffix: &str) -> KeyChange {
        KeyChange {
            routing_prefix: prefix.map(|prefix| prefix.as_bytes().into()),
            ensured: ensured.as_bytes().into(),
            suffix: suffix.as_bytes().into(),
            ..KeyChange::default()
        }
    }

    #[test]
    fn keys_begin_with_what_is_ensured_and_have_the_prefix_that_is_set() {
        let foo = change(Some("/a/b/"), "foo:", "");
        check(&foo, "key", "/a/b/foo:key");
        check(&foo, "foo:bar", "/a/b/foo:bar");
        check(&foo, "/a/a/o:", "/a/b/foo:o:");
        check(&change(None, "foo:", ""), "/b/c/key", "/b/c/foo:key");
        check(&change(Some(""), "", ""), "/c/d/123", "123");
        check(&change(Some("/a/b/"), "", ""), "/a/b/k", "/a/b/k");
        check(&change(None, "", ""), "k", "k");
    }

    #[test]
    fn a_beginning_may_be_replaced_in_place_or_where_it_is_found() {
        let in_place = KeyChange { in_place: true, ..change(None, "bar:", "") };
        check(&in_place, "/e/f/akey", "/e/f/bar:");
        check(&in_place, "/e/f/mykeys", "/e/f/bar:ys");
        check(&in_place, "/e/f/key", "/e/f/bar:key");
        check(&in_place, "/e/f/bar:key", "/e/f/bar:key");
        let replaced = KeyChange { replaced: Some((*b"foo.").into()), ..change(None, "bar.", "") };
        check(&replaced, "/j/k/foo.sup", "/j/k/bar.sup");
        check(&replaced, "/j/k/baz.sup", "/j/k/bar.baz.sup");
        check(&replaced, "bar.sup", "bar.sup");
    }

    #[test]
    fn a_suffix_is_appended_whatever_else_changes() {
        check(&change(None, "", ":bar"), "/d/w/foo.sup", "/d/w/foo.sup:bar");
        check(&change(Some(""), "bar:", "foo"), "/f/w/bar:x", "bar:xfoo");
        let in_place = KeyChange { in_place: true, ..change(None, "bar:", "foo") };
        check(&in_place, "/e/w/mykeys", "/e/w/bar:ysfoo");
        let replaced = KeyChange { replaced: Some((*b"foo.").into()), ..change(None, "bar.", "moot") };
        check(&replaced, "/j/l/baz.sup", "/j/l/bar.baz.supmoot");
    }

    #[test]
    fn a_key_in_base64_gets_no_routing_prefix() {
        let key = RoutedKey { full: b"k", prefix_len: 0, routing_len: 1 };
        assert_eq!(change(Some("/a/b/"), "", "").apply(&key, true), None);
        assert_eq!(change(Some("/a/b/"), "x", "").apply(&key, true), Some(b"xk".to_vec()));
    }

    #[test]
    fn zero_is_never_so_any_limit_is_sooner() {
        assert_eq!(ExptimeChange::AtMost(60).apply(0), Some(60));
        assert_eq!(ExptimeChange::AtMost(60).apply(61), Some(60));
        assert_eq!(ExptimeChange::AtMost(60).apply(60), None);
        assert_eq!(ExptimeChange::AtMost(60).apply(-1), None);
        assert_eq!(ExptimeChange::AtMost(-1).apply(5), Some(-1));
        assert_eq!(ExptimeChange::Set(0).apply(5), Some(0));
    }
}
