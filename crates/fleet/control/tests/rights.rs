//! The table of rights in docs/control/security.md, written from the code.

use control::authorise::{ControlVerb, Permission};
use control::identity::FleetRole;
use std::fmt::Write as _;
use std::path::Path;

const BEGIN: &str = "<!-- rights: EVENKEEL_TEST_WRITE=1 cargo test -p control --test main rights -->\n";
const END: &str = "<!-- end of the rights -->\n";

/// A row for each verb, a column for each role.
fn table() -> String {
    let mut text = String::from("| | no certificate |");
    FleetRole::ALL.iter().for_each(|role| write!(text, " {role} |").expect("memory takes all"));
    writeln!(text, "\n|---|{}", "---|".repeat(FleetRole::ALL.len() + 1)).expect("memory takes all");
    for verb in ControlVerb::ALL {
        write!(text, "| `{verb}` |").expect("memory takes all");
        let roles = FleetRole::ALL.into_iter().map(Some);
        for role in [None].into_iter().chain(roles) {
            let cell = match verb.permission(role) {
                Permission::Always => "yes",
                Permission::Own => "itself",
                Permission::Never => "",
            };
            write!(text, " {cell} |").expect("memory takes all");
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_page_has_the_table_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/control/security.md");
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = text.split_once(BEGIN).expect("the table begins with its marker");
    let (found, after) = rest.split_once(END).expect("the table ends with its marker");
    let wanted = format!("\n{}\n", table());
    if std::env::var_os("EVENKEEL_TEST_WRITE").is_some() {
        std::fs::write(&path, [before, BEGIN, &wanted, END, after].concat())
            .expect("the page can be written");
        return;
    }
    assert_eq!(
        found, wanted,
        "write it anew: EVENKEEL_TEST_WRITE=1 cargo test -p control --test main rights"
    );
}
