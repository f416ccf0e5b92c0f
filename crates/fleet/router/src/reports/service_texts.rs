//! Texts about the configuration in force that are the same for all who ask: made once, and held.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::plan::RoutePlan;

/// The longest text about a whole configuration.
const WHOLE_TEXT_MAX: usize = 16 << 20;

/// Texts about the configuration in force.
#[derive(Debug, Default)]
pub(crate) struct ServiceTexts(Mutex<Texts>);

#[derive(Debug, Default)]
struct Texts {
    generation: u64,
    by_name: HashMap<&'static str, Arc<[u8]>>,
}

impl ServiceTexts {
    /// A text of this plan: one that is there, or a new one.
    pub(crate) fn get(
        &self,
        plan: &RoutePlan,
        name: &'static str,
        make: impl FnOnce() -> Result<String, String>,
    ) -> Result<Arc<[u8]>, String> {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.generation != plan.generation {
            *texts = Texts { generation: plan.generation, by_name: HashMap::new() };
        }
        if let Some(text) = texts.by_name.get(name) {
            return Ok(Arc::clone(text));
        }
        let text = make()?;
        if text.len() > WHOLE_TEXT_MAX {
            return Err(format!("expected at most {WHOLE_TEXT_MAX} bytes, found {}", text.len()));
        }
        let text: Arc<[u8]> = Arc::from(text.into_bytes());
        texts.by_name.insert(name, Arc::clone(&text));
        Ok(text)
    }
}
