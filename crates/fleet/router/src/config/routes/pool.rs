//! A pool as a configuration writes it.

use crate::config::json::{Json, Object};

/// A pool: its fields, those that it inherits last.
#[derive(Clone)]
pub(super) struct Pool<'a> {
    pub(super) name: &'a str,
    pub(super) chain: Vec<Object<'a>>,
}

impl<'a> Pool<'a> {
    pub(super) fn get(&self, field: &str) -> Option<&'a Json> {
        self.chain.iter().find_map(|object| object.get(field))
    }
}
