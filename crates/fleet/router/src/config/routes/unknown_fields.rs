//! Lines about fields of a configuration that have no effect.

use flags::nearest;

use super::Compiler;
use super::vocabulary::Fields;
use crate::config::json::Object;

impl Compiler<'_, '_> {
    /// Notes fields that an object of this kind does not have.
    pub(super) fn note_unknown(&mut self, object: &Object<'_>, (kind, fields): Fields) {
        self.note_others(object, kind, fields);
    }

    /// Notes the fields of an object that this kind does not have.
    pub(super) fn note_others(&mut self, object: &Object<'_>, kind: &str, fields: &[&'static str]) {
        for (name, json) in object.entries().iter().filter(|(name, _)| !fields.contains(&name.as_str())) {
            let meant = nearest(name, fields.iter().copied());
            let meant = meant.map(|meant| format!(", `{meant}` is")).unwrap_or_default();
            self.note(format!(
                "line {}: `{name}` is not known in {kind}{meant}: it has no effect",
                json.place.line
            ));
        }
    }
}
