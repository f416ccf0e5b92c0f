//! Tests of reports on runs whose effects are known.

mod comparisons;
mod factorials;
mod histories;
mod pages;
mod synthetic;
