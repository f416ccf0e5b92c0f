//! Answers to those who ask: documents, refusals, certificates.

pub(crate) mod changes;
pub(crate) mod console;
pub(crate) mod documents;
pub(crate) mod figures;
pub(crate) mod first_certificates;
pub(crate) mod replies;
pub(crate) mod shadows;
pub(crate) mod signing;
pub(crate) mod standards;
pub(crate) mod tuning;
