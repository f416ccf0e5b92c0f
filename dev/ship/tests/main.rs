//! Artefacts that were made, checked by the tools of those who receive them.

mod chart;
mod console;
mod docker;
mod foreign;
mod image;
mod kubernetes;
mod monitoring;
mod packages;
mod release;
mod signatures;
mod site;
mod tools;
