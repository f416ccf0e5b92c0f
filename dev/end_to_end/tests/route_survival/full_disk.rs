//! A full disk under the async log.

use super::*;
use std::process::Command;

#[track_caller]
fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("run");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// All lines of the log.
fn lines(folder: &Path) -> Vec<String> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
    };
    let hours = entries(folder).into_iter().filter(|path| path.is_dir());
    let files = hours.flat_map(|hour| entries(&hour));
    let texts = files.map(|file| std::fs::read_to_string(file).expect("text"));
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn deletes_are_answered_with_their_error_while_the_disk_is_full_and_none_is_in_the_log_by_halves() {
    if !rustix::process::getuid().is_root() {
        eprintln!("a disk of its own needs root");
        return;
    }
    // The thread of the test may be used for others, too.
    let with_a_disk = std::thread::spawn(|| {
        #[expect(deprecated, reason = "unsafe only where file descriptors are unshared")]
        rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).expect("a mount namespace");
        let folder = Folder::new();
        let disk = folder.0.to_str().expect("text");
        run("mount", &["--make-rprivate", "/"]);
        run("mount", &["-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]);
        let server = evenkeel();
        let configuration = pool([&server]);
        let router = router(&configuration, &["--async-dir", disk, "--router-name=r"]);
        let mut client = client(&router);
        drop(server);
        let (mut written, mut refused) = (Vec::new(), 0);
        let mut number = 0;
        let mut delete = |written: &mut Vec<String>, refused: &mut usize| {
            number += 1;
            let answer = client.ask(format!("delete key{number}\r\n").as_bytes()).expect("an answer");
            match &*answer {
                "NOT_FOUND" => written.push(format!(r#""delete key{number}\r\n"]]"#)),
                _ if answer.starts_with("SERVER_ERROR ") => *refused += 1,
                _ => panic!("{answer}"),
            }
        };
        while refused < 10 {
            delete(&mut written, &mut refused);
            assert!(written.len() < 64 << 10, "the disk never gets full");
        }
        assert!(written.len() > 100, "{} were written before", written.len());
        says(&router, "deletes cannot be written to");
        let check = |written: &[String]| {
            let lines = lines(&folder.0);
            assert_eq!(lines.len(), written.len());
            for (line, expected) in lines.iter().zip(written) {
                assert!(line.starts_with(r#"["AS1.0","#) && line.ends_with(expected), "{line}");
            }
        };
        check(&written);
        // Somebody makes room.
        run("mount", &["-o", "remount,size=256k", disk]);
        let full = written.len();
        while written.len() < full + 10 {
            delete(&mut written, &mut refused);
            assert!(refused < 10_000, "room does not help");
        }
        let mut lines = lines(&folder.0);
        lines.sort();
        assert_eq!(lines.len(), written.len());
        drop(router);
        run("umount", &[disk]);
    });
    with_a_disk.join().expect("no failure");
}
