//! Configuration: JSON with comments and macros, as mcrouter reads it.
//!
//! ```text
//!  text ──► json::parse ──► Json ──► expand_config ──► Json ──► what reads it: pools, routes
//!                           every value with its file and line
//! ```
//!
//! No file is opened here: text and imports come from whoever asks.

mod builtins;
pub mod error;
mod expand;
pub mod globals;
pub mod json;
pub mod macros;
pub mod routes;

pub use error::{ConfigError, Location, Sources};
pub use expand::{Expanded, expand_config};
pub use globals::{GlobalParams, config_params};
pub use json::{Json, JsonValue, Object};
pub use macros::Environment;
pub use routes::{CompileOptions, DictionaryFiles, compile, dictionary_files};
