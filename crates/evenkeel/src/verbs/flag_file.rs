//! Flags from a file: `evenkeel serve @FILE`, a flag in each line, as in Debian's /etc/memcached.conf.
//!
//! Files come first, so that what is typed behind them counts. Each line is checked by itself, and an error names it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::error::ErrorKind;

use crate::control::read_file;
use crate::failure::Failure;
use crate::process::flag_files::{self, FILE_LEN_MAX};
use crate::terminal::output::COLUMNS_DEFAULT;
use crate::{route, serve};

/// The command line with the flags of its files in their places.
pub(super) fn with_flags_of_files(typed: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let (verb, rest) = typed.split_at(verb_len(typed));
    let is_file = |word: &&OsString| word.as_bytes().starts_with(b"@");
    let files: Vec<&OsString> = rest.iter().take_while(is_file).filter(|_| !verb.is_empty()).collect();
    let mut words = verb.to_vec();
    for file in &files {
        words.extend(flags_of(verb, Path::new(OsStr::from_bytes(&file.as_bytes()[1..])))?);
    }
    words.extend_from_slice(&rest[files.len()..]);
    Ok(words)
}

/// How many words are the program and a verb that takes files; 0 for another verb.
fn verb_len(typed: &[OsString]) -> usize {
    let word = |at: usize| typed.get(at).and_then(|word| word.to_str());
    match (word(1), word(2)) {
        (Some("serve" | "route"), _) => 2,
        (Some("control"), Some("serve")) => 3,
        _ => 0,
    }
}

/// The words of a file's lines.
fn flags_of(verb: &[OsString], path: &Path) -> Result<Vec<OsString>, Failure> {
    let text = read_file(path, FILE_LEN_MAX)?;
    flag_files::note(path, text.as_bytes());
    let mut words = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = || format!("{} line {number}", path.display());
        let flag = words_of(line).map_err(|failure| failure.within(place()))?;
        check(verb, &flag).map_err(|failure| failure.within(place()))?;
        words.extend(flag);
    }
    Ok(words)
}

/// A flag, and its value if one follows: all that is left of the line, without quotes.
fn words_of(line: &str) -> Result<Vec<OsString>, Failure> {
    if !line.starts_with('-') {
        return Err(Failure::usage(
            format!("expected a flag such as `-m 64`, found `{line}`"),
            Some("a file has one flag in each line, with its value behind it, and comments that begin with `#`".into()),
        ));
    }
    let (flag, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let words = [flag, value.trim_start()].into_iter().filter(|word| !word.is_empty());
    Ok(words.map(OsString::from).collect())
}

/// Whether the verb takes this flag, whatever others there are.
fn check(verb: &[OsString], flag: &[OsString]) -> Result<(), Failure> {
    let help = || Failure::usage("expected a flag of a start, found one that prints a text", None);
    match verb[1].to_str() {
        Some("serve") => match server::flags::TABLE.parse(flag.iter().cloned()) {
            Err(server::flags::Error::Asked(_)) => Err(help()),
            parsed => parsed.map(drop).map_err(serve::refused),
        },
        Some("route") => {
            let (known, _) = router::flags::known(flag.iter().cloned());
            match router::flags::TABLE.parse(known) {
                Err(router::flags::Error::Asked(_)) => Err(help()),
                parsed => parsed.map(drop).map_err(route::refused),
            }
        }
        _ => {
            let words: Vec<OsString> = verb.iter().chain(flag).cloned().collect();
            match super::command(COLUMNS_DEFAULT).try_get_matches_from(&words) {
                Err(error) if !error.use_stderr() => Err(help()),
                // That is for the whole command line to say.
                Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => Ok(()),
                Err(error) => super::refused(error, &words).map(drop),
                Ok(_) => Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is there for one test.
    struct FlagFile(std::path::PathBuf);

    impl FlagFile {
        fn new(name: &str, text: &str) -> FlagFile {
            let path = std::env::temp_dir().join(format!("evenkeel-flags-{}-{name}", std::process::id()));
            std::fs::write(&path, text).expect("a file");
            FlagFile(path)
        }
    }

    impl Drop for FlagFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn read(line: &str) -> Result<String, String> {
        let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let words = with_flags_of_files(&typed).map_err(|failure| failure.to_string())?;
        Ok(words.join(OsStr::new(" ")).into_string().expect("text"))
    }

    #[test]
    fn a_file_has_a_flag_in_each_line() {
        let file = FlagFile::new(
            "plain",
            "# Memory\n-m 64\n\n  -vv\n--conn-limit=5\n-o idle_timeout=5, modern\n-l ::1",
        );
        let path = file.0.display();
        let expected = "evenkeel serve -m 64 -vv --conn-limit=5 -o idle_timeout=5, modern -l ::1 -m 128";
        assert_eq!(read(&format!("evenkeel serve @{path} -m 128")), Ok(expected.to_owned()));
        assert_eq!(read("evenkeel serve -m 64 @x"), Ok("evenkeel serve -m 64 @x".to_owned()));
        assert_eq!(read("evenkeel lab run @x"), Ok("evenkeel lab run @x".to_owned()));
    }

    #[test]
    fn what_is_typed_behind_a_file_counts() {
        let file = FlagFile::new("override", "--zone a\n--register directory:/r");
        let line = format!("evenkeel control serve @{} --zone b", file.0.display());
        let words = read(&line).expect("flags");
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let matches = super::super::command(COLUMNS_DEFAULT).try_get_matches_from(words).expect("accepted");
        let serve =
            matches.subcommand_matches("control").and_then(|control| control.subcommand_matches("serve"));
        let zone = serve.and_then(|serve| serve.get_raw("zone")).and_then(|mut zones| zones.next_back());
        assert_eq!(zone, Some(OsStr::new("b")));
    }

    #[test]
    fn a_line_that_is_no_flag_is_named() {
        #[track_caller]
        fn check(verb: &str, text: &str, line: u32, error: &str) {
            let file = FlagFile::new(&format!("{}-{line}", verb.replace(' ', "-")), text);
            let found = read(&format!("evenkeel {verb} @{}", file.0.display()));
            assert_eq!(found, Err(format!("{} line {line}: {error}", file.0.display())), "{text}");
        }
        check("serve", "-m 64\n--memroy 5", 2, "unknown flag `--memroy`");
        check("serve", "-c x", 1, "-c: expected a number from 1 to 10000000, found `x`");
        check(
            "serve",
            "# \n\nlogfile /var/log/memcached.log",
            3,
            "expected a flag such as `-m 64`, found `logfile /var/log/memcached.log`",
        );
        check("serve", "\n\n\n--help", 4, "expected a flag of a start, found one that prints a text");
        check(
            "route",
            "-p 5000\n--num-proxies 0",
            2,
            "--num-proxies: expected a number from 1 to 1024, found `0`",
        );
        check("control serve", "--zone a\n--lsten 1:2", 2, "unexpected argument '--lsten' found");
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error() {
        assert!(
            read("evenkeel serve @/nowhere/serve.conf")
                .expect_err("missing")
                .starts_with("read /nowhere/serve.conf")
        );
    }
}
