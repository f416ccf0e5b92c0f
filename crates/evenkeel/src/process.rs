//! Processes: their user, limits, descriptors, parent and supervisor.

pub(crate) mod activation;
pub(crate) mod background;
pub(crate) mod bounded_file;
pub(crate) mod flag_files;
pub(crate) mod parent;
pub(crate) mod pidfile;
pub(crate) mod privileges;
pub(crate) mod resources;
pub(crate) mod supervisor;
pub(crate) mod sys;
pub(crate) mod uring;
pub(crate) mod watched;
