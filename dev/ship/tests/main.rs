//! Artefacts that were made, checked by the tools of those who receive them.

mod chart;
mod image;
mod kubernetes;
mod monitoring;
mod packages;
mod tools;
