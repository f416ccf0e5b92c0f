//! A server's page `/api/v1/stats`: its items, and the flags that it has read.

use serde_json::Value;

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerFacts {
    /// Items that it has.
    pub(crate) items: u64,
    /// Items that it had when it started.
    pub(crate) restored: Restored,
    /// The file of its flags, if it has one and says so.
    pub(crate) flags: Option<FlagSums>,
}

/// Items of the server before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restored {
    /// So many.
    Items(u64),
    /// Its memory ends with the process, so it can have none, and leaves none.
    Never,
    /// It does not say, as another version may not.
    Unknown,
}

/// SHA-256 of a file of flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlagSums {
    /// As it was at the start.
    pub(crate) read: String,
    /// As it is now; `None` if it cannot be read.
    pub(crate) now: Option<String>,
}

impl ServerFacts {
    /// Reads the page; the error says what is wrong with it.
    pub(crate) fn read(page: &[u8]) -> Result<ServerFacts, String> {
        let page: Value = serde_json::from_slice(page).map_err(|_| "expected JSON, found something else")?;
        let items = page.pointer("/stats/curr_items").and_then(Value::as_u64);
        let items = items.ok_or("expected a number at stats.curr_items, found none")?;
        let restored = match page.get("restored_items") {
            None => Restored::Unknown,
            Some(Value::Null) => Restored::Never,
            Some(value) => Restored::Items(
                value.as_u64().ok_or("expected a number at restored_items, found something else")?,
            ),
        };
        // Of several files, no checksum of the chart's is theirs.
        let flags = match page.get("flag_files").and_then(Value::as_array).map(Vec::as_slice) {
            Some([file]) => {
                let sum = |key: &str| file.get(key).and_then(Value::as_str).map(str::to_owned);
                sum("sha256").map(|read| FlagSums { read, now: sum("sha256_now") })
            }
            _ => None,
        };
        Ok(ServerFacts { items, restored, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items, those restored, and the checksums of flags.
    type Expected<'e> = (u64, Restored, Option<(&'e str, Option<&'e str>)>);

    #[track_caller]
    fn check(page: &str, expected: Result<Expected<'_>, &str>) {
        let found = ServerFacts::read(page.as_bytes());
        let expected = expected.map_err(str::to_owned).map(|(items, restored, flags)| {
            let flags =
                flags.map(|(read, now)| FlagSums { read: read.to_owned(), now: now.map(str::to_owned) });
            ServerFacts { items, restored, flags }
        });
        assert_eq!(found, expected, "{page}");
    }

    #[test]
    fn what_a_server_does_not_say_is_not_zero() {
        let stats = r#""stats":{"curr_items":7}"#;
        check(&format!("{{{stats}}}"), Ok((7, Restored::Unknown, None)));
        check(&format!(r#"{{{stats},"restored_items":null}}"#), Ok((7, Restored::Never, None)));
        check(&format!(r#"{{{stats},"restored_items":0}}"#), Ok((7, Restored::Items(0), None)));
        let wrong = "expected a number at restored_items, found something else";
        check(&format!(r#"{{{stats},"restored_items":-1}}"#), Err(wrong));
        check(r#"{"stats":{}}"#, Err("expected a number at stats.curr_items, found none"));
        check("memcached_up 1", Err("expected JSON, found something else"));
        let file = r#""flag_files":[{"path":"/f","sha256":"a","sha256_now":null}]"#;
        check(&format!("{{{stats},{file}}}"), Ok((7, Restored::Unknown, Some(("a", None)))));
        let two = r#""flag_files":[{"sha256":"a","sha256_now":"b"},{"sha256":"a","sha256_now":"b"}]"#;
        check(&format!("{{{stats},{two}}}"), Ok((7, Restored::Unknown, None)));
    }
}
