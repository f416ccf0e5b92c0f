//! One line of a transcript as bytes to send, or as a pattern for bytes received.

use std::collections::BTreeMap;

/// The values of names in fields so far.
pub(crate) type Bindings = BTreeMap<String, u64>;

/// Literal bytes and fields, line end included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    pieces: Vec<Piece>,
    source: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    Number,
    Word,
    Anything,
    Range(u64, u64),
    Bound(String),
    Now(i64),
}

impl Text {
    /// Parses the text after `> ` or `< `.
    pub(crate) fn parse(source: &str) -> Result<Text, String> {
        let mut text = Text { pieces: Vec::new(), source: source.to_owned() };
        let mut rest = source.as_bytes();
        while let Some(&byte) = rest.first() {
            match byte {
                b'\\' if rest.len() == 1 => return Ok(text), // no line end
                b'\\' => rest = text.escape(rest)?,
                b'<' => {
                    let end = rest.iter().position(|&b| b == b'>').ok_or("a field without its `>`")?;
                    let inner =
                        std::str::from_utf8(&rest[1..end]).map_err(|_| "a field that is not UTF-8")?;
                    text.field(inner)?;
                    rest = &rest[end + 1..];
                }
                _ => {
                    text.literal(&[byte]);
                    rest = &rest[1..];
                }
            }
        }
        text.literal(b"\r\n");
        Ok(text)
    }

    /// The line as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The bytes to send.
    pub(crate) fn fill(&self, bindings: &Bindings, unix_time: impl Fn() -> u64) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => bytes.extend_from_slice(literal),
                Piece::Bound(name) => {
                    let value = bindings.get(name).ok_or(format!("<{name}> is sent but not bound yet"))?;
                    bytes.extend_from_slice(value.to_string().as_bytes());
                }
                Piece::Now(offset) => {
                    let moment = unix_time().saturating_add_signed(*offset);
                    bytes.extend_from_slice(moment.to_string().as_bytes());
                }
                _ => return Err("only bound names, repetitions and <now+N> can be sent".to_owned()),
            }
        }
        Ok(bytes)
    }

    /// How much must be received before [`Text::matches`] can be called.
    pub(crate) fn extent(&self) -> Extent {
        let literals = || {
            self.pieces.iter().filter_map(|piece| if let Piece::Literal(l) = piece { Some(l) } else { None })
        };
        match self.pieces.last() {
            Some(Piece::Literal(last)) if last.ends_with(b"\n") => {
                Extent::Lines(literals().flatten().filter(|&&byte| byte == b'\n').count())
            }
            _ => Extent::Bytes(literals().map(Vec::len).sum()),
        }
    }

    /// Whether exactly these bytes match; binds names that were not bound.
    pub(crate) fn matches(&self, bytes: &[u8], bindings: &mut Bindings) -> bool {
        let mut found = bindings.clone();
        let matched = matches(&self.pieces, bytes, &mut found);
        if matched {
            *bindings = found;
        }
        matched
    }

    fn literal(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Literal(literal)) => literal.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::Literal(bytes.to_vec())),
        }
    }

    fn escape<'a>(&mut self, rest: &'a [u8]) -> Result<&'a [u8], String> {
        let (byte, used) = unescape(rest)?;
        self.literal(&[byte]);
        Ok(&rest[used..])
    }

    fn field(&mut self, inner: &str) -> Result<(), String> {
        if let Some((repeated, times)) = inner.rsplit_once('*')
            && let Ok(times) = times.parse()
        {
            self.literal(&unescape_all(repeated.as_bytes())?.repeat(times));
            return Ok(());
        }
        let piece = match inner {
            "*" => Piece::Anything,
            "number" => Piece::Number,
            "word" => Piece::Word,
            "now" => Piece::Now(0),
            _ if inner.starts_with("now") => Piece::Now(inner[3..].parse().map_err(|_| bad(inner))?),
            _ => match inner.split_once("..") {
                Some((low, high)) => {
                    Piece::Range(low.parse().map_err(|_| bad(inner))?, high.parse().map_err(|_| bad(inner))?)
                }
                None if inner.contains(':') => Piece::Bound(inner.to_owned()),
                None => return Err(bad(inner)),
            },
        };
        self.pieces.push(piece);
        Ok(())
    }
}

/// The extent of the bytes that an expectation covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything up to and including this many `\n`.
    Lines(usize),
    Bytes(usize),
}

fn bad(inner: &str) -> String {
    format!("unknown field <{inner}>")
}

/// The byte of an escape at the start of `rest`, and the length of the escape.
fn unescape(rest: &[u8]) -> Result<(u8, usize), String> {
    match rest.get(1) {
        Some(b'r') => Ok((b'\r', 2)),
        Some(b'n') => Ok((b'\n', 2)),
        Some(b'\\') => Ok((b'\\', 2)),
        Some(b'<') => Ok((b'<', 2)),
        Some(b'x') => rest
            .get(2..4)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .map(|byte| (byte, 4))
            .ok_or("\\x needs two hexadecimal digits".to_owned()),
        _ => Err("unknown escape".to_owned()),
    }
}

fn unescape_all(mut rest: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(&byte) = rest.first() {
        let (byte, used) = if byte == b'\\' { unescape(rest)? } else { (byte, 1) };
        bytes.push(byte);
        rest = &rest[used..];
    }
    Ok(bytes)
}

fn matches(pieces: &[Piece], bytes: &[u8], bindings: &mut Bindings) -> bool {
    let Some((piece, rest)) = pieces.split_first() else { return bytes.is_empty() };
    match piece {
        Piece::Literal(literal) => {
            bytes.strip_prefix(&literal[..]).is_some_and(|b| matches(rest, b, bindings))
        }
        Piece::Number => {
            let (number, after) = number(bytes);
            number.is_some() && matches(rest, after, bindings)
        }
        Piece::Range(low, high) => {
            let (number, after) = number(bytes);
            number.is_some_and(|n| (*low..=*high).contains(&n)) && matches(rest, after, bindings)
        }
        Piece::Bound(name) => {
            let (number, after) = number(bytes);
            number.is_some_and(|n| bind(name, n, bindings)) && matches(rest, after, bindings)
        }
        Piece::Word => {
            let end = bytes.iter().position(|b| b" \r\n".contains(b)).unwrap_or(bytes.len());
            (1..=end).rev().any(|used| matches(rest, &bytes[used..], bindings))
        }
        Piece::Anything => {
            let end = bytes.iter().position(|b| b"\r\n".contains(b)).unwrap_or(bytes.len());
            (0..=end).rev().any(|used| matches(rest, &bytes[used..], bindings))
        }
        Piece::Now(_) => false,
    }
}

/// The decimal number at the start of `bytes`, and what follows it.
fn number(bytes: &[u8]) -> (Option<u64>, &[u8]) {
    let end = bytes.iter().position(|b| !b.is_ascii_digit()).unwrap_or(bytes.len());
    let (digits, after) = bytes.split_at(end);
    (std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()), after)
}

/// Whether `name` may have `value`: its earlier value, or one that no name with the same part before the colon has:
/// `<cas:1>` and `<cas:2>` are the tokens of two changes.
fn bind(name: &str, value: u64, bindings: &mut Bindings) -> bool {
    if let Some(&bound) = bindings.get(name) {
        return bound == value;
    }
    let kind = |name: &str| name.split(':').next().map(str::to_owned);
    let taken = bindings.iter().any(|(other, &bound)| kind(other) == kind(name) && bound == value);
    if !taken {
        bindings.insert(name.to_owned(), value);
    }
    !taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, received: &str, expected: bool) {
        let text = Text::parse(pattern).expect("a pattern");
        let mut bindings = Bindings::from([("cas:7".to_owned(), 7)]);
        assert_eq!(text.matches(received.as_bytes(), &mut bindings), expected, "{pattern} on {received:?}");
    }

    #[test]
    fn a_literal_line_matches_itself_and_its_line_end() {
        check("STORED", "STORED\r\n", true);
        check("STORED", "STORED\n", false);
        check("STORED", "NOT_STORED\r\n", false);
        check("STORED\\", "STORED", true);
        check("a\\x41\\\\\\<\\n\\", "aA\\<\n", true);
        check("<ab*3>", "ababab\r\n", true);
        check("<\\r\\n*2>\\", "\r\n\r\n", true);
    }

    #[test]
    fn fields_match_numbers_words_and_the_rest_of_a_line() {
        check("t<number> k", "t12 k\r\n", true);
        check("t<number> k", "t k\r\n", false);
        check("t<98..100>", "t99\r\n", true);
        check("t<98..100>", "t97\r\n", false);
        check("ME <word> <*>", "ME a exp=-1 la=0\r\n", true);
        check("ME <word> x", "ME a b x\r\n", false);
        check("<*>END", "END\r\n", true);
        check("a<*>b", "a\r\nb\r\n", false);
    }

    #[test]
    fn a_bound_name_keeps_its_number_and_no_related_name_has_it() {
        check("<cas:1> <cas:1>", "5 5\r\n", true);
        check("<cas:1> <cas:1>", "5 6\r\n", false);
        check("<cas:7>", "7\r\n", true);
        check("<cas:1>", "7\r\n", false);
        check("<pid:1>", "7\r\n", true);
    }

    #[test]
    fn fields_of_sent_lines_are_filled_in() {
        let text = Text::parse("cas a 0 <now+60> <cas:7>").expect("a line");
        let bindings = Bindings::from([("cas:7".to_owned(), 7)]);
        assert_eq!(text.fill(&bindings, || 1000).expect("filled"), b"cas a 0 1060 7\r\n");
        assert!(text.fill(&Bindings::new(), || 1000).is_err());
    }

    #[test]
    fn the_extent_of_an_expectation_is_known_in_advance() {
        let extent = |source| Text::parse(source).expect("a line").extent();
        assert_eq!(extent("a<*>"), Extent::Lines(1));
        assert_eq!(extent("<x\\r\\n*3>"), Extent::Lines(4));
        assert_eq!(extent("abc\\"), Extent::Bytes(3));
    }

    #[test]
    fn an_unknown_field_is_an_error_and_not_a_literal() {
        for source in ["<nubmer>", "<number", "\\q", "\\x4", "<1..b>"] {
            assert!(Text::parse(source).is_err(), "{source}");
        }
    }
}
