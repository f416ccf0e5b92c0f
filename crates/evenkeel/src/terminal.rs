//! Text for people: standard output, the log on standard error, and pictures that are drawn again and again.

pub(crate) mod line_queue;
pub(crate) mod live;
pub(crate) mod log;
pub(crate) mod output;
pub(crate) mod painted;
