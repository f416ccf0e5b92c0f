//! The clock of a busy CPU: `cargo run --release -p advise --example clock`.
//!
//! In a virtual machine /proc/cpuinfo has the frequency of the time stamp counter, which is not the clock that a busy CPU runs at. So
//! multiplications are counted that have to wait for each other: 3 cycles each on x86 processors since 2006, and on Arm's of servers 3
//! as well (4 on some; then the figure is too low by a quarter).

use std::hint::black_box;

use os::cpu_time::this_thread_ns;

const MULTIPLICATIONS: u64 = 500_000_000;
const CYCLES_OF_EACH: f64 = 3.0;

fn main() {
    for _ in 0..5 {
        let begin = this_thread_ns();
        // A square of a square is no single multiplication, so that the compiler leaves each of them.
        let product = (0..MULTIPLICATIONS).fold(black_box(3_u64), |product, _| product.wrapping_mul(product));
        black_box(product);
        let ns = (this_thread_ns() - begin) as f64;
        println!("{:.2} GHz", MULTIPLICATIONS as f64 * CYCLES_OF_EACH / ns);
    }
}
