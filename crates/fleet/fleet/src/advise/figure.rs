//! A figure that goes into advice, with its range and where it comes from.

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureBasis {
    /// Measured, and the source names where.
    Measured,
    /// Stated by who asks, or by a vendor.
    Stated,
    /// Assumed, for a reason that the source gives.
    Assumed,
}

/// A figure and the range in which the true one is taken to be.
#[derive(Clone, Debug, PartialEq)]
pub struct InputFigure {
    /// What is computed with.
    pub value: f64,
    /// The low end.
    pub low: f64,
    /// The high end.
    pub high: f64,
    /// Where it comes from.
    pub basis: FigureBasis,
    /// Which page, experiment or reason.
    pub source: String,
}

/// A figure that is stated without a range is taken to be right within this share: rates of a workload's busiest minute differ by as
/// much from week to week.
pub const STATED_RANGE: f64 = 0.1;

impl FigureBasis {
    /// As files and answers spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Stated => "stated",
            Self::Assumed => "assumed",
        }
    }

    /// The basis of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Measured, Self::Stated, Self::Assumed].into_iter().find(|one| one.as_str() == text)
    }
}

impl InputFigure {
    /// Measured, with the interval of the measurement.
    pub fn measured(value: f64, low: f64, high: f64, source: impl Into<String>) -> Self {
        Self { value, low, high, basis: FigureBasis::Measured, source: source.into() }
    }

    /// Stated without a range.
    pub fn stated(value: f64) -> Self {
        let (low, high) = (value * (1.0 - STATED_RANGE), value * (1.0 + STATED_RANGE));
        Self { value, low, high, basis: FigureBasis::Stated, source: "stated".to_owned() }
    }

    /// Stated, and chosen rather than known: a target has no error.
    pub fn chosen(value: f64) -> Self {
        Self { value, low: value, high: value, basis: FigureBasis::Stated, source: "chosen".to_owned() }
    }

    /// Assumed, with the reason.
    pub fn assumed(value: f64, low: f64, high: f64, source: impl Into<String>) -> Self {
        Self { value, low, high, basis: FigureBasis::Assumed, source: source.into() }
    }
}
