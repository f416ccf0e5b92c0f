//! An entry of the table.

use ::flags::{Effect, Kind, Set};

use super::options::RouteOptions;

/// One flag.
pub type RouteFlag = ::flags::Flag<RouteOptions>;

/// A switch that works; [`RouteFlag::takes`] gives it a value.
pub(super) const fn flag(
    short: Option<char>,
    name: &'static str,
    doc: &'static str,
    details: &'static str,
    set: Set<RouteOptions>,
) -> RouteFlag {
    let (value, kind) = ("", Kind::Switch);
    RouteFlag { short, name, value, kind, default: None, doc, details, effect: Effect::Works, set }
}
