//! Journals of `evenkeel tune`, edited as somebody would who knows how their checksums are made.

use std::path::Path;
use std::process::Command;

/// For scripts: `edit FILE SED` changes lines of a journal and gives them the checksums that they then have, which gzip
/// makes: the first four of its last eight bytes.
pub(crate) const EDIT: &str = r#"edit() {
    while IFS= read -r line; do
        line=$(printf '%s' "$line" | sed -e 's/,"crc32":.*/}/' -e "$2")
        sum=$(printf '%s' "$line" | gzip -c | tail -c 8 | od -An -N4 -tu1 | while read -r a b c d; do
            printf '%02x%02x%02x%02x' "$d" "$c" "$b" "$a"; done)
        printf '%s,"crc32":"%s"}\n' "${line%\}}" "$sum"
    done < "$1" > "$1.new"
    mv "$1.new" "$1"
}
let_pass() { edit "$1" 's/"confirm_by_ms":[0-9]*/"confirm_by_ms":1/'; }"#;

/// Edits a journal. Whoever reads it meanwhile finds either the one or the other.
#[track_caller]
pub(crate) fn edit(journal: &Path, sed: &str) {
    let script = format!("set -eu\n{EDIT}\nedit \"$1\" \"$2\"");
    let status = Command::new("sh").args(["-c", &script, "sh"]).arg(journal).arg(sed).status();
    assert!(status.expect("a shell").success());
}
