//! The catalogue: shapes of hosts with the origin of every figure.
//!
//! The built-in one was written by [`crate::import`] from files of others and by hand from pages of vendors; people put a file of
//! their own over it. A figure that no source has is absent, which means unknown. Nothing here reads a file or guesses a figure.

use std::collections::BTreeMap;
use std::fmt;

use fleet::advise::HostShape;

pub use error::CatalogueError;
pub use sources::{FigureSource, ShapeFigure};

pub(crate) mod check;
pub(crate) mod entry;
mod error;
pub(crate) mod read;
mod sources;
mod write;

/// Longest catalogue in bytes: 20,000 shapes of 800 bytes, ten times what any cloud has.
pub const CATALOGUE_LEN_MAX: usize = 16 * 1024 * 1024;
/// Most shapes of a catalogue. All shapes of three large clouds are some 4,000.
pub const SHAPES_MAX: usize = 20_000;
/// Most sources of a catalogue.
pub const SOURCES_MAX: usize = 1_000;
/// Most prices of a shape: a cloud has some 40 regions.
pub const PRICES_MAX: usize = 200;
/// What stands before the words of a person who measured a figure, in place of the key of a source.
pub(crate) const MEASURED: &str = "measured: ";

/// Shapes, and where their figures come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    pub(crate) sources: BTreeMap<String, FigureSource>,
    pub(crate) shapes: Vec<CatalogueShape>,
}

/// One shape with the origins of its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueShape {
    /// What advice is computed from.
    pub shape: HostShape,
    pub(crate) origins: BTreeMap<ShapeFigure, String>,
    /// Of each price, in their order.
    pub(crate) price_origins: Vec<String>,
}

/// What a user's own catalogue has done to a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFigures {
    /// The shape.
    pub name: String,
    /// The figures that now are the user's; all of a new shape.
    pub figures: Vec<ShapeFigure>,
    /// Regions whose price is the user's.
    pub regions: Vec<String>,
    /// The shape was not there before.
    pub is_new: bool,
}

impl Catalogue {
    /// The catalogue that is part of the program.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn built_in() -> Catalogue {
        Catalogue::parse(include_str!("../catalogue.toml")).expect("a test reads it")
    }

    /// Reads a catalogue.
    ///
    /// # Errors
    /// What was found and what is accepted, with the line or the shape.
    pub fn parse(text: &str) -> Result<Catalogue, CatalogueError> {
        let mut catalogue = Catalogue::default();
        catalogue.put(text)?;
        Ok(catalogue)
    }

    /// Puts a user's own catalogue over this one, and returns what it has changed. A shape of the same name replaces the figures
    /// that it names and keeps the others. After an error the catalogue is as before.
    ///
    /// # Errors
    /// As [`Catalogue::parse`].
    pub fn put(&mut self, text: &str) -> Result<Vec<OwnFigures>, CatalogueError> {
        let (catalogue, changes) = read::put_over(self, text)?;
        *self = catalogue;
        Ok(changes)
    }

    /// All shapes, in the order of the files.
    pub fn shapes(&self) -> impl ExactSizeIterator<Item = &CatalogueShape> {
        self.shapes.iter()
    }

    /// A shape by its name.
    pub fn shape(&self, name: &str) -> Option<&CatalogueShape> {
        self.shapes.iter().find(|shape| shape.shape.name == name)
    }

    /// The source of a key that [`CatalogueShape::origin`] returns; none for what was measured.
    pub fn source(&self, key: &str) -> Option<&FigureSource> {
        self.sources.get(key)
    }

    /// The catalogue as a file, which [`Catalogue::parse`] reads as the same.
    pub fn to_toml(&self) -> String {
        write::to_toml(self)
    }
}

impl CatalogueShape {
    /// Where a figure comes from: the key of a source, or `measured: ` with who measured it and when. None if it is unknown.
    pub fn origin(&self, figure: ShapeFigure) -> Option<&str> {
        self.origins.get(&figure).map(String::as_str)
    }

    /// Where the price in a region comes from.
    pub fn price_origin(&self, region: &str) -> Option<&str> {
        let index = self.shape.prices.iter().position(|price| price.region == region)?;
        Some(&self.price_origins[index])
    }

    /// The figures that nobody knows.
    pub fn unknown(&self) -> impl Iterator<Item = ShapeFigure> {
        ShapeFigure::ALL.into_iter().filter(|figure| !self.origins.contains_key(figure))
    }
}

impl fmt::Display for OwnFigures {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_new {
            return write!(to, "{} is new", self.name);
        }
        let names = self.figures.iter().map(|figure| figure.as_str().to_owned());
        let prices = self.regions.iter().map(|region| format!("the price in {region}"));
        let all: Vec<String> = names.chain(prices).collect();
        match all.is_empty() {
            true => write!(to, "{} keeps all figures", self.name),
            false => write!(to, "{}: {} replaced, the other figures are kept", self.name, all.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests;
