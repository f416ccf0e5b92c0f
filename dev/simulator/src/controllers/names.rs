//! Names in the simulated fleet.

use fleet::ViewName;

/// The only view.
pub(super) fn view_name() -> ViewName {
    "main".parse().expect("a name")
}

/// A text that is a name.
pub(super) fn name<T: std::str::FromStr<Err = fleet::NameError>>(text: String) -> T {
    text.parse().expect("a name")
}
