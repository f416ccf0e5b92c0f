//! The catalogue: shapes of hosts with the origin of every figure.
//!
//! The built-in one was written by [`crate::import`] from files of others and by hand from pages of vendors; people put a file of
//! their own over it. A figure that no source has is absent, which means unknown. Nothing here reads a file or guesses a figure.

pub use error::{CATALOGUE_LEN_MAX, CatalogueError, PRICES_MAX, SHAPES_MAX, SOURCES_MAX};
pub use shapes::{Catalogue, CatalogueShape, OwnFigures};
pub use sources::{FigureSource, ShapeFigure};

pub(crate) mod check;
pub(crate) mod entry;
mod error;
pub(crate) mod read;
mod shapes;
mod sources;
mod write;

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

    /// The catalogue as a file, which [`Catalogue::parse`] reads as the same.
    pub fn to_toml(&self) -> String {
        write::to_toml(self)
    }
}

#[cfg(test)]
mod tests;
