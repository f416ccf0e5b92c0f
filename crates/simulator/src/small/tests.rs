//! The small world without and with planted bugs.

use super::*;

#[test]
fn seeds_without_bugs_break_no_invariant() {
    for seed in 0..3 {
        let run = play(seed, &[]);
        assert!(run.violation.is_none(), "{}", run.violation.expect("there is one"));
    }
}
