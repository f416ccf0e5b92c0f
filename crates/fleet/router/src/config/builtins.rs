//! Functions and loops that every configuration may call.
//!
//! Arguments reach a function expanded, except where it may not need them all (`if`, `and`, `or`, `select`, `import`,
//! `shuffle`): such a function expands what it needs, in the scope of the caller.

mod chance;
mod collections;
mod convert;
mod logic;
mod loops;
mod numbers;

pub(super) use loops::loops;

use super::macros::{Body, Function, Macro, Param};
use std::collections::HashMap;
use std::rc::Rc;

/// Names, parameters (a question mark makes one optional), and functions. A lazy one expands its arguments itself.
const EAGER: [(&str, &[&str], Function); 41] = [
    ("hash", &["value"], chance::hash),
    ("weightedHash", &["dictionary", "key"], chance::weighted_hash),
    ("int", &["value"], convert::int),
    ("double", &["value"], convert::double),
    ("str", &["value"], convert::str),
    ("bool", &["value"], convert::bool),
    ("isArray", &["value"], convert::is_array),
    ("isBool", &["value"], convert::is_bool),
    ("isInt", &["value"], convert::is_int),
    ("isDouble", &["value"], convert::is_double),
    ("isObject", &["value"], convert::is_object),
    ("isString", &["value"], convert::is_string),
    ("keys", &["dictionary"], collections::keys),
    ("values", &["dictionary"], collections::values),
    ("merge", &["params"], collections::merge),
    ("slice", &["dictionary", "from", "to"], collections::slice),
    ("split", &["dictionary", "delim"], collections::split),
    ("range", &["from", "to"], collections::range),
    ("contains", &["dictionary", "key"], collections::contains),
    ("empty", &["dictionary"], collections::empty),
    ("size", &["dictionary"], collections::size),
    ("sort", &["dictionary"], collections::sort),
    ("set", &["dictionary", "key", "value"], collections::set),
    ("equals", &["A", "B"], logic::equals),
    ("less", &["A", "B"], logic::less),
    ("not", &["A"], logic::not),
    ("define", &["result"], logic::define),
    ("defined", &["name"], logic::defined),
    ("fail", &["msg"], logic::fail),
    ("isLocalIp", &["ip"], logic::is_local_ip),
    ("bitwiseAnd", &["A", "B"], numbers::bitwise_and),
    ("bitwiseOr", &["A", "B"], numbers::bitwise_or),
    ("bitwiseXor", &["A", "B"], numbers::bitwise_xor),
    ("bitwiseNot", &["A"], numbers::bitwise_not),
    ("bitwiseLeftShift", &["A", "B"], numbers::left_shift),
    ("bitwiseRightShift", &["A", "B"], numbers::right_shift),
    ("add", &["A", "B"], numbers::add),
    ("sub", &["A", "B"], numbers::sub),
    ("mul", &["A", "B"], numbers::mul),
    ("div", &["A", "B"], numbers::div),
    ("mod", &["A", "B"], numbers::remainder),
];

/// Functions that expand their arguments themselves.
const LAZY: [(&str, &[&str], Function); 6] = [
    ("import", &["path", "?default"], |expander, args| expander.import(args)),
    ("select", &["dictionary", "key", "?default"], collections::select),
    ("shuffle", &["dictionary", "?seed"], chance::shuffle),
    ("and", &["A", "B"], logic::and),
    ("or", &["A", "B"], logic::or),
    ("if", &["condition", "is_true", "is_false"], logic::if_else),
];

/// All functions by name.
pub(super) fn macros() -> HashMap<String, Rc<Macro>> {
    let eager = EAGER.iter().map(|entry| (true, entry));
    let all = eager.chain(LAZY.iter().map(|entry| (false, entry)));
    all.map(|(is_eager, &(name, params, function))| {
        let params = params.iter().map(|name| Param {
            name: name.trim_start_matches('?').to_owned(),
            is_required: !name.starts_with('?'),
            default: None,
        });
        let body = Body::BuiltIn(function);
        (name.to_owned(), Rc::new(Macro { name: name.to_owned(), params: params.collect(), is_eager, body }))
    })
    .collect()
}
