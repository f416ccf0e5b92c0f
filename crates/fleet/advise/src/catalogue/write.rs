//! Catalogues as TOML: one order and one spelling, so that two catalogues differ where their figures do.

use std::collections::BTreeMap;
use std::fmt::Write;

use fleet::advise::LocalDisks;

use super::shapes::{Catalogue, CatalogueShape};
use super::sources::{FigureSource, MEASURED, ShapeFigure};

/// The catalogue as a file.
pub(crate) fn to_toml(catalogue: &Catalogue) -> String {
    let mut text = String::from(
        "# Shapes of hosts, written by `evenkeel advise import`. A figure that is absent is unknown.\n\
         # What the keys mean, and where figures come from: docs/advise/catalogue.md.\n",
    );
    for (key, source) in &catalogue.sources {
        write_source(&mut text, key, source);
    }
    for shape in &catalogue.shapes {
        write_shape(&mut text, shape);
    }
    text
}

fn write_source(to: &mut String, key: &str, source: &FigureSource) {
    let _ = writeln!(to, "\n[sources.{}]\nwhat = {}", quoted(key), quoted(&source.what));
    let optional = [
        ("version", &source.version),
        ("file", &source.file),
        ("licence", &source.licence),
        ("url", &source.url),
        ("note", &source.note),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            let _ = writeln!(to, "{key} = {}", quoted(value));
        }
    }
}

fn write_shape(to: &mut String, shape: &CatalogueShape) {
    let usual = usual_origin(shape);
    let of = &shape.shape;
    let _ = writeln!(
        to,
        "\n[[shape]]\nname = {}\ncloud = {}\nfamily = {}",
        quoted(&of.name),
        quoted(&of.cloud),
        quoted(&of.family)
    );
    match usual.strip_prefix(MEASURED) {
        Some(words) => drop(writeln!(to, "measured = {}", quoted(words))),
        None => drop(writeln!(to, "source = {}", quoted(usual))),
    }
    for (figure, value) in figures(shape) {
        let _ = writeln!(to, "{} = {value}", figure.as_str());
    }
    if !of.prices.is_empty() {
        let prices = of.prices.iter().zip(&shape.price_origins).map(|(price, origin)| {
            let source = match origin == usual {
                true => String::new(),
                false => format!(", source = {}", quoted(origin)),
            };
            format!(
                "{{ region = {}, date = {}, usd_per_hour = {}{source} }}",
                quoted(&price.region),
                quoted(&price.date),
                price.usd_per_hour
            )
        });
        let _ = writeln!(to, "prices = [{}]", prices.collect::<Vec<_>>().join(", "));
    }
    let others = shape.origins.iter().filter(|(_, origin)| *origin != usual);
    let others: Vec<String> =
        others.map(|(figure, origin)| format!("{} = {}", figure.as_str(), quoted(origin))).collect();
    if !others.is_empty() {
        let _ = writeln!(to, "origins = {{ {} }}", others.join(", "));
    }
}

/// The origin of most figures, so that it stands there once.
fn usual_origin(shape: &CatalogueShape) -> &str {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for origin in shape.origins.values() {
        *counts.entry(origin).or_default() += 1;
    }
    // The first of equal ones in the order of their names.
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map(|(origin, _)| origin).expect("a shape has memory and CPUs, which have origins")
}

/// The known figures, as TOML writes them.
fn figures(shape: &CatalogueShape) -> Vec<(ShapeFigure, String)> {
    let of = &shape.shape;
    let number = |figure: Option<f64>| figure.map(|figure| figure.to_string());
    let values = [
        (ShapeFigure::Architecture, Some(quoted(of.architecture.as_str()))),
        (ShapeFigure::Vcpus, Some(of.vcpus.to_string())),
        (ShapeFigure::ThreadsPerCore, Some(of.threads_per_core.to_string())),
        (ShapeFigure::ClockGhz, number(of.clock_ghz)),
        (ShapeFigure::MemoryGib, Some(of.memory_gib.to_string())),
        (ShapeFigure::BaselineGbit, number(of.baseline_gbit)),
        (ShapeFigure::BurstGbit, number(of.burst_gbit)),
        (ShapeFigure::Disks, of.disks.as_ref().map(disks)),
        (ShapeFigure::PacketsPerS, number(of.packets_per_s)),
        (ShapeFigure::DiskReadIops, number(of.disk_read_iops)),
        (ShapeFigure::DiskWriteIops, number(of.disk_write_iops)),
        (ShapeFigure::DiskBytesPerS, number(of.disk_bytes_per_s)),
        (ShapeFigure::DiskReadP99Us, number(of.disk_read_p99_us)),
        (ShapeFigure::Connections, of.connections.map(|count| count.to_string())),
    ];
    values.into_iter().filter_map(|(figure, value)| Some((figure, value?))).collect()
}

fn disks(disks: &LocalDisks) -> String {
    match disks.count {
        0 => "{ count = 0 }".to_owned(),
        count => format!("{{ count = {count}, gb = {}, kind = {} }}", disks.gb, quoted(disks.kind.as_str())),
    }
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
