//! Answers that are not etcd's: pages of a proxy, or of whatever has the port that was named.
//!
//! Every answer of the gateway, and every message of its streams, is a JSON object. What begins otherwise is none of them,
//! whatever its status is.

use hyper::StatusCode;

/// Characters of such an answer in a message.
const SHOWN_MAX: usize = 60;

/// Whether an answer, or its beginning, is that of something else. None of nothing: more may come.
pub(super) fn is_foreign(beginning: &[u8]) -> bool {
    beginning.trim_ascii_start().first().is_some_and(|byte| *byte != b'{')
}

/// What was found in the place of an etcd.
pub(super) fn describe(url: &str, status: StatusCode, answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let shown: String = text.trim().chars().take(SHOWN_MAX).collect();
    let found = match &*shown {
        "" => "nothing".to_owned(),
        shown => format!("{shown:?}"),
    };
    format!(
        "{url} says {status} and {found}, where etcd says a JSON object\n  hint: is it the client port of an etcd?"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_begins_as_an_object_is_of_etcd() {
        for foreign in ["<html>", " \r\n<!DOCTYPE html>", "[]", "null", "ok", "\u{feff}{}"] {
            assert!(is_foreign(foreign.as_bytes()), "{foreign:?}");
        }
        for open in ["", " \n", "{", "\n{\"header\""] {
            assert!(!is_foreign(open.as_bytes()), "{open:?}");
        }
        assert!(is_foreign(&[0xff, 0xfe]));
    }

    #[test]
    fn a_page_is_shown_in_part_and_an_empty_one_is_told() {
        let url = "http://h:1/v3/kv/range";
        let page = format!("\n<html>{}", "x".repeat(1 << 20));
        let said = describe(url, StatusCode::OK, page.as_bytes());
        assert!(
            said.starts_with("http://h:1/v3/kv/range says 200 OK and \"<html>xxx") && said.len() < 250,
            "{said}"
        );
        let said = describe(url, StatusCode::NOT_FOUND, b" \n");
        assert!(said.contains("says 404 Not Found and nothing, where"), "{said}");
    }
}
