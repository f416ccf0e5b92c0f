//! The binary's beginning.

use std::process::ExitCode;

fn main() -> ExitCode {
    evenkeel::main()
}
