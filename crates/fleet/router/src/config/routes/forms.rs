//! Types of routes by their names: the table of all routes, as the compiler uses it.

use super::{Compiler, unknown_fields};
use crate::config::error::ConfigError;
use crate::config::json::Object;
use crate::plan::NodeId;
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};
use crate::routes::route_table;

/// Fields of every route.
const OF_ROUTES: [&str; 2] = ["type", "name"];

/// A type of route that a configuration may name.
struct NamedType<'j, 'o> {
    form: Fields,
    has_short_form: bool,
    other_name: Option<&'static str>,
    compile: fn(&mut Compiler<'j, 'o>, RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError>,
}

impl<'j, 'o> NamedType<'j, 'o> {
    fn of<F: RouteForm<Compiler<'j, 'o>>>() -> NamedType<'j, 'o> {
        NamedType {
            form: F::FORM,
            has_short_form: F::HAS_SHORT_FORM,
            other_name: F::OTHER_NAME,
            compile: F::compile,
        }
    }
}

macro_rules! types {
    (
        routes { $($variant:ident($route:ty),)+ }
        parts { $($part:ident($inner:ty),)+ }
        forms { $($form:ty,)+ }
    ) => {
        /// All types.
        fn types<'j, 'o>() -> impl Iterator<Item = NamedType<'j, 'o>> {
            [$(NamedType::of::<$route>(),)+ $(NamedType::of::<$form>(),)+].into_iter()
        }
    };
}

route_table!(types);

/// The names of all types, in alphabetical order: first those that have a short form.
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = types().map(|found| (!found.has_short_form, found.form.0)).collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name).collect()
}

/// Notes fields of a route that its type does not have.
pub(super) fn note_unknown(compiler: &mut Compiler<'_, '_>, object: &Object<'_>, kind: &str) {
    if let Some(NamedType { form: (name, fields), .. }) = types().find(|found| found.form.0 == kind) {
        let fields = [fields, &OF_ROUTES[..]].concat();
        unknown_fields::lines(object, name, &fields).for_each(|line| compiler.note(line));
    }
}

/// The routes that a type and its argument stand for.
pub(super) fn compile(
    compiler: &mut Compiler<'_, '_>,
    kind: &str,
    definition: RouteDefinition<'_>,
) -> Result<Vec<NodeId>, ConfigError> {
    let object = definition.object()?;
    if let Some(object) = &object {
        note_unknown(compiler, object, kind);
    }
    let found = types().find(|found| found.form.0 == kind || found.other_name == Some(kind));
    let Some(found) = found else {
        let types = names().join(", ");
        let message = format!("expected a named handle or one of {types}, found route `{kind}`");
        return Err(definition.json().error(message));
    };
    if object.is_none() && !found.has_short_form {
        let message = format!("expected an object for {kind}, found its short form");
        return Err(definition.json().error(message));
    }
    (found.compile)(compiler, definition)
}
