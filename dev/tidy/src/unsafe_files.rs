//! Files that may hold `unsafe`: the lint `unsafe_code` is lifted in these alone.
//!
//! The compiler refuses `unsafe` everywhere else (`Cargo.toml`, `unsafe_code = "deny"`).

/// A new file here is a new place to prove: ask first whether one of these can do it.
const ALLOWED: [&str; 25] = [
    "crates/evenkeel/src/process/sys.rs",
    "crates/measure/load/src/engine/uring.rs",
    "crates/measure/load/src/engine/uring/buffers.rs",
    "crates/measure/load/src/engine/uring/stamps.rs",
    "crates/cache/net/src/kernel/busy_poll.rs",
    "crates/cache/net/src/files/file_ring.rs",
    "crates/cache/net/src/files/registered_blocks.rs",
    "crates/cache/net/src/secure/kernel_tls.rs",
    "crates/cache/net/src/sockets/receive_stamp.rs",
    "crates/cache/net/src/sockets/segments.rs",
    "crates/cache/net/src/sockets/socket_option.rs",
    "crates/cache/net/src/kernel/uring.rs",
    "crates/cache/xdp/src/frames.rs",
    "crates/cache/xdp/src/port.rs",
    "crates/cache/xdp/src/rings.rs",
    "crates/cache/xdp/src/sys.rs",
    "crates/base/os/src/scheduling.rs",
    "crates/base/os/src/signals.rs",
    "crates/fleet/router/tests/support/counting.rs",
    "crates/cache/store/src/memory/large.rs",
    "crates/cache/store/src/memory/system.rs",
    "crates/cache/store/src/segment/record.rs",
    "crates/host/tuner/src/observe/ethtool.rs",
    "crates/host/tuner/src/observe/listening.rs",
    "crates/host/tuner/src/observe/network_namespace.rs",
];

/// Files that lift the lint without being in the table, and those of the table that do not lift it.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    let lifts = |text: &str| text.lines().any(lifts_lint);
    let forbidden = files.iter().filter(|(path, text)| lifts(text) && !ALLOWED.contains(&path.as_str()));
    let forbidden =
        forbidden.map(|(path, _)| format!("{path} lifts `unsafe_code` and is not in the table of {TABLE}"));
    let has = |allowed: &str| files.iter().any(|(path, text)| path == allowed && lifts(text));
    let unused = ALLOWED.iter().filter(|allowed| !has(allowed));
    let unused = unused.map(|path| format!("{path} does not lift `unsafe_code`: take it out of {TABLE}"));
    forbidden.chain(unused).collect()
}

const TABLE: &str = "dev/tidy/src/unsafe_files.rs";

/// `#[expect(unsafe_code, …)]`, `#![allow(dead_code, unsafe_code)]` and the like.
fn lifts_lint(line: &str) -> bool {
    let code = line.trim_start();
    let lint_levels = ["expect(", "allow(", "warn("];
    code.starts_with('#')
        && code.contains("unsafe_code")
        && lint_levels.iter().any(|level| code.contains(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(String, String)> {
        let text = "#![expect(unsafe_code, reason = \"x\")]\n".to_owned();
        ALLOWED.iter().map(|path| ((*path).to_owned(), text.clone())).collect()
    }

    #[test]
    fn the_table_and_the_files_agree() {
        assert_eq!(check(&all()), Vec::<String>::new());
        let mut files = all();
        files.push(("crates/a/src/b.rs".to_owned(), "    #[allow(unsafe_code)]".to_owned()));
        files.push(("crates/a/src/c.rs".to_owned(), "// no unsafe_code here".to_owned()));
        assert_eq!(
            check(&files),
            [format!("crates/a/src/b.rs lifts `unsafe_code` and is not in the table of {TABLE}")]
        );
    }

    #[test]
    fn a_file_without_unsafe_code_leaves_the_table() {
        let mut files = all();
        files[0].1.clear();
        let gone = format!("{} does not lift `unsafe_code`: take it out of {TABLE}", ALLOWED[0]);
        assert_eq!(check(&files), [gone]);
    }
}
