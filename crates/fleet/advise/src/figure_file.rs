//! A figure in a file: a number, or a table with its range and source.

use fleet::advise::{FigureBasis, InputFigure};
use serde::Deserialize;

/// As it is typed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number, or { value = …, low = …, high = …, source = \"measured\" }"
)]
pub(crate) enum FigureInFile {
    Number(f64),
    Table(FigureTable),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FigureTable {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    /// `measured`, `stated` or `assumed`.
    source: Option<String>,
    /// Which page, experiment or reason.
    from: Option<String>,
}

impl FigureInFile {
    /// What is meant. A number alone is stated, with the range of stated figures.
    pub(crate) fn meant(&self) -> Result<InputFigure, String> {
        let table = match self {
            Self::Number(value) => return Ok(InputFigure::stated(*value)),
            Self::Table(table) => table,
        };
        let usual = InputFigure::stated(table.value);
        let basis = match &table.source {
            None => FigureBasis::Stated,
            Some(name) => FigureBasis::parse(name).ok_or_else(|| {
                format!("the source `{name}`: expected \"measured\", \"stated\" or \"assumed\"")
            })?,
        };
        Ok(InputFigure {
            low: table.low.unwrap_or(usual.low.min(table.high.unwrap_or(usual.low))),
            high: table.high.unwrap_or(usual.high.max(table.low.unwrap_or(usual.high))),
            basis,
            source: table.from.clone().unwrap_or_else(|| basis.as_str().to_owned()),
            ..usual
        })
    }
}
