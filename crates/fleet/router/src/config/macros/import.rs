//! `@import(path, default)`: other texts, each read once.

use super::budget::IMPORTED_LEN_MAX;
use super::scope::Scope;
use super::{Args, Expander};
use crate::config::error::{ConfigError, Location};
use crate::config::json::{Json, parse};
use std::rc::Rc;

impl Expander<'_> {
    /// Whatever goes wrong inside an import, its default takes its place, if it has one.
    pub(in crate::config) fn import(&mut self, args: &mut Args<'_>) -> Result<Rc<Json>, ConfigError> {
        let path = args.value(self, "path")?;
        let path = path.string("the path of an import")?;
        if let Some(done) = self.imports.done.get(path) {
            return Ok(Rc::clone(done));
        }
        let imported = match self.import_path(path, args.place) {
            Ok(imported) => imported,
            Err(error) => match args.optional(self, "default")? {
                Some(default) => default,
                None => return Err(error.inside(format!("import `{path:.80}`"), args.place)),
            },
        };
        self.imports.done.insert(path.to_owned(), Rc::clone(&imported));
        Ok(imported)
    }

    fn import_path(&mut self, path: &str, place: Location) -> Result<Rc<Json>, ConfigError> {
        if self.imports.open.iter().any(|open| open == path) {
            return Err(ConfigError::new(place, format!("import `{path:.80}` imports itself")));
        }
        let text = (self.environment.importer)(path).map_err(|reason| ConfigError::new(place, reason))?;
        self.imports.len += text.len();
        if self.imports.len > IMPORTED_LEN_MAX {
            let found = format!("{} bytes", self.imports.len);
            return Err(ConfigError::expected(
                place,
                format_args!("at most {IMPORTED_LEN_MAX} bytes of imports"),
                found,
            ));
        }
        let source = self.sources.add(path);
        let json = parse(source, &text)?;
        self.imports.open.push(path.to_owned());
        let value = self.value(&json, &Scope::root());
        self.imports.open.pop();
        value
    }
}
