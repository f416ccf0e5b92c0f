//! Map literals of Go in generated files: `name = map[string]float64{ "a": 1.5, … }`, also nested.
//!
//! Nothing is evaluated. What is no literal of numbers and texts is refused with its line, since a parser that skips what it does
//! not understand would leave out figures silently.

use super::source::SourceError;

/// Most entries of a literal with those inside it: a cloud's prices in all its regions are some 50,000.
const ENTRIES_MAX: usize = 500_000;
/// Literals in literals: a region, a shape, its figures.
const DEPTH_MAX: usize = 4;
/// Longest word or text. Names of shapes have some 40 characters.
const WORD_LEN_MAX: usize = 256;

/// A value of a map, with the line where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GoValue {
    pub(crate) line: usize,
    pub(crate) kind: GoKind,
}

/// Kinds of values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GoKind {
    Number(f64),
    Text(String),
    /// Keys are texts, or names of fields.
    Entries(Vec<(String, GoValue)>),
}

impl GoValue {
    /// The entries of a literal.
    pub(crate) fn entries(&self) -> Result<&[(String, GoValue)], SourceError> {
        match &self.kind {
            GoKind::Entries(entries) => Ok(entries),
            _ => Err(self.unexpected("a literal in braces")),
        }
    }

    /// The value of a number.
    pub(crate) fn number(&self) -> Result<f64, SourceError> {
        match self.kind {
            GoKind::Number(number) => Ok(number),
            _ => Err(self.unexpected("a number")),
        }
    }

    /// The error for a value of another kind.
    pub(crate) fn unexpected(&self, expected: &str) -> SourceError {
        let found = match &self.kind {
            GoKind::Number(number) => number.to_string(),
            GoKind::Text(text) => format!("{text:?}"),
            GoKind::Entries(_) => "a literal in braces".into(),
        };
        SourceError::Line { line: self.line, expected: expected.into(), found }
    }
}

/// The literal that a file gives a variable of this name.
pub(crate) fn map_of(text: &str, name: &str) -> Result<GoValue, SourceError> {
    let mut parser = Parser { lexer: Lexer { rest: text, line: 1, is_in_map: false }, entries: 0 };
    parser.skip_to(name)?;
    parser.lexer.is_in_map = true;
    parser.literal(1)
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    entries: usize,
}

impl Parser<'_> {
    /// Goes to the brace behind `NAME = map[…]…`.
    fn skip_to(&mut self, name: &str) -> Result<(), SourceError> {
        loop {
            match self.lexer.next()? {
                Token::End => return Err(SourceError::NoVariable(name.to_owned())),
                Token::Word(word) if word == name => {}
                _ => continue,
            }
            if self.lexer.next()? != Token::Mark('=') || self.lexer.next()? != Token::Word("map") {
                continue;
            }
            loop {
                match self.lexer.next()? {
                    Token::Mark('{') => return Ok(()),
                    Token::Word(_) | Token::Mark('[' | ']' | '*' | '.') => {}
                    other => return Err(self.error("the type of a map", &other.shown())),
                }
            }
        }
    }

    /// What follows an opening brace, with the closing one.
    fn literal(&mut self, depth: usize) -> Result<GoValue, SourceError> {
        let line = self.lexer.line;
        if depth > DEPTH_MAX {
            return Err(self.error(&format!("at most {DEPTH_MAX} literals in each other"), "one more"));
        }
        let mut entries = Vec::new();
        loop {
            let key = match self.lexer.next()? {
                Token::Mark('}') => return Ok(GoValue { line, kind: GoKind::Entries(entries) }),
                Token::Text(key) | Token::Word(key) => key.to_owned(),
                other => return Err(self.error("a key or `}`", &other.shown())),
            };
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(self.error(&format!("at most {ENTRIES_MAX} entries"), "more"));
            }
            self.expect(':')?;
            let value = self.value(depth)?;
            entries.push((key, value));
            match self.lexer.next()? {
                Token::Mark(',') => {}
                Token::Mark('}') => return Ok(GoValue { line, kind: GoKind::Entries(entries) }),
                other => return Err(self.error("`,` or `}` behind a value", &other.shown())),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<GoValue, SourceError> {
        let token = self.lexer.next()?;
        let line = self.lexer.line;
        let kind = match token {
            Token::Number(number) => GoKind::Number(number),
            Token::Mark('-') => return Err(self.error("a number that is not negative", "`-`")),
            Token::Text(text) => GoKind::Text(text.to_owned()),
            Token::Mark('{') => return self.literal(depth + 1),
            other => return Err(self.error("a number, a text or `{`", &other.shown())),
        };
        Ok(GoValue { line, kind })
    }

    fn expect(&mut self, mark: char) -> Result<(), SourceError> {
        match self.lexer.next()? {
            Token::Mark(found) if found == mark => Ok(()),
            other => Err(self.error(&format!("`{mark}`"), &other.shown())),
        }
    }

    fn error(&self, expected: &str, found: &str) -> SourceError {
        SourceError::Line { line: self.lexer.line, expected: expected.into(), found: found.into() }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'t> {
    Word(&'t str),
    Text(&'t str),
    Number(f64),
    Mark(char),
    End,
}

impl Token<'_> {
    fn shown(&self) -> String {
        match self {
            Self::Word(word) => format!("`{word}`"),
            Self::Text(text) => format!("{text:?}"),
            Self::Number(number) => number.to_string(),
            Self::Mark(mark) => format!("`{}`", mark.escape_debug()),
            Self::End => "the end of the file".into(),
        }
    }
}

/// The words of a file, without its comments.
struct Lexer<'t> {
    rest: &'t str,
    line: usize,
    /// Code around the map may have any texts and numbers; in it they are figures.
    is_in_map: bool,
}

impl<'t> Lexer<'t> {
    fn next(&mut self) -> Result<Token<'t>, SourceError> {
        self.skip_spaces_and_comments()?;
        let Some(first) = self.rest.chars().next() else { return Ok(Token::End) };
        match first {
            '"' if self.is_in_map => self.text(),
            '"' | '\'' => self.text_of_code(first),
            '`' => self.raw_text(),
            '0'..='9' => self.number(),
            _ if first.is_ascii_alphabetic() || first == '_' => {
                let is_end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
                Ok(Token::Word(self.take_word(self.rest.find(is_end))?))
            }
            _ => {
                self.advance(first.len_utf8());
                Ok(Token::Mark(first))
            }
        }
    }

    fn text(&mut self) -> Result<Token<'t>, SourceError> {
        self.advance(1);
        // An escape, or a line's end inside, is in no name of a shape.
        match self.rest.find(['"', '\\', '\n']) {
            Some(length) if self.rest.as_bytes()[length] == b'"' => {
                let text = self.take_word(Some(length))?;
                self.advance(1);
                Ok(Token::Text(text))
            }
            _ => Err(self.error("a text without `\\` that ends on its line", "another one")),
        }
    }

    /// A text or a letter in the code around the map.
    fn text_of_code(&mut self, quote: char) -> Result<Token<'t>, SourceError> {
        self.advance(1);
        loop {
            let Some(length) = self.rest.find([quote, '\\', '\n']) else {
                return Err(self.error("the end of a text", "the end of the file"));
            };
            let is_escape = self.rest.as_bytes()[length] == b'\\';
            self.advance(length + 1);
            match is_escape {
                true => self.advance(self.rest.chars().next().map_or(0, char::len_utf8)),
                false => return Ok(Token::Mark(quote)),
            }
        }
    }

    /// A text between backquotes, in the code around the map.
    fn raw_text(&mut self) -> Result<Token<'t>, SourceError> {
        self.advance(1);
        match self.rest.find('`') {
            Some(length) => {
                self.advance(length + 1);
                Ok(Token::Mark('`'))
            }
            None => Err(self.error("the end of a text in backquotes", "the end of the file")),
        }
    }

    fn number(&mut self) -> Result<Token<'t>, SourceError> {
        let is_end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '.' && letter != '_';
        let word = self.take_word(self.rest.find(is_end))?;
        // A size such as 1e999 would be infinite, and `0x10` or `1_000` are no figures of a table.
        let is_decimal = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        match word.parse::<f64>().ok().filter(|number| is_decimal && number.is_finite()) {
            Some(number) => Ok(Token::Number(number)),
            None if !self.is_in_map => Ok(Token::Mark('0')),
            None => Err(self.error("a decimal number such as 1.5", &format!("`{word}`"))),
        }
    }

    fn take_word(&mut self, length: Option<usize>) -> Result<&'t str, SourceError> {
        let length = length.unwrap_or(self.rest.len());
        if length > WORD_LEN_MAX {
            return Err(
                self.error(&format!("words of at most {WORD_LEN_MAX} bytes"), &format!("{length} bytes"))
            );
        }
        let word = &self.rest[..length];
        self.rest = &self.rest[length..];
        Ok(word)
    }

    fn skip_spaces_and_comments(&mut self) -> Result<(), SourceError> {
        loop {
            let trimmed = self.rest.trim_start();
            self.advance(self.rest.len() - trimmed.len());
            if self.rest.starts_with("//") {
                self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                match self.rest.find("*/") {
                    Some(length) => self.advance(length + 2),
                    None => return Err(self.error("the end of a comment", "the end of the file")),
                }
            } else {
                return Ok(());
            }
        }
    }

    fn advance(&mut self, length: usize) {
        let (passed, rest) = self.rest.split_at(length);
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.rest = rest;
    }

    fn error(&self, expected: &str, found: &str) -> SourceError {
        SourceError::Line { line: self.line, expected: expected.into(), found: found.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = match map_of(text, "prices") {
            Ok(value) => shown(&value),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{found}");
    }

    fn shown(value: &GoValue) -> String {
        match &value.kind {
            GoKind::Number(number) => number.to_string(),
            GoKind::Text(text) => text.clone(),
            GoKind::Entries(entries) => {
                let entries: Vec<String> =
                    entries.iter().map(|(key, value)| format!("{key}={}", shown(value))).collect();
                format!("{{{}}}", entries.join(" "))
            }
        }
    }

    #[test]
    fn a_map_is_read_with_what_is_in_it() {
        check("var prices = map[string]float64{\"a\": 1.5, \"b\": 2}", "{a=1.5 b=2}");
        check("var (\n\tprices = map[string]float64{\n\t\t\"a\": 1,\n\t}\n)", "{a=1}");
        check("var prices = map[string]map[types.X]float64{\"r\": {\"a\": 1}, \"s\": {}}", "{r={a=1} s={}}");
        check("prices = map[string]*T{\"a\": {Name: \"x\", Cpus: 2},}", "{a={Name=x Cpus=2}}");
    }

    #[test]
    fn code_and_comments_around_it_are_passed_over() {
        let code = "package x\nfunc f(prices int) { return prices + g(`\\d{`, \"\\\"{\", '\"', 0x1f) }\n/* prices = */ // prices = map[x]y{\n";
        check(&format!("{code}var prices = map[a]b{{ /* none */ }}"), "{}");
        check(code, "has no map named `prices`");
        check("", "has no map named `prices`");
    }

    #[test]
    fn what_is_no_literal_is_refused_with_its_line() {
        let in_map = |body: &str| format!("var prices = map[string]float64{{\n\"a\": 1,\n{body}\n}}");
        check(&in_map("\"b\": 1 / 2,"), "line 3: expected `,` or `}` behind a value, found `/`");
        check(&in_map("\"b\": f(2),"), "line 3: expected a number, a text or `{`, found `f`");
        check(&in_map("\"b\": -2,"), "line 3: expected a number that is not negative, found `-`");
        check(&in_map("\"b\": 1e999,"), "line 3: expected a decimal number such as 1.5, found `1e999`");
        check(&in_map("\"b\": 0x10,"), "found `0x10`");
        check(&in_map("\"b\": NaN,"), "found `NaN`");
        check(&in_map("\"b\" 1,"), "line 3: expected `:`, found 1");
        check(&in_map("\"b\\n\": 1,"), "line 3: expected a text without `\\`");
        check(&in_map("1: 1,"), "line 3: expected a key or `}`, found 1");
        check("var prices = map[a]b{\"a\": 1,", "expected a key or `}`, found the end of the file");
        check("var prices = 5", "has no map named `prices`");
        check("var prices = map[a](b){}", "expected the type of a map, found `(`");
    }

    #[test]
    fn hostile_texts_end_with_an_error() {
        check(
            &format!("var prices = map[a]b{{\"a\": {}}}", "{\"a\": ".repeat(1_000_000)),
            "at most 4 literals",
        );
        check(&format!("var prices = map[a]b{{\"{}\": 1}}", "x".repeat(10_000_000)), "at most 256 bytes");
        check(&"prices = ".repeat(1_000_000), "has no map named `prices`");
        let mut text = String::from("var prices = map[a]b{");
        (0..=ENTRIES_MAX).for_each(|_| text.push_str("\"a\":1,"));
        check(&text, "at most 500000 entries");
        check("/* prices = map[a]b{}", "expected the end of a comment");
        check("`prices = map[a]b{}", "expected the end of a text in backquotes");
    }
}
