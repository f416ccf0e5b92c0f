//! `evenkeel lab report --publish` writes the page of an experiment, its pictures and its row in an index.

use std::fs;

use crate::lab::{EXPERIMENT, check, directory, lab, run};

#[test]
fn a_published_run_has_a_page_pictures_values_and_a_row() {
    let directory = directory("lab-published");
    let night = run(&directory, 1, 120.0);
    let intro = "# Whether it is as quick.\n#\n#     evenkeel lab run quick.toml\n#\n# It takes a night.\n";
    fs::write(directory.join("quick.toml"), format!("{intro}{EXPERIMENT}")).expect("written");
    // What a run with changes by the command line has at its beginning is not what readers look for.
    fs::write(night.join("experiment.toml"), format!("# As it was carried out.\n{EXPERIMENT}"))
        .expect("written");
    let publish = ["report", "night-1", "--publish", "pages", "--experiment", "quick.toml"];
    check(&lab(&directory, &publish), 0);
    let read = |name: &str| {
        fs::read_to_string(directory.join("pages").join(name)).unwrap_or_else(|_| panic!("{name}"))
    };
    let page = read("quick.md");
    for part in [
        "# quick: Is it as quick as yesterday?\n",
        "Whether it is as quick.\n\n    evenkeel lab run quick.toml\n\nIt takes a night.\n",
        "* theirs is worse: requests/CPU-s -16.6 %",
        "![requests/CPU-s of each cell](quick/cells-requests_per_cpu_second.svg)",
        "| cell | trials | median |",
        "```\nevenkeel lab run quick.toml\n```",
        "| host | here |",
        "[report.json](quick/report.json)",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("differences from that file"), "{page}");
    let pictures = page.matches(".svg)").count();
    let files = || fs::read_dir(directory.join("pages/quick")).expect("a directory").flatten().count();
    assert_eq!(files(), pictures + 1, "the pictures of the page and the values");
    assert!(read("quick/report.json").contains("\"format\":1"));
    let row = "| [quick](quick.md) | Is it as quick as yesterday? | theirs is worse:";
    assert!(read("README.md").contains(row), "{}", read("README.md"));

    // Another experiment has a row beside it, and the same one is replaced, with what has changed meanwhile.
    let index = read("README.md").replace("# Experiments and their results", "# What we know");
    fs::write(
        directory.join("pages/README.md"),
        index.replace("| [quick]", "| [zeal](zeal.md) | | | |\n| [quick]"),
    )
    .expect("written");
    fs::write(directory.join("pages/quick/of-an-earlier-run.svg"), "<svg/>").expect("written");
    fs::write(directory.join("quick.toml"), EXPERIMENT.replace("seconds = 1", "seconds = 60"))
        .expect("written");
    check(&lab(&directory, &publish), 0);
    let index = read("README.md");
    assert!(index.starts_with("# What we know\n") && index.matches("(quick.md)").count() == 1, "{index}");
    assert!(index.find("[quick]") < index.find("[zeal]"), "{index}");
    assert_eq!(files(), pictures + 1, "pictures of earlier runs are gone");
    let difference = "differences from that file: workload.seconds was 60 and is 1.";
    assert!(read("quick.md").contains(difference), "{}", read("quick.md"));
}

#[test]
fn what_readers_could_not_repeat_is_not_published() {
    let directory = directory("lab-unpublished");
    run(&directory, 1, 120.0);
    let output = lab(&directory, &["report", "night-1", "--publish", "pages"]);
    check(&output, 71);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("read night-1.toml") && error.contains("hint: `--experiment FILE`"), "{error}");
    fs::create_dir(directory.join("pages")).expect("a directory");
    fs::write(directory.join("pages/README.md"), "# By hand\n").expect("written");
    fs::write(directory.join("night-1.toml"), EXPERIMENT).expect("written");
    let output = lab(&directory, &["report", "night-1", "--publish", "pages"]);
    check(&output, 1);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("pages/README.md has no place for a table of experiments"), "{error}");
    assert!(!directory.join("pages/night-1.md").exists(), "nothing is written");
}
