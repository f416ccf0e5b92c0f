//! Replies that the router makes itself.

use crate::message::operation::{Operation, OperationClass};
use crate::message::outcome::Outcome;

/// The reply to `operation` that ended with `outcome` without a server's reply.
///
/// A route that has no server for a request answers as for a missing item: [`default_outcome`].
pub(crate) fn line(operation: Operation, outcome: Outcome) -> &'static [u8] {
    if outcome.is_error() {
        return outcome.error_line();
    }
    if operation.has_values() {
        return b"END\r\n";
    }
    if operation.is_meta() {
        return meta_line(operation, outcome);
    }
    match outcome {
        Outcome::Done if operation == Operation::FlushAll => b"OK\r\n",
        Outcome::Found | Outcome::Done | Outcome::Stored => match operation.class() {
            OperationClass::Arithmetic => b"0\r\n",
            _ => b"STORED\r\n",
        },
        Outcome::NotStored => b"NOT_STORED\r\n",
        Outcome::Exists => b"EXISTS\r\n",
        Outcome::Deleted => b"DELETED\r\n",
        Outcome::Touched => b"TOUCHED\r\n",
        _ => b"NOT_FOUND\r\n",
    }
}

/// Appends an error line with a message.
pub(crate) fn write_error(out: &mut Vec<u8>, outcome: Outcome, message: &str) {
    if message.is_empty() {
        return out.extend_from_slice(outcome.error_line());
    }
    let kind: &[u8] = match outcome {
        Outcome::ClientError => b"CLIENT_ERROR ",
        _ => b"SERVER_ERROR ",
    };
    out.extend_from_slice(kind);
    // A line end in a message would begin another reply.
    out.extend(message.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

/// Appends a meta reply: `line`, with what the request's flags ask for that is known without an item. `after` are the flags,
/// for `ms` behind the length.
pub(crate) fn write_meta(out: &mut Vec<u8>, line: &[u8], key: &[u8], after: &[u8]) {
    out.extend_from_slice(line.trim_ascii_end());
    let words = || after.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let is_binary = words().any(|word| word == b"b");
    for word in words() {
        match word[0] {
            b'O' => {
                out.push(b' ');
                out.extend_from_slice(word);
            }
            b'k' => {
                out.extend_from_slice(b" k");
                out.extend_from_slice(key);
                if is_binary {
                    out.extend_from_slice(b" b");
                }
            }
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn meta_line(operation: Operation, outcome: Outcome) -> &'static [u8] {
    match (outcome, operation.class()) {
        (Outcome::NotStored, _) => b"NS\r\n",
        (Outcome::Exists, _) => b"EX\r\n",
        (Outcome::NotFound, OperationClass::Get) => b"EN\r\n",
        (Outcome::NotFound, _) => b"NF\r\n",
        _ => b"HD\r\n",
    }
}

/// The outcome where no server is asked: as if there were no item.
pub(crate) fn default_outcome(operation: Operation) -> Outcome {
    if operation.class() == OperationClass::Update { Outcome::NotStored } else { Outcome::NotFound }
}

#[cfg(test)]
mod tests {
    use protocol::request::{ArithmeticMode, SetMode};

    use super::*;

    #[track_caller]
    fn check(operation: Operation, expected: &str) {
        let line = line(operation, default_outcome(operation));
        assert_eq!(std::str::from_utf8(line).expect("ASCII").trim_end(), expected);
    }

    #[test]
    fn without_a_server_there_is_no_item() {
        check(Operation::Get, "END");
        check(Operation::Gats, "END");
        check(Operation::Set, "NOT_STORED");
        check(Operation::Cas, "NOT_STORED");
        check(Operation::Delete, "NOT_FOUND");
        check(Operation::Increment, "NOT_FOUND");
        check(Operation::Touch, "NOT_FOUND");
        check(Operation::MetaGet, "EN");
        check(Operation::MetaSet(SetMode::Append), "NS");
        check(Operation::MetaDelete, "NF");
        check(Operation::MetaArithmetic(ArithmeticMode::Increment), "NF");
    }

    #[test]
    fn errors_are_the_same_for_all() {
        assert_eq!(line(Operation::Get, Outcome::Timeout), b"SERVER_ERROR Reply timeout\r\n");
        assert_eq!(line(Operation::MetaSet(SetMode::Set), Outcome::BadKey), b"CLIENT_ERROR bad key\r\n");
    }
}
