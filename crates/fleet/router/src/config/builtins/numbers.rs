//! Arithmetic of 64-bit integers. What does not fit is an error.

use crate::config::json::JsonValue;
use crate::config::macros::{Args, Expander, Outcome};

/// `A` and `B` to one number; `None` says that there is none.
fn combine(
    expander: &mut Expander<'_>,
    args: &mut Args<'_>,
    operator: &str,
    combine: impl Fn(i64, i64) -> Option<i64>,
) -> Outcome {
    let [a, b] = args.integers(expander, ["A", "B"])?;
    match combine(a, b) {
        Some(number) => args.result(JsonValue::Int(number)),
        None => Err(args.error(format!("expected a result of 64 bits, found {a} {operator} {b}"))),
    }
}

pub(super) fn add(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    combine(expander, args, "+", i64::checked_add)
}

pub(super) fn sub(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    combine(expander, args, "-", i64::checked_sub)
}

pub(super) fn mul(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    combine(expander, args, "*", i64::checked_mul)
}

pub(super) fn div(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    combine(expander, args, "/", i64::checked_div)
}

pub(super) fn remainder(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    combine(expander, args, "%", i64::checked_rem)
}

pub(super) fn bitwise_and(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    combine(expander, args, "&", |a, b| Some(a & b))
}

pub(super) fn bitwise_or(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    combine(expander, args, "|", |a, b| Some(a | b))
}

pub(super) fn bitwise_xor(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    combine(expander, args, "^", |a, b| Some(a ^ b))
}

pub(super) fn bitwise_not(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let number = args.value(expander, "A")?.integer("`A`", i64::MIN..=i64::MAX)?;
    args.result(JsonValue::Int(!number))
}

/// Bits that leave at the left are lost.
pub(super) fn left_shift(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    combine(expander, args, "<<", |a, b| a.checked_shl(u32::try_from(b).ok()?))
}

/// Zeros enter at the left, whatever the sign.
pub(super) fn right_shift(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    combine(expander, args, ">>", |a, b| Some((a as u64).checked_shr(u32::try_from(b).ok()?)? as i64))
}
