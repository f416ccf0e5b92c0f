//! What is said about runs whose truth is known.

mod comparisons;
mod histories;
mod pages;
mod synthetic;
