//! A catalogue from files of others: figures of shapes, their bandwidths and their prices.
//!
//! ```text
//!   moto's instance types ──► shapes ─┐
//!   a table of Azure's    ──► shapes ─┤
//!   prices of GCE         ──► shapes ─┼─► the families that are asked for ─► a hand-written file over them ─► catalogue
//!   karpenter's prices    ──► figures ┤
//!   karpenter's bandwidth ──► figures ┘
//! ```
//!
//! Files are given, never fetched. What a file does not say stays unknown: no file has packets per second, IOPS or latencies of
//! local disks, or limits of connections.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::catalogue::entry::CatalogueFile;
use crate::catalogue::{Catalogue, CatalogueError, read};
use families::Families;
pub use families::FamiliesError;
use source::FoundShapes;
pub use source::{SOURCE_LEN_MAX, SourceError};

mod azure;
mod families;
mod gce;
mod go;
mod karpenter;
mod moto;
mod source;

/// Which files to read, and what of them.
#[derive(Clone, Debug, Default)]
pub struct ImportRequest {
    /// moto's instance types, as JSON or gzip of it.
    pub moto: Option<SourceFile>,
    /// karpenter's prices of AWS.
    pub karpenter_prices: Option<SourceFile>,
    /// karpenter's bandwidths of AWS.
    pub karpenter_bandwidth: Option<SourceFile>,
    /// The table of Azure's sizes of Kubernetes' autoscaler.
    pub azure: Option<SourceFile>,
    /// The prices of GCE of Kubernetes' autoscaler.
    pub gce_prices: Option<SourceFile>,
    /// The region whose prices are taken from `karpenter_prices`.
    pub region: String,
    /// The region that `gce_prices` are of: the file does not say it.
    pub gce_region: String,
    /// The day of `gce_prices`: the file does not say it.
    pub gce_date: String,
    /// Families, each with some of its sizes or all: `r5,r6i=large+xlarge`. All shapes if it is empty.
    pub families: String,
    /// Catalogues that are put over the result, in their order.
    pub over: Vec<PathBuf>,
}

/// A file with the version of the package that it is from.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Where it is.
    pub path: PathBuf,
    /// As people name it: `5.2.5`, or a commit.
    pub version: String,
}

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The shapes.
    pub catalogue: Catalogue,
    /// What was left out, and where two sources differ: a line each.
    pub notes: Vec<String>,
}

/// Why a catalogue cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No file.
    #[error("expected a file with shapes, found none\n  hint: --moto, --azure or --gce-prices")]
    NoShapes,
    /// A file that cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that says something else than expected.
    #[error("understand {}", path.display())]
    Source {
        /// Which.
        path: PathBuf,
        /// What was found and what is accepted.
        source: SourceError,
    },
    /// Families that cannot be taken.
    #[error(transparent)]
    Families(#[from] FamiliesError),
    /// Figures that no host has.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// A catalogue to put over the result that cannot be used.
    #[error("use {}", path.display())]
    Over {
        /// Which.
        path: PathBuf,
        /// What was found and what is accepted.
        source: CatalogueError,
    },
}

/// Reads the files, and makes a catalogue of what they say.
///
/// # Errors
/// What was found and what is accepted, with the file.
pub fn import(request: &ImportRequest) -> Result<Imported, ImportError> {
    let families = Families::parse(&request.families)?;
    let mut file = CatalogueFile::default();
    let mut notes = Vec::new();
    let found = [
        of_file(&request.moto, moto::read)?,
        of_file(&request.azure, azure::read)?,
        of_file(&request.gce_prices, |bytes, version| {
            gce::read(bytes, version, &request.gce_region, &request.gce_date)
        })?,
    ];
    let mut all = BTreeSet::new();
    for mut found in found.into_iter().flatten() {
        all.extend(found.shapes.iter().filter_map(|shape| shape.family.clone()));
        found.shapes.retain(|shape| families.take(shape));
        // What was left out of families that nobody has asked for is no news.
        notes.extend(found.notes.into_iter().filter(|note| families.concerns(note)));
        file.sources.extend(found.source);
        file.shapes.extend(found.shapes);
    }
    if all.is_empty() {
        return Err(ImportError::NoShapes);
    }
    families.check_all_found(&file.shapes, &all)?;
    if let Some(source) = &request.karpenter_bandwidth {
        let bandwidths = with_file(source, karpenter::bandwidths)?;
        let key = karpenter::BANDWIDTH;
        file.sources.insert(key.into(), karpenter::source(key, &source.version));
        notes.extend(file.shapes.iter_mut().filter_map(|shape| karpenter::put_bandwidth(shape, &bandwidths)));
    }
    if let Some(source) = &request.karpenter_prices {
        let prices = with_file(source, |bytes, _| karpenter::prices(bytes, &request.region))?;
        let key = karpenter::PRICES;
        file.sources.insert(key.into(), karpenter::source(key, &source.version));
        notes.extend(file.shapes.iter_mut().filter_map(|shape| karpenter::put_price(shape, &prices)));
    }
    families.sort(&mut file.shapes);
    let (mut catalogue, _) = read::put_entries(&Catalogue::default(), file)?;
    for path in &request.over {
        let text = text_of(path)?;
        let over = |source| ImportError::Over { path: path.clone(), source };
        let changes = catalogue.put(&text).map_err(over)?;
        notes.extend(changes.iter().map(|change| format!("{}: {change}", path.display())));
    }
    Ok(Imported { catalogue, notes })
}

fn of_file(
    file: &Option<SourceFile>,
    reader: impl Fn(&[u8], &str) -> Result<FoundShapes, SourceError>,
) -> Result<Option<FoundShapes>, ImportError> {
    file.as_ref().map(|file| with_file(file, reader)).transpose()
}

fn with_file<T>(
    file: &SourceFile,
    reader: impl Fn(&[u8], &str) -> Result<T, SourceError>,
) -> Result<T, ImportError> {
    let bytes = bytes_of(&file.path)?;
    reader(&bytes, &file.version).map_err(|source| ImportError::Source { path: file.path.clone(), source })
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, ImportError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(SOURCE_LEN_MAX + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > SOURCE_LEN_MAX {
            true => Err(io::Error::other(format!("expected at most {SOURCE_LEN_MAX} bytes, found more"))),
            false => Ok(bytes),
        }
    };
    read().map_err(|source| ImportError::Read { path: path.to_owned(), source })
}

/// A catalogue of the user's, as text.
///
/// # Errors
/// It cannot be read, is too long, or is no UTF-8.
pub fn text_of(path: &Path) -> Result<String, ImportError> {
    let bytes = bytes_of(path)?;
    String::from_utf8(bytes)
        .map_err(|error| ImportError::Read { path: path.to_owned(), source: io::Error::other(error) })
}

#[cfg(test)]
mod tests;
