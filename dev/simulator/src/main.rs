//! The program: `cargo run --release -p simulator`.

mod program;

fn main() -> std::process::ExitCode {
    program::main()
}
