//! Reasons to refuse a catalogue.

/// Longest catalogue in bytes: 20,000 shapes of 800 bytes, ten times what any cloud has.
pub const CATALOGUE_LEN_MAX: usize = 16 * 1024 * 1024;
/// Most shapes of a catalogue. All shapes of three large clouds are some 4,000.
pub const SHAPES_MAX: usize = 20_000;
/// Most sources of a catalogue.
pub const SOURCES_MAX: usize = 1_000;
/// Most prices of a shape: a cloud has some 40 regions.
pub const PRICES_MAX: usize = 200;

/// Why a catalogue cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Longer than any.
    #[error("the catalogue has {0} bytes, and at most {CATALOGUE_LEN_MAX} are accepted")]
    TooLong(usize),
    /// Not TOML, or a key that there is not.
    #[error("understand the catalogue: {0}")]
    Toml(String),
    /// More shapes than a catalogue may have.
    #[error("the catalogue has {0} shapes, and at most {SHAPES_MAX} are accepted")]
    TooManyShapes(usize),
    /// More sources than a catalogue may have.
    #[error("the catalogue has {0} sources, and at most {SOURCES_MAX} are accepted")]
    TooManySources(usize),
    /// A name that cannot be one.
    #[error("{what}: expected 1 to 64 letters, digits, `.`, `-` or `_`, found {found:?}")]
    Name {
        /// Whose.
        what: &'static str,
        /// What it is, cut.
        found: String,
    },
    /// Two shapes of one name in one file.
    #[error("the shape {0} is there twice")]
    Twice(String),
    /// A source that says nothing.
    #[error(
        "the source {0}: expected `what` with 1 to 500 characters, the package or page that the figures are from"
    )]
    EmptySource(String),
    /// A source that means something else in the catalogue below.
    #[error(
        "the source {0} is there already with other words\n  hint: give yours another key, such as \"own-{0}\""
    )]
    SourceTwice(String),
    /// A shape that cannot be used.
    #[error("the shape {shape}: {error}")]
    Shape {
        /// Which.
        shape: String,
        /// What was found and what is accepted.
        error: String,
    },
}

/// What was wrong with a shape: half a sentence behind its name.
pub(crate) type Wrong = String;

/// More prices than a shape may have.
pub(crate) fn too_many_prices(count: usize) -> Wrong {
    format!("has {count} prices, and at most {PRICES_MAX} are accepted")
}

/// A text of a user's in a message, at most 40 characters of it.
pub(crate) fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(40).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}
