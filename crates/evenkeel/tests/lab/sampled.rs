//! A history in a file, of runs that perf has sampled: the functions that grew, and its page.

use std::fs;
use std::path::Path;

use crate::lab::{EXPERIMENT, check, directory, lab, run};

/// A run of both subjects, theirs pinned, with perf's samples of each; `samples` is the number of ours in `name`.
fn sampled(directory: &Path, night: u32, ours: f64, name: &str, samples: u64) -> String {
    let run = run(directory, night, ours);
    let pinned = EXPERIMENT.replace("start = \"theirs\"", "start = \"theirs\"\npinned = true");
    fs::write(run.join("experiment.toml"), pinned).expect("written");
    fs::create_dir_all(run.join("profiles")).expect("a directory");
    let profile = |cell: &str, us: f64, samples: u64| {
        format!(
            r#"{{"cell": "{cell}", "request_us": {us}, "functions": {{"{name}": {samples}, "parse (it)": 9000}}}}"#
        )
    };
    fs::write(run.join("profiles/0000.json"), profile("ours", 1e6 / ours, samples)).expect("written");
    fs::write(run.join("profiles/0001.json"), profile("theirs", 1e4, 500)).expect("written");
    format!("night-{night}")
}

#[test]
fn a_gate_reads_from_the_file_which_functions_grew() {
    let directory = directory("lab-gate-functions");
    for night in 0..16 {
        let (ours, samples) = if night < 10 { (120.0, 1000) } else { (105.0, 2400) };
        let run = sampled(&directory, night, ours, "hash (it)", samples);
        let gate = lab(&directory, &["gate", &run, "--commit", &format!("c{night}")]);
        assert!(matches!(gate.status.code(), Some(0 | 19)), "{gate:?}");
    }
    // The runs themselves are gone: only the history is left.
    for night in 0..16 {
        fs::remove_dir_all(directory.join(format!("night-{night}"))).expect("removed");
    }
    let said = check(&lab(&directory, &["gate"]), 19);
    let (_, grown) = said.split_once("  Where (").expect("functions");
    assert!(
        grown.starts_with("µs of CPU time for each request; 10000 samples at c9 and 11400 at c10):\n"),
        "{said}"
    );
    assert!(grown.contains("  hash (it)\n") && !grown.contains("parse (it)"), "{said}");
}

#[test]
fn a_history_without_profiles_reports_how_to_record_them() {
    let directory = directory("lab-gate-no-functions");
    for night in 0..16 {
        run(&directory, night, if night < 10 { 120.0 } else { 105.0 });
        let (night, commit) = (format!("night-{night}"), format!("c{night}"));
        check(&lab(&directory, &["history", "--add", &night, "--commit", &commit]), 0);
    }
    let said = check(&lab(&directory, &["gate"]), 19);
    assert!(said.contains("  Where: no run before has a profile; `profile = true` in [measure]"), "{said}");
}

/// A symbol may be any text: also a control sequence of a terminal, or markup of a page.
#[test]
fn a_function_of_any_name_is_printed_as_text() {
    let directory = directory("lab-gate-names");
    for night in 0..16 {
        let (ours, samples) = if night < 10 { (120.0, 1000) } else { (105.0, 2400) };
        let run = sampled(&directory, night, ours, "a\\u001b[2Jb\\nGood at c15<script>", samples);
        check(&lab(&directory, &["history", "--add", &run, "--commit", &format!("c{night}")]), 0);
    }
    let said = check(&lab(&directory, &["gate"]), 19);
    assert!(!said.contains('\u{1b}') && !said.contains("\nGood at c15"), "{said:?}");
}

#[test]
fn the_page_of_a_history_in_a_file_is_written() {
    let directory = directory("lab-history-page");
    let page = |name: &str| fs::read_to_string(directory.join(name)).expect("a page");
    check(&lab(&directory, &["history", "--html", "empty.html"]), 0);
    assert!(page("empty.html").contains("No run is kept yet."));
    for night in 0..16 {
        run(&directory, night, if night < 10 { 120.0 } else { 105.0 });
        let (night, commit) = (format!("night-{night}"), format!("<b>c{night}&"));
        check(&lab(&directory, &["history", "--add", &night, "--commit", &commit]), 0);
    }
    let said = check(&lab(&directory, &["history", "--html", "page.html"]), 0);
    assert!(said.contains("<b>c15&"), "{said}");
    let page = page("page.html");
    assert!(page.contains("<svg") && page.ends_with("</body></html>\n"), "{page}");
    assert!(
        page.contains("between &lt;b&gt;c9&amp; and &lt;b&gt;c10&amp;") && !page.contains("<b>c"),
        "{page}"
    );
    let refused = lab(&directory, &["history", "--html", "nowhere/page.html"]);
    check(&refused, 71);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.starts_with("evenkeel: lab: write nowhere/page.html: No such file"), "{error}");
}
