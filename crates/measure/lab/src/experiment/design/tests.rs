//! Cells of made-up designs, and the baseline of each.

use super::*;

/// An experiment of these subjects and factors.
fn design(subjects: &[&str], factors: &str) -> Design {
    let subjects: String = subjects
        .iter()
        .map(|name| format!("[[subject]]\nname = \"{name}\"\nstart = \"{name} {{flags}}\"\n"))
        .collect();
    let text = format!(
        "question = \"?\"\n{subjects}{factors}\n[workload]\nrun = \"load {{threads}}\"\nparser = \"sysbench\"\nseconds = 5\n[measure]\nprimary = \"p99_us\"\nbetter = \"lower\"\n"
    );
    Design::of(&Experiment::parse(&text).expect("an experiment"))
}

const THREADS: &str = r#"
[[factor]]
name = "threads"
level = [{ name = "16", set = { threads = "16" } }, { name = "32", set = { threads = "32" } }]
"#;

const ALLOCATOR: &str = r#"
[[factor]]
name = "allocator"
level = [{ name = "glibc" }, { name = "jemalloc", env = { LD_PRELOAD = "libjemalloc.so.2" } }]
"#;

#[track_caller]
fn check(design: &Design, wanted: &[&str]) {
    let compared =
        design.cells.iter().map(|cell| format!("{} : {}", cell.name(), design.baseline(cell).name()));
    assert_eq!(compared.collect::<Vec<_>>(), wanted);
}

#[test]
fn what_changes_only_the_load_is_a_condition() {
    let both = format!("{THREADS}{ALLOCATOR}");
    check(
        &design(&["mariadb"], &both),
        &[
            "allocator=glibc, threads=16 : allocator=glibc, threads=16",
            "allocator=jemalloc, threads=16 : allocator=glibc, threads=16",
            "allocator=glibc, threads=32 : allocator=glibc, threads=32",
            "allocator=jemalloc, threads=32 : allocator=glibc, threads=32",
        ],
    );
}

#[test]
fn a_word_of_the_subject_is_a_treatment() {
    let flags = THREADS.replace("threads", "flags");
    check(&design(&["memcached"], &flags), &["flags=16 : flags=16", "flags=32 : flags=16"]);
}

#[test]
fn subjects_are_compared_under_each_load() {
    check(
        &design(&["epoll", "io_uring"], THREADS),
        &[
            "epoll, threads=16 : epoll, threads=16",
            "io_uring, threads=16 : epoll, threads=16",
            "epoll, threads=32 : epoll, threads=32",
            "io_uring, threads=32 : epoll, threads=32",
        ],
    );
}

#[test]
fn where_only_the_load_varies_it_is_the_question() {
    check(&design(&["memcached"], THREADS), &["threads=16 : threads=16", "threads=32 : threads=16"]);
}
