//! Types of routes as a configuration has them: what a type has to say, and what it may ask of the compiler.
//!
//! mcrouter's forms: an object with a `type`, a name of a handle that was named before, or the short form
//! `Type|argument`. What stands for several children may be a list, or any form that makes several, as `Pool|A` does.

use std::sync::Arc;

use crate::config::error::ConfigError;
use crate::config::json::{Json, Object};
use crate::plan::plain_route::PlainRoute;
use crate::plan::{LogId, NodeId};
use crate::routes::steps::pool::Pool;
use crate::shared::route_state::{StateId, StateSpec};
use crate::shared::variables::RuntimeVariable;
use crate::stats::shadow_counts::ShadowCounts;

/// The name of an object's kind, and its fields.
pub type Fields = (&'static str, &'static [&'static str]);

/// A type of route that a configuration may name.
pub trait RouteForm<C: Compile> {
    /// mcrouter's name of it, and its fields, so that a typing error is seen. Those that mcrouter knows and that have no
    /// effect here are among them.
    const FORM: Fields;

    /// Whether there is the short form.
    const HAS_SHORT_FORM: bool = true;

    /// Another name.
    const OTHER_NAME: Option<&'static str> = None;

    /// The routes that it stands for.
    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError>;
}

/// The argument of a route type: an object, or what follows the `|` of a short form.
#[derive(Clone, Copy)]
pub enum RouteDefinition<'a> {
    /// An object with these fields.
    Object(&'a Json),
    /// The text behind the `|`.
    Text(&'a Json),
    /// The name of the type, and nothing behind it.
    Nothing(&'a Json),
}

impl<'a> RouteDefinition<'a> {
    /// What an error is about: the object, or the text.
    pub fn json(self) -> &'a Json {
        match self {
            RouteDefinition::Object(json) | RouteDefinition::Text(json) | RouteDefinition::Nothing(json) => {
                json
            }
        }
    }

    /// The object, unless it is a short form.
    pub(crate) fn object(self) -> Result<Option<Object<'a>>, ConfigError> {
        match self {
            RouteDefinition::Object(json) => json.object("a route").map(Some),
            RouteDefinition::Text(_) | RouteDefinition::Nothing(_) => Ok(None),
        }
    }

    /// The children of a route: its field `children`, or the argument of a short form.
    fn children(self) -> Result<Option<&'a Json>, ConfigError> {
        match self {
            RouteDefinition::Object(json) => json.object("a route")?.require("children").map(Some),
            RouteDefinition::Text(json) => Ok(Some(json)),
            RouteDefinition::Nothing(_) => Ok(None),
        }
    }
}

/// The most children of one route.
const CHILDREN_MAX: usize = 10_000;

/// What a type of route may ask of the compiler.
#[allow(private_interfaces, reason = "public for the examples of what does not compile")]
pub trait Compile: Sized {
    /// One route.
    fn single(&mut self, json: &Json) -> Result<NodeId, ConfigError>;

    /// Any number of routes.
    fn list(&mut self, json: &Json) -> Result<Vec<NodeId>, ConfigError>;

    /// Adds a route that chooses one child, or is the end of the way. For others, there is [`AddRoute`].
    fn add_plain(&mut self, route: PlainRoute, json: &Json) -> Result<NodeId, ConfigError>;

    /// A place for what a route remembers.
    fn add_state(&mut self, spec: StateSpec) -> StateId;

    /// Something that depends on a runtime variable. Takes the value that the variable has now.
    fn add_variable(&mut self, variable: RuntimeVariable) -> Result<(), String>;

    /// Counts of a shadow that is compared, if shadows are, and there is room for more.
    fn add_shadow_counts(&mut self, json: &Json, name: Option<&str>) -> Option<Arc<ShadowCounts>>;

    /// The log of this name for deletes that fail, if there are logs, and there is room for more.
    fn add_log(&mut self, name: &str) -> Option<LogId>;

    /// A line for the operator. There are at most so many, so that a large configuration does not fill a log.
    fn note(&mut self, line: String);

    /// Notes the fields of an object that this kind does not have.
    fn note_unknown(&mut self, object: &Object<'_>, fields: Fields);

    /// Identifies this host, for routes that choose by it.
    fn host_id(&self) -> u32;

    /// Threads, each of which has connections of its own.
    fn workers(&self) -> usize;

    /// Compiles something that may be wrong. What that leaves behind does not disturb other routes.
    fn attempt<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError>;

    /// The pool that a name or an object stands for.
    fn with_pool<T>(
        &mut self,
        json: &Json,
        then: impl FnOnce(&mut Self, &Pool<'_>) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError>;

    /// The servers of a pool, with what it has in front of them.
    fn servers_of(&mut self, pool: &Pool<'_>, json: &Json) -> Result<Vec<NodeId>, ConfigError>;

    /// The field `children`, or the argument of a short form.
    fn children(&mut self, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let list = match definition.children()? {
            Some(list) => self.list(list)?,
            None => Vec::new(),
        };
        if list.len() > CHILDREN_MAX {
            let found = list.len();
            let message = format!("expected at most {CHILDREN_MAX} children of a route, found {found}");
            return Err(definition.json().error(message));
        }
        Ok(list)
    }

    /// The route of a field that may be missing: then there is no item.
    fn single_or_null(&mut self, route: Option<&Json>, json: &Json) -> Result<NodeId, ConfigError> {
        match route {
            Some(route) => self.single(route),
            None => self.add_plain(PlainRoute::Null, json),
        }
    }

    /// Without a child: no item. With one: that one.
    fn few(&mut self, children: Vec<NodeId>, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        match children[..] {
            [only] => Ok(vec![only]),
            _ => Ok(vec![self.add_plain(PlainRoute::Null, json)?]),
        }
    }
}

/// A compiler that has routes of this type.
pub(crate) trait AddRoute<R>: Compile {
    /// Adds a route over these children, of which there is at least one.
    fn add_route(&mut self, route: R, children: Vec<NodeId>, json: &Json) -> Result<NodeId, ConfigError>;

    /// A route that only makes sense for several children.
    fn add_over_several(
        &mut self,
        route: R,
        definition: RouteDefinition<'_>,
    ) -> Result<Vec<NodeId>, ConfigError> {
        let children = self.children(definition)?;
        if children.len() < 2 {
            return self.few(children, definition.json());
        }
        Ok(vec![self.add_route(route, children, definition.json())?])
    }
}

/// Parameters that change what a route does, and that are not there: an error rather than another behaviour.
pub(crate) fn refuse(object: &Object<'_>, names: &[&str]) -> Result<(), ConfigError> {
    match names.iter().find_map(|name| object.get(name).map(|value| (name, value))) {
        Some((name, value)) => Err(value.error(format!("`{name}` is not supported"))),
        None => Ok(()),
    }
}

/// `weights`
pub(crate) fn numbers(json: &Json) -> Result<Vec<f64>, ConfigError> {
    json.array("`weights`")?.iter().map(|weight| weight.number("a weight", 0.0..=f64::INFINITY)).collect()
}

/// `tags`
pub(crate) fn texts(json: &Json) -> Result<Vec<&str>, ConfigError> {
    json.array("`tags`")?.iter().map(|tag| tag.string("a tag")).collect()
}
