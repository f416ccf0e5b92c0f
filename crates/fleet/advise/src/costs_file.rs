//! The table of costs: the one that is part of the program, and files that replace figures of it or of the model's assumptions.

use std::collections::BTreeMap;

use fleet::advise::{
    AdviceAssumptions, AdviceInputs, CacheWorkload, CpuArchitecture, InputFigure, RequestCosts,
};
use serde::Deserialize;

use crate::figure_file::FigureInFile;

/// Bytes of a table of costs, at most: thirty figures with long sources need a tenth.
pub const COSTS_LEN_MAX: usize = 64 * 1024;

/// The measured one.
const TABLE: &str = include_str!("../costs.toml");

/// Why a table of costs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CostsError {
    /// Longer than any.
    #[error("the table of costs has {0} bytes, and at most {COSTS_LEN_MAX} are accepted")]
    TooLong(usize),
    /// Not TOML, or a key that there is not.
    #[error("understand the table of costs: {0}")]
    Toml(String),
    /// A figure that there is not.
    #[error("the table of costs has `{0}`: accepted are {1}")]
    Unknown(String, String),
    /// A figure that cannot be.
    #[error("the table of costs, `{0}`: {1}")]
    Figure(String, String),
    /// An instruction set that there is not.
    #[error("the table of costs has the architecture `{0}`: accepted are x86_64 and arm64")]
    Architecture(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostsFile {
    architecture: Option<String>,
    #[serde(default)]
    figures: BTreeMap<String, FigureInFile>,
}

impl CostsFile {
    fn parse(text: &str) -> Result<CostsFile, CostsError> {
        if text.len() > COSTS_LEN_MAX {
            return Err(CostsError::TooLong(text.len()));
        }
        toml::from_str(text).map_err(|error| CostsError::Toml(error.to_string().trim_end().to_owned()))
    }

    fn architecture(&self) -> Result<Option<CpuArchitecture>, CostsError> {
        let parse =
            |name: &String| CpuArchitecture::parse(name).ok_or(CostsError::Architecture(name.clone()));
        self.architecture.as_ref().map(parse).transpose()
    }

    fn figures(&self) -> Result<BTreeMap<&str, InputFigure>, CostsError> {
        self.figures.iter().map(|(name, figure)| Ok((name.as_str(), meant(name, figure)?))).collect()
    }
}

fn meant(name: &str, figure: &FigureInFile) -> Result<InputFigure, CostsError> {
    let wrong = |why: String| CostsError::Figure(name.to_owned(), why);
    let figure = figure.meant().map_err(wrong)?;
    let ends = [figure.low, figure.value, figure.high];
    match ends.iter().all(|end| end.is_finite() && *end >= 0.0) && ends.is_sorted() {
        true => Ok(figure),
        false => Err(wrong(format!(
            "expected 0 ≤ low ≤ value ≤ high, found {} ≤ {} ≤ {}",
            figure.low, figure.value, figure.high
        ))),
    }
}

/// The costs that were measured.
fn measured_costs() -> RequestCosts {
    let file = CostsFile::parse(TABLE).expect("a test reads it");
    let architecture = file.architecture().expect("a test reads it").expect("it names one");
    let mut figures = file.figures().expect("a test reads it");
    let mut take = |name: &str| figures.remove(name).unwrap_or_else(|| panic!("costs.toml has no {name}"));
    RequestCosts {
        architecture,
        clock_ghz: take("clock_ghz"),
        get_us: take("get_us"),
        get_of_16_us: take("get_of_16_us"),
        get_4k_us: take("get_4k_us"),
        get_64k_us: take("get_64k_us"),
        set_us: take("set_us"),
        set_of_16_us: take("set_of_16_us"),
        set_4k_us: take("set_4k_us"),
        set_64k_us: take("set_64k_us"),
        delete_us: take("delete_us"),
        multiget_16_us: take("multiget_16_us"),
        multiget_100_us: take("multiget_100_us"),
        tls_get_us: take("tls_get_us"),
        tls_get_of_16_us: take("tls_get_of_16_us"),
        tls_get_4k_us: take("tls_get_4k_us"),
        tls_get_64k_us: take("tls_get_64k_us"),
        udp_get_us: take("udp_get_us"),
        flash_get_us: take("flash_get_us"),
        record_bytes: take("record_bytes"),
        index_bytes: take("index_bytes"),
        flash_item_bytes: take("flash_item_bytes"),
        flash_write_amplification: take("flash_write_amplification"),
        disk_reads_per_read: take("disk_reads_per_read"),
        disk_writes_per_set: take("disk_writes_per_set"),
        flash_p99_us: take("flash_p99_us"),
    }
}

/// A workload with the measured costs and the model's assumptions.
pub fn usual_inputs(workload: CacheWorkload) -> AdviceInputs {
    AdviceInputs { workload, costs: measured_costs(), assumptions: AdviceAssumptions::default() }
}

/// Replaces costs and assumptions by those that a file names.
///
/// # Errors
/// If the file cannot be understood, or names a figure that there is not.
pub fn replace_costs(inputs: &mut AdviceInputs, text: &str) -> Result<(), CostsError> {
    let file = CostsFile::parse(text)?;
    if let Some(architecture) = file.architecture()? {
        inputs.costs.architecture = architecture;
    }
    let figures = file.figures()?;
    if let Some(clock) = figures.get("clock_ghz").filter(|clock| clock.value > 0.0) {
        at_clock(inputs, clock.value, |name| figures.contains_key(name));
    }
    for (name, figure) in figures {
        let mut known = inputs.costs_and_assumptions();
        match known.iter_mut().find(|input| input.name == name) {
            Some(input) if figure.value > input.most => {
                let why = format!("expected at most {}, found {}", input.most, figure.value);
                return Err(CostsError::Figure(name.to_owned(), why));
            }
            Some(input) => {
                let high = figure.high.min(input.most);
                *input.figure = InputFigure { high, ..figure };
            }
            None => {
                let names: Vec<&str> = known.iter().map(|input| input.name).collect();
                return Err(CostsError::Unknown(name.to_owned(), names.join(", ")));
            }
        }
    }
    // What everything is divided by.
    for (name, figure) in [("clock_ghz", &inputs.costs.clock_ghz), ("get_us", &inputs.costs.get_us)] {
        if figure.low <= 0.0 {
            return Err(CostsError::Figure(name.to_owned(), "expected more than 0".to_owned()));
        }
    }
    Ok(())
}

/// Costs that a file leaves out were measured at the clock of the table: at the file's they take as many cycles.
fn at_clock(inputs: &mut AdviceInputs, clock_ghz: f64, is_in_file: impl Fn(&str) -> bool) {
    let factor = inputs.costs.clock_ghz.value / clock_ghz;
    let is_cpu_time = |name: &str| name.ends_with("_us") && name != "flash_p99_us";
    for input in inputs.costs_and_assumptions() {
        if is_cpu_time(input.name) && !is_in_file(input.name) {
            let figure = input.figure;
            (figure.value, figure.low, figure.high) =
                (figure.value * factor, figure.low * factor, figure.high * factor);
        }
    }
}

#[cfg(test)]
mod tests;
