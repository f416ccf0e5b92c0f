//! Names that are visible at a point of the expansion: parameters of a macro, `vars` of an object, items of a loop.

use crate::config::error::{ConfigError, Location};
use crate::config::json::Json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Variables, and the scope around them.
pub(in crate::config) struct Scope<'s> {
    outer: Option<&'s Scope<'s>>,
    variables: RefCell<HashMap<String, Variable>>,
}

/// A variable's value.
pub(in crate::config) enum Variable {
    /// Written down, and not expanded yet: it may use variables beside it.
    Lazy(Json),
    /// Being expanded: who asks for it now stands in a circle.
    Expanding(Location),
    /// Expanded.
    Ready(Rc<Json>),
}

impl<'s> Scope<'s> {
    /// Outside of everything, and the body of a macro: it sees its parameters and constants only.
    pub(in crate::config) fn root() -> Scope<'s> {
        Scope { outer: None, variables: RefCell::default() }
    }

    /// Sees all that `outer` sees.
    pub(in crate::config) fn inside(outer: &'s Scope<'s>) -> Scope<'s> {
        Scope { outer: Some(outer), variables: RefCell::default() }
    }

    /// A new name of this scope.
    pub(in crate::config) fn add(
        &self,
        name: &str,
        variable: Variable,
        place: Location,
    ) -> Result<(), ConfigError> {
        if self.variables.borrow_mut().insert(name.to_owned(), variable).is_some() {
            return Err(ConfigError::new(
                place,
                format!("expected different names, found `{name:.80}` twice"),
            ));
        }
        Ok(())
    }

    /// A new value for a name of this scope.
    pub(in crate::config) fn set(&self, name: &str, value: Variable) {
        if let Some(variable) = self.variables.borrow_mut().get_mut(name) {
            *variable = value;
        }
    }

    pub(in crate::config) fn contains(&self, name: &str) -> bool {
        self.owner(name).is_some()
    }

    /// A variable, and the scope that has it. One that was not expanded is marked: the caller expands it.
    pub(super) fn start(&self, name: &str) -> Option<(&Scope<'s>, Variable)> {
        let owner = self.owner(name)?;
        let mut variables = owner.variables.borrow_mut();
        let variable = variables.get_mut(name)?;
        let started = match variable {
            Variable::Ready(value) => Variable::Ready(Rc::clone(value)),
            Variable::Expanding(place) => Variable::Expanding(*place),
            Variable::Lazy(json) => {
                let place = json.place;
                std::mem::replace(variable, Variable::Expanding(place))
            }
        };
        Some((owner, started))
    }

    fn owner(&self, name: &str) -> Option<&Scope<'s>> {
        let mut scope = self;
        while !scope.variables.borrow().contains_key(name) {
            scope = scope.outer?;
        }
        Some(scope)
    }
}
