//! Shapes with the origins of their figures, and what a file has changed of them.

use std::collections::BTreeMap;
use std::fmt;

use fleet::advise::HostShape;

use super::sources::{FigureSource, ShapeFigure};

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
            false => write!(to, "{} takes {} and keeps its other figures", self.name, all.join(", ")),
        }
    }
}
