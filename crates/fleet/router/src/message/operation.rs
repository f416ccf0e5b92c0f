//! Operations: what a request does, by the command that the client sent.

use protocol::Request;
use protocol::request::{ArithmeticMode, SetMode, Verb};

/// The command of a request about one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `get`
    Get,
    /// `gets`
    Gets,
    /// `gat`
    Gat,
    /// `gats`
    Gats,
    /// `set`
    Set,
    /// `add`
    Add,
    /// `replace`
    Replace,
    /// `append`
    Append,
    /// `prepend`
    Prepend,
    /// `cas`
    Cas,
    /// `delete`
    Delete,
    /// `incr`
    Increment,
    /// `decr`
    Decrement,
    /// `touch`
    Touch,
    /// `mg`
    MetaGet,
    /// `ms`, by its mode
    MetaSet(SetMode),
    /// `md`
    MetaDelete,
    /// `ma`, by its mode
    MetaArithmetic(ArithmeticMode),
    /// `me`
    MetaDebug,
    /// `flush_all`, which has no key
    FlushAll,
}

/// What operations have in common for routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationClass {
    /// Reads a value: `get`, `gets`, `gat`, `gats`, `mg`, `me`.
    Get,
    /// Writes a value: `set` and the like, `ms`.
    Update,
    /// `delete`, `md`, `flush_all`.
    Delete,
    /// `incr`, `decr`, `ma`.
    Arithmetic,
    /// `touch`.
    Touch,
}

impl Operation {
    /// The operation of a request with a single key; `None` for all others.
    pub fn of(request: &Request<'_>) -> Option<Operation> {
        Some(match request {
            Request::Get(get) => match (get.exptime, get.with_cas) {
                (None, false) => Operation::Get,
                (None, true) => Operation::Gets,
                (Some(_), false) => Operation::Gat,
                (Some(_), true) => Operation::Gats,
            },
            Request::Store(store) => match store.verb {
                Verb::Set => Operation::Set,
                Verb::Add => Operation::Add,
                Verb::Replace => Operation::Replace,
                Verb::Append => Operation::Append,
                Verb::Prepend => Operation::Prepend,
                Verb::Cas(_) => Operation::Cas,
            },
            Request::MetaGet { .. } => Operation::MetaGet,
            Request::MetaSet { mode, .. } => Operation::MetaSet(*mode),
            Request::MetaDelete { .. } => Operation::MetaDelete,
            Request::MetaArithmetic { mode, .. } => Operation::MetaArithmetic(*mode),
            Request::MetaDebug { .. } => Operation::MetaDebug,
            Request::Delete { .. } => Operation::Delete,
            Request::Arithmetic { mode: ArithmeticMode::Increment, .. } => Operation::Increment,
            Request::Arithmetic { mode: ArithmeticMode::Decrement, .. } => Operation::Decrement,
            Request::Touch { .. } => Operation::Touch,
            _ => return None,
        })
    }

    /// Its class.
    #[inline]
    pub fn class(self) -> OperationClass {
        use Operation::*;
        match self {
            Get | Gets | Gat | Gats | MetaGet | MetaDebug => OperationClass::Get,
            Set | Add | Replace | Append | Prepend | Cas | MetaSet(_) => OperationClass::Update,
            Delete | MetaDelete | FlushAll => OperationClass::Delete,
            Increment | Decrement | MetaArithmetic(_) => OperationClass::Arithmetic,
            Touch => OperationClass::Touch,
        }
    }

    /// Whether its reply is a meta reply.
    #[inline]
    pub fn is_meta(self) -> bool {
        use Operation::*;
        matches!(self, MetaGet | MetaSet(_) | MetaDelete | MetaArithmetic(_) | MetaDebug)
    }

    /// Whether its reply is values and `END`.
    #[inline]
    pub fn has_values(self) -> bool {
        use Operation::*;
        matches!(self, Get | Gets | Gat | Gats)
    }

    /// The classic command of this name.
    pub(crate) fn by_name(name: &str) -> Option<Operation> {
        use Operation::*;
        let all = [
            Get, Gets, Gat, Gats, Set, Add, Replace, Append, Prepend, Cas, Delete, Increment, Decrement,
            Touch,
        ];
        all.into_iter().find(|operation| operation.name() == name)
    }

    /// mcrouter's name for it in configurations and statistics. Meta commands have the name of what they do.
    pub fn name(self) -> &'static str {
        use Operation::*;
        match self {
            Get | MetaGet | MetaDebug => "get",
            Gets => "gets",
            Gat => "gat",
            Gats => "gats",
            Set | MetaSet(SetMode::Set) => "set",
            Add | MetaSet(SetMode::Add) => "add",
            Replace | MetaSet(SetMode::Replace) => "replace",
            Append | MetaSet(SetMode::Append) => "append",
            Prepend | MetaSet(SetMode::Prepend) => "prepend",
            Cas => "cas",
            Delete | MetaDelete => "delete",
            Increment | MetaArithmetic(ArithmeticMode::Increment) => "incr",
            Decrement | MetaArithmetic(ArithmeticMode::Decrement) => "decr",
            Touch => "touch",
            FlushAll => "flushall",
        }
    }
}
