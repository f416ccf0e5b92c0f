//! The record of an upgrade that has begun, in an annotation of its pod.
//!
//! It is written by the same patch that changes the image, and removed when the server has its items back. So whoever goes on knows
//! what there was before, whatever has happened to the one who began.

use serde_json::{Value, json};

/// The annotation. Without it, nothing has begun.
pub(crate) const ANNOTATION: &str = "evenkeel/warm-upgrade";

/// What was so when a container was given its image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpgradeRecord {
    /// The name of the image that it was given.
    pub(crate) image: String,
    /// The container before; the new one has another name. `None`: there was none.
    pub(crate) container: Option<String>,
    /// Items of the server before. `None`: none served, so nobody knows.
    pub(crate) items: Option<u64>,
    /// How often it was restarted for its flags, this time included.
    pub(crate) restarts: u64,
    /// SHA-256 of the flags that lay in the pod when it was given its image. `None`: no server ran that could say.
    pub(crate) flags: Option<String>,
}

impl UpgradeRecord {
    /// The text of an annotation; `None` if it is no record.
    pub(crate) fn parse(text: &str) -> Option<UpgradeRecord> {
        let record: Value = serde_json::from_str(text).ok()?;
        let container = match &record["container"] {
            Value::Null => None,
            value => Some(value.as_str()?.to_owned()),
        };
        let items = match &record["items"] {
            Value::Null => None,
            value => Some(value.as_u64()?),
        };
        let flags = match &record["flags"] {
            Value::Null => None,
            value => Some(value.as_str()?.to_owned()),
        };
        let image = record["image"].as_str()?.to_owned();
        Some(UpgradeRecord { image, container, items, restarts: record["restarts"].as_u64()?, flags })
    }

    /// The same as text.
    pub(crate) fn text(&self) -> String {
        let UpgradeRecord { image, container, items, restarts, flags } = self;
        json!({ "image": image, "container": container, "items": items, "restarts": restarts, "flags": flags })
            .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for (container, items) in [(Some("containerd://a".to_owned()), Some(0)), (None, None)] {
            let flags = container.as_ref().map(|_| "f1".to_owned());
            let record =
                UpgradeRecord { image: "evenkeel:1".to_owned(), container, items, restarts: 2, flags };
            assert_eq!(UpgradeRecord::parse(&record.text()), Some(record));
        }
        for wrong in
            ["", "{}", "[1]", r#"{"image":1,"restarts":0}"#, r#"{"image":"a","items":-1,"restarts":0}"#]
        {
            assert_eq!(UpgradeRecord::parse(wrong), None, "{wrong}");
        }
    }
}
