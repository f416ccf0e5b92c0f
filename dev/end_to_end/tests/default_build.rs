//! The program as built by default: without PostgreSQL's client, which other tests have.

use std::fs;
use std::process::Command;

use end_to_end::subject::{ServerUnderTest, SocketDriver};

#[test]
fn a_database_is_refused_with_a_hint_about_the_feature() {
    let directory = std::env::temp_dir().join(format!("evenkeel-lab-not-built-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    for scheme in ["postgres://", "postgresql://"] {
        let url = format!("{scheme}bench:hush@db.invalid/lab");
        for job in ["history", "gate"] {
            let mut command = Command::new(ServerUnderTest::evenkeel(SocketDriver::Epoll).program);
            command.args(["lab", job, "--store", &url]).current_dir(&directory);
            let output = command.output().expect("run it");
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            let wanted = format!(
                "evenkeel: lab: use the history {scheme}…: this program is built without shared histories\n  hint: `cargo \
                 build --release --features shared-history` builds one"
            );
            assert!(error.starts_with(&wanted) && !error.contains("hush"), "{error}");
        }
    }
    assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 0, "and no file of that name is made");
    fs::remove_dir(&directory).expect("it is empty");
}
