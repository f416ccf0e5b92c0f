//! Capacity advice for people: the files and servers that describe a workload, the catalogue of shapes, and the answer as text,
//! JSON and a picture.
//!
//! What is decided is in `fleet::advise`, which reads no file. This crate reads no command line and prints nothing.

pub mod catalogue;
pub mod import;
