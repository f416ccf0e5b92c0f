//! From the text of a configuration to one without macros.

#[cfg(test)]
mod tests;

use super::builtins;
use super::error::{ConfigError, Sources};
use super::json::{Json, parse};
use super::macros::{BuiltIn, Environment, Expander};

/// A configuration without macros.
#[derive(Debug)]
pub struct Expanded {
    /// An object.
    pub root: Json,
    /// The configuration, and all that it imported.
    pub sources: Sources,
}

/// Reads a configuration and expands it. `name` is its name in errors.
pub fn expand_config(name: &str, text: &[u8], environment: Environment<'_>) -> Result<Expanded, ConfigError> {
    let built_in = BuiltIn { macros: builtins::macros(), loops: builtins::loops };
    let mut expander = Expander::new(environment, built_in);
    let source = expander.sources.add(name);
    let outcome = parse(source, text).and_then(|json| expander.config(&json));
    match outcome {
        Ok(root) => Ok(Expanded { root, sources: expander.sources }),
        Err(error) => Err(error.located(&expander.sources)),
    }
}
