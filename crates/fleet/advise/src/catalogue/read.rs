//! Files over a catalogue: the entries of a file become shapes, or replace figures of shapes.

use std::collections::{BTreeMap, HashMap, HashSet};

use fleet::advise::{CpuArchitecture, HostShape, LocalDiskKind, LocalDisks, ShapePrice};

use super::check;
use super::entry::{CatalogueFile, DisksEntry, PriceEntry, ShapeEntry};
use super::error::{CATALOGUE_LEN_MAX, CatalogueError, SHAPES_MAX, SOURCES_MAX, Wrong, cut};
use super::shapes::{Catalogue, CatalogueShape, OwnFigures};
use super::sources::{FigureSource, MEASURED, ShapeFigure};

/// The catalogue with a file over it, and what the file has changed.
pub(crate) fn put_over(
    below: &Catalogue,
    text: &str,
) -> Result<(Catalogue, Vec<OwnFigures>), CatalogueError> {
    if text.len() > CATALOGUE_LEN_MAX {
        return Err(CatalogueError::TooLong(text.len()));
    }
    let file: CatalogueFile =
        toml::from_str(text).map_err(|error| CatalogueError::Toml(explained(&error)))?;
    put_entries(below, file)
}

/// As [`put_over`], of entries that were read.
pub(crate) fn put_entries(
    below: &Catalogue,
    file: CatalogueFile,
) -> Result<(Catalogue, Vec<OwnFigures>), CatalogueError> {
    // Before any of them is looked at.
    if file.shapes.len() > SHAPES_MAX {
        return Err(CatalogueError::TooManyShapes(file.shapes.len()));
    }
    let mut catalogue = below.clone();
    add_sources(&mut catalogue, &file)?;
    let mut places: HashMap<String, usize> =
        catalogue.shapes.iter().enumerate().map(|(at, shape)| (shape.shape.name.clone(), at)).collect();
    let mut seen = HashSet::new();
    let mut changes = Vec::new();
    for entry in &file.shapes {
        check::name("the name of a shape", &entry.name)?;
        if !seen.insert(&entry.name) {
            return Err(CatalogueError::Twice(entry.name.clone()));
        }
        let wrong = |error| CatalogueError::Shape { shape: entry.name.clone(), error };
        let origins = Origins::of(entry, &catalogue.sources).map_err(wrong)?;
        let place = places.get(&entry.name).copied();
        let mut shape = match place {
            Some(place) => catalogue.shapes[place].clone(),
            None => new_shape(entry).map_err(wrong)?,
        };
        changes.push(put_entry(&mut shape, entry, &origins, place.is_none()).map_err(wrong)?);
        check::shape(&shape.shape).map_err(wrong)?;
        match place {
            Some(place) => catalogue.shapes[place] = shape,
            None => {
                places.insert(entry.name.clone(), catalogue.shapes.len());
                catalogue.shapes.push(shape);
            }
        }
    }
    match catalogue.shapes.len() {
        count if count > SHAPES_MAX => Err(CatalogueError::TooManyShapes(count)),
        _ => Ok((catalogue, changes)),
    }
}

/// TOML's words, and for an unknown key the one that was meant.
fn explained(error: &toml::de::Error) -> String {
    let text = error.to_string().trim_end().to_owned();
    // serde's words: "unknown field `x`, expected one of `a`, `b`".
    let mut quoted = error.message().split('`').skip(1).step_by(2);
    let unknown = error.message().starts_with("unknown field").then(|| quoted.next()).flatten();
    match unknown.and_then(|typed| flags::nearest(typed, quoted)) {
        Some(nearest) => format!("{text}\n  hint: did you mean `{nearest}`?"),
        None => text,
    }
}

fn add_sources(catalogue: &mut Catalogue, file: &CatalogueFile) -> Result<(), CatalogueError> {
    for (key, source) in &file.sources {
        check::name("the key of a source", key)?;
        if !(1..=500).contains(&source.what.trim().len()) {
            return Err(CatalogueError::EmptySource(key.clone()));
        }
        if catalogue.sources.get(key).is_some_and(|there| there != source) {
            return Err(CatalogueError::SourceTwice(key.clone()));
        }
        catalogue.sources.insert(key.clone(), source.clone());
    }
    match catalogue.sources.len() {
        count if count > SOURCES_MAX => Err(CatalogueError::TooManySources(count)),
        _ => Ok(()),
    }
}

/// Where the figures of an entry come from.
struct Origins<'s> {
    /// Of all that are not named.
    usual: String,
    single: BTreeMap<ShapeFigure, String>,
    sources: &'s BTreeMap<String, FigureSource>,
}

impl<'s> Origins<'s> {
    fn of(entry: &ShapeEntry, sources: &'s BTreeMap<String, FigureSource>) -> Result<Origins<'s>, Wrong> {
        let usual = match (&entry.source, &entry.measured) {
            (Some(source), None) => source.clone(),
            (None, Some(measured)) => format!("{MEASURED}{measured}"),
            (Some(_), Some(_)) => {
                return Err("has both `source` and `measured`: one of them is accepted".into());
            }
            (None, None) => {
                return Err(
                    "expected `source = \"KEY\"` or `measured = \"by what, and when\"`, found neither".into(),
                );
            }
        };
        let mut origins = Origins { usual: String::new(), single: BTreeMap::new(), sources };
        origins.usual = origins.checked(&usual)?;
        for (key, origin) in &entry.origins {
            let Some(figure) = ShapeFigure::parse(key) else {
                let keys = ShapeFigure::ALL.map(ShapeFigure::as_str);
                let hint = flags::nearest(key, keys).map(|key| format!("\n  hint: did you mean `{key}`?"));
                return Err(format!(
                    "expected a figure in `origins`, found {:?}{}",
                    cut(key),
                    hint.unwrap_or_default()
                ));
            };
            if !entry.has(figure) {
                return Err(format!("names an origin of {key} and not the figure"));
            }
            let origin = origins.checked(origin)?;
            origins.single.insert(figure, origin);
        }
        Ok(origins)
    }

    /// A key of `[sources]`, or `measured: ` with words.
    fn checked(&self, origin: &str) -> Result<String, Wrong> {
        if let Some(words) = origin.strip_prefix(MEASURED) {
            let words = words.trim();
            return match (1..=200).contains(&words.len()) && !words.contains(char::is_control) {
                true => Ok(format!("{MEASURED}{words}")),
                false => Err(format!(
                    "expected by what and when it was measured, in 1 to 200 characters, found {:?}",
                    cut(words)
                )),
            };
        }
        if self.sources.contains_key(origin) {
            return Ok(origin.to_owned());
        }
        let hint = flags::nearest(origin, self.sources.keys().map(String::as_str));
        Err(format!(
            "names the source {:?}, which [sources] does not have{}",
            cut(origin),
            hint.map(|key| format!("\n  hint: did you mean {key:?}?")).unwrap_or_default()
        ))
    }

    fn figure(&self, figure: ShapeFigure) -> String {
        self.single.get(&figure).unwrap_or(&self.usual).clone()
    }

    fn price(&self, price: &PriceEntry) -> Result<String, Wrong> {
        price.source.as_ref().map_or(Ok(self.usual.clone()), |source| self.checked(source))
    }
}

/// A shape that is not in the catalogue below: what it must have, and nothing else yet.
fn new_shape(entry: &ShapeEntry) -> Result<CatalogueShape, Wrong> {
    fn needed<T: Clone>(key: &str, figure: &Option<T>) -> Result<T, Wrong> {
        figure.clone().ok_or_else(|| {
            format!(
                "has no {key}\n  hint: a shape that the catalogue does not have yet needs cloud, family, architecture, vcpus, \
                 threads_per_core and memory_gib"
            )
        })
    }
    let shape = HostShape {
        name: entry.name.clone(),
        cloud: needed("cloud", &entry.cloud)?,
        family: needed("family", &entry.family)?,
        architecture: architecture(&needed("architecture", &entry.architecture)?)?,
        vcpus: needed("vcpus", &entry.vcpus)?,
        threads_per_core: needed("threads_per_core", &entry.threads_per_core)?,
        clock_ghz: None,
        memory_gib: needed("memory_gib", &entry.memory_gib)?,
        baseline_gbit: None,
        burst_gbit: None,
        disks: None,
        packets_per_s: None,
        disk_read_iops: None,
        disk_write_iops: None,
        disk_bytes_per_s: None,
        disk_read_p99_us: None,
        connections: None,
        prices: Vec::new(),
    };
    Ok(CatalogueShape { shape, origins: BTreeMap::new(), price_origins: Vec::new() })
}

fn architecture(text: &str) -> Result<CpuArchitecture, Wrong> {
    CpuArchitecture::parse(text)
        .ok_or_else(|| format!("expected architecture = \"x86_64\" or \"arm64\", found {:?}", cut(text)))
}

/// Replaces the figures that the entry names.
fn put_entry(
    to: &mut CatalogueShape,
    entry: &ShapeEntry,
    origins: &Origins<'_>,
    is_new: bool,
) -> Result<OwnFigures, Wrong> {
    for (key, found, there) in
        [("cloud", &entry.cloud, &to.shape.cloud), ("family", &entry.family, &to.shape.family)]
    {
        if let Some(found) = found {
            check::name(key, found).map_err(|error| error.to_string())?;
            if found != there {
                return Err(format!(
                    "is of the {key} {there} in the catalogue below, found {found}\n  hint: give yours a name of its own"
                ));
            }
        }
    }
    put_figures(&mut to.shape, entry)?;
    let figures: Vec<ShapeFigure> =
        ShapeFigure::ALL.into_iter().filter(|figure| entry.has(*figure)).collect();
    for figure in &figures {
        to.origins.insert(*figure, origins.figure(*figure));
    }
    let mut regions = Vec::new();
    for price in &entry.prices {
        // A region that the file has twice is a slip, one that the catalogue below has is replaced.
        if regions.contains(&price.region) {
            return Err(format!("has two prices in {}", cut(&price.region)));
        }
        regions.push(price.region.clone());
        let origin = origins.price(price)?;
        let there = to.shape.prices.iter().position(|other| other.region == price.region);
        let price = ShapePrice {
            region: price.region.clone(),
            date: price.date.clone(),
            usd_per_hour: price.usd_per_hour,
        };
        match there {
            Some(at) => (to.shape.prices[at], to.price_origins[at]) = (price, origin),
            None => {
                to.shape.prices.push(price);
                to.price_origins.push(origin);
            }
        }
    }
    if figures.is_empty() && regions.is_empty() {
        return Err("names no figure: the catalogue stays as it is".into());
    }
    Ok(OwnFigures { name: entry.name.clone(), figures, regions, is_new })
}

fn put_figures(shape: &mut HostShape, entry: &ShapeEntry) -> Result<(), Wrong> {
    fn put<T: Copy>(to: &mut Option<T>, figure: Option<T>) {
        *to = figure.or(*to);
    }
    if let Some(text) = &entry.architecture {
        shape.architecture = architecture(text)?;
    }
    if let Some(entry) = &entry.disks {
        shape.disks = Some(disks(entry)?);
    }
    shape.vcpus = entry.vcpus.unwrap_or(shape.vcpus);
    shape.threads_per_core = entry.threads_per_core.unwrap_or(shape.threads_per_core);
    shape.memory_gib = entry.memory_gib.unwrap_or(shape.memory_gib);
    put(&mut shape.clock_ghz, entry.clock_ghz);
    put(&mut shape.baseline_gbit, entry.baseline_gbit);
    put(&mut shape.burst_gbit, entry.burst_gbit);
    put(&mut shape.packets_per_s, entry.packets_per_s);
    put(&mut shape.disk_read_iops, entry.disk_read_iops);
    put(&mut shape.disk_write_iops, entry.disk_write_iops);
    put(&mut shape.disk_bytes_per_s, entry.disk_bytes_per_s);
    put(&mut shape.disk_read_p99_us, entry.disk_read_p99_us);
    put(&mut shape.connections, entry.connections);
    Ok(())
}

fn disks(entry: &DisksEntry) -> Result<LocalDisks, Wrong> {
    let kind = match &entry.kind {
        None => None,
        Some(text) => Some(LocalDiskKind::parse(text).ok_or_else(|| {
            format!("expected disks.kind = \"nvme\", \"ssd\" or \"hdd\", found {:?}", cut(text))
        })?),
    };
    match (entry.count, entry.gb, kind) {
        (0, None, None) => Ok(LocalDisks { count: 0, gb: 0.0, kind: LocalDiskKind::Nvme }),
        (0, ..) => Err("has the size or kind of local disks, and count = 0".into()),
        (count, Some(gb), Some(kind)) => Ok(LocalDisks { count, gb, kind }),
        (..) => Err("expected disks with count, gb (of each) and kind, or { count = 0 }".into()),
    }
}
