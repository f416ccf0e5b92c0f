//! Guard of a child process: ends it at the end of a test, also of one that fails.

use std::process::Child;

/// A process, ended with this value.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
