//! Options of mcrouter's lists, held to the table of flags: name, letter, and whether a value follows.
//!
//! Without the last, the words behind an option would be read as something else.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use router::flags::TABLE;

use super::tally::Tally;

/// The lists in a checkout.
const LISTS: [&str; 2] = ["mcrouter/mcrouter_options_list.h", "mcrouter/standalone_options_list.h"];

/// What stands before the name of each macro.
const MACRO: &str = "MCROUTER_OPTION";

/// An option of a command line.
#[derive(Debug, PartialEq, Eq)]
struct McrouterOption {
    name: String,
    letter: Option<char>,
    /// A switch has a value only behind `=`.
    is_switch: bool,
}

/// Each option is one here, too.
pub(super) fn check(checkout: &Path, tally: &mut Tally) -> Result<()> {
    for list in LISTS {
        let path = checkout.join(list);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let options = options(&text);
        ensure!(options.len() > 10, "no options in {}", path.display());
        for option in options {
            tally.count(&format!("--{}", option.name), known(&option));
        }
    }
    Ok(())
}

fn known(option: &McrouterOption) -> std::result::Result<(), String> {
    let flag = TABLE.flags().find(|flag| flag.name == option.name);
    let flag = flag.ok_or("expected a flag of this name, found none")?;
    let described = |letter: Option<char>, is_switch: bool| {
        let letter = letter.map_or("no letter".to_owned(), |letter| format!("-{letter}"));
        format!("{letter} and {}", if is_switch { "no value" } else { "a value" })
    };
    let (expected, found) =
        (described(option.letter, option.is_switch), described(flag.short, !flag.kind.takes_value()));
    if expected == found { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
}

/// The options of a list that can stand on a command line.
fn options(text: &str) -> Vec<McrouterOption> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let text: String = lines.map(|line| format!("{}\n", line.split("//").next().unwrap_or(line))).collect();
    text.split(MACRO).skip(1).filter_map(option).collect()
}

/// `_KIND(…, "name", letter, "text")`
fn option(text: &str) -> Option<McrouterOption> {
    let (kind, text) = text.split_once('(')?;
    let words = arguments(text);
    // Types and defaults differ in number; the letter follows the name.
    let at = words.iter().position(|word| word == "no_short" || word.starts_with('\''))?;
    let name = words.get(at.checked_sub(1)?)?.strip_prefix('"')?.strip_suffix('"')?;
    Some(McrouterOption {
        name: name.to_owned(),
        letter: words[at].strip_prefix('\'').and_then(|rest| rest.chars().next()),
        is_switch: kind == "_TOGGLE",
    })
}

/// What stands between commas, up to the closing bracket.
fn arguments(text: &str) -> Vec<String> {
    let (mut words, mut depth, mut is_text) = (vec![String::new()], 0, false);
    for letter in text.chars() {
        match letter {
            '"' => is_text = !is_text,
            '(' if !is_text => depth += 1,
            ')' if !is_text && depth == 0 => break,
            ')' if !is_text => depth -= 1,
            ',' if !is_text && depth == 0 => {
                words.push(String::new());
                continue;
            }
            _ => {}
        }
        words.last_mut().expect("one is there").push(letter);
    }
    words.into_iter().map(|word| word.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_list_have_a_name_a_letter_and_a_value_or_none() {
        let list = "#define MCROUTER_OPTION_GROUP(_sep)\n\
            MCROUTER_OPTION_GROUP(\"Food, and drink\")\n\
            MCROUTER_OPTION_STRING(\n  soup_kind, \"\", // its default\n  \"soup\", 's', \"Soup (hot), \"\n  \"and more\")\n\
            MCROUTER_OPTION_TOGGLE(salt, false, \"salt\", no_short, \"\")\n\
            MCROUTER_OPTION_INTEGER(int, bread, 12 * (60 + 1), \"bread\", no_short, \"\")\n\
            MCROUTER_OPTION(ns::Kind, wine, ns::Kind(\"/./\"), \"wine\", 'W', \"\", kind)\n\
            MCROUTER_OPTION_STRING_MAP(spices, \"spices\", no_short, \"\")\n\
            MCROUTER_OPTION_INTEGER(int, inner, 0, no_long, no_short, \"not on a command line\")\n";
        let option = |name: &str, letter, is_switch| McrouterOption { name: name.into(), letter, is_switch };
        assert_eq!(
            options(list),
            [
                option("soup", Some('s'), false),
                option("salt", None, true),
                option("bread", None, false),
                option("wine", Some('W'), false),
                option("spices", None, false),
            ]
        );
    }

    #[test]
    fn an_option_is_known_by_its_name_its_letter_and_its_value() {
        let check = |name: &str, letter, is_switch, expected: std::result::Result<(), &str>| {
            let option = McrouterOption { name: name.into(), letter, is_switch };
            assert_eq!(known(&option), expected.map_err(str::to_owned), "{name}");
        };
        check("route-prefix", Some('R'), false, Ok(()));
        check("enable-flush-cmd", None, true, Ok(()));
        check("frobnicate", None, true, Err("expected a flag of this name, found none"));
        check(
            "enable-flush-cmd",
            Some('x'),
            true,
            Err("expected -x and no value, found no letter and no value"),
        );
        check("port", Some('p'), true, Err("expected -p and no value, found -p and a value"));
    }
}
