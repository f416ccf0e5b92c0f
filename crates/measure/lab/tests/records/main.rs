//! Tests of reports on runs whose effects are known.

mod comparisons;
mod factorials;
mod histories;
mod json;
mod layout;
mod pages;
mod pictures;
mod synthetic;
mod weeks;
