//! What is said about runs whose truth is known.

mod comparisons;
mod pages;
mod synthetic;
