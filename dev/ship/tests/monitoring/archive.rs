//! The archive of a release: all files, and the same bytes each time.

use std::fs;
use std::process::Command;

use ship::Workshop;
use ship::monitoring::make;

use super::processes::new_folder;

#[test]
fn the_archive_has_all_files_and_is_the_same_twice() {
    let out = new_folder("archive");
    let archive = |folder: &str| {
        let workshop = Workshop {
            root: checkout::workspace(),
            out: out.join(folder),
            binary: out.join("none"),
            static_binary: None,
            speaker: out.join("none"),
            version: "1.2.3".to_owned(),
            epoch_s: 1_700_000_000,
            keys: None,
        };
        fs::create_dir_all(&workshop.out).expect("a folder");
        let artefacts = make(&workshop).expect("an archive");
        artefacts.into_iter().next().expect("one artefact").path
    };
    let (one, other) = (archive("one"), archive("other"));
    assert_eq!(fs::read(&one).expect("readable"), fs::read(&other).expect("readable"));
    let output = Command::new("tar").env("TZ", "UTC").arg("-tzvf").arg(&one).output().expect("run tar");
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    for file in
        ["rules.yaml", "rules.test.yaml", "prometheus.yaml", "dashboards/fleet.json", "dashboards/host.json"]
    {
        let path = format!("evenkeel-monitoring-1.2.3/{file}");
        assert!(list.lines().any(|line| line.ends_with(&path)), "{path} is not in\n{list}");
    }
    let is_of_nobody = |line: &str| line.contains(" 0/0 ") && line.contains(" 2023-11-14 ");
    assert!(list.lines().all(is_of_nobody), "{list}");
}
