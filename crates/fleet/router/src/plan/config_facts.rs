//! Facts about the configuration of a plan, for reports.

use crate::config::{Json, JsonValue};

/// What a plan was made from.
#[derive(Clone, Debug)]
pub struct ConfigFacts {
    /// The file; `None` if the configuration was on the command line.
    pub file: Option<String>,
    /// The digest of its text.
    pub md5: String,
    /// Paths and digests of imports, in their order.
    pub imports: Vec<(String, String)>,
    /// The configuration without macros.
    pub expanded: Json,
    /// Constants that it had without defining them.
    pub globals: Vec<(String, JsonValue)>,
}
