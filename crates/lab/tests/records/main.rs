//! What is said about runs whose truth is known.

mod comparisons;
mod factorials;
mod histories;
mod pages;
mod synthetic;
