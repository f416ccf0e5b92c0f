//! File systems that are full, or that cannot do what is asked of them. Each is mounted where nobody else sees it.

use crate::{Folder, MIB, check_use, close, open, open_path, run, specification, with_own_mounts};
use flash::Devices;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Runs `test` in the root of a file system that `mount` makes with these arguments and a directory. Without, the test is
/// left out, which is said.
fn with_file_system(arguments: &'static [&'static str], test: impl FnOnce(&Path) + Send + 'static) {
    with_own_mounts(move || {
        let folder = Folder::new();
        let root = folder.path("root");
        fs::create_dir(&root).expect("a directory");
        let root_name = root.to_str().expect("text");
        if let Err(why) = run("mount", &[arguments, &[root_name]].concat()) {
            return eprintln!("left out: no such file system can be mounted here: {why}");
        }
        test(&root);
        // Lazily: a process that is being started may have its files open for a moment.
        run("umount", &["--lazy", root_name]).expect("it is mounted");
    });
}

/// The same in an ext4 of 32 MiB, made and mounted with these options.
fn with_ext4(
    make: &'static [&'static str],
    options: &'static str,
    test: impl FnOnce(&Path) + Send + 'static,
) {
    with_own_mounts(move || {
        let folder = Folder::new();
        let (image, root) = (folder.path("image"), folder.path("root"));
        fs::create_dir(&root).expect("a directory");
        File::create(&image).and_then(|file| file.set_len(32 * MIB)).expect("a file");
        let (image, root_name) = (image.to_str().expect("text"), root.to_str().expect("text"));
        let made = run("mkfs.ext4", &[&["-q", "-F"], make, &[image]].concat());
        // The loop device ends with the mount.
        if let Err(why) = made.and_then(|_| run("mount", &["-o", options, image, root_name])) {
            return eprintln!("left out: no such file system can be mounted here: {why}");
        }
        test(&root);
        // Lazily: a process that is being started may have its files open for a moment.
        run("umount", &["--lazy", root_name]).expect("it is mounted");
    });
}

#[track_caller]
fn check_no_room(path: &Path, bytes: u64, begin: &str) {
    let error = open(path, bytes).expect_err("no room").to_string();
    close(());
    let error = error.replace(path.to_str().expect("text"), "PATH");
    assert!(error.starts_with(begin) && error.contains("\n  hint: name a smaller size"), "{error}");
}

#[test]
fn a_file_that_does_not_fit_is_refused_before_the_disk_is_full() {
    with_file_system(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"], |root| {
        fs::write(root.join("other"), vec![1; 2 * MIB as usize]).expect("there is room");
        let path = root.join("a");
        let message =
            "reserve 7340032 bytes for PATH: 7340032 are missing, and its file system has 6291456 free";
        check_no_room(&path, 7 * MIB, message);
        assert_eq!(fs::metadata(&path).expect("a file").blocks(), 0, "what was created is emptied");
        close(open(&path, 6 * MIB).expect("it fits exactly"));
        close(open(&path, 6 * MIB).expect("a file that has its blocks needs no room"));
        let sparse = root.join("sparse");
        File::create(&sparse).and_then(|file| file.set_len(7 * MIB)).expect("a sparse file");
        let message = "reserve 7340032 bytes for PATH: 7340032 are missing, and its file system has 0 free";
        check_no_room(&sparse, 7 * MIB, message);
        assert_eq!(fs::metadata(&sparse).expect("still there").len(), 7 * MIB);
    });
}

#[test]
fn a_disk_that_fills_up_later_takes_nothing_from_the_file() {
    with_ext4(&[], "loop", |root| {
        let (devices, warnings) = Devices::open(&[specification(&root.join("a"), 8 * MIB)], MIB, &open_path)
            .expect("there is room");
        assert!(warnings.is_empty() && devices[0].is_direct(), "{warnings:?}");
        let full = fs::write(root.join("other"), vec![1; 64 * MIB as usize]).expect_err("it is full");
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        check_use(&devices, 0);
        check_no_room(&root.join("b"), 8 * MIB, "reserve 8388608 bytes for PATH: 8388608 are missing");
    });
}

#[test]
fn a_reservation_that_fails_leaves_the_file_as_it_was() {
    // The blocks that hold the list of a file's blocks are not counted before.
    with_ext4(&["-b", "1024", "-m", "0"], "loop", |root| {
        // Free space in many pieces, so that the list is long.
        let pieces = (0..).map(|number| root.join(format!("piece-{number}")));
        let pieces: Vec<_> = pieces.take_while(|path| fs::write(path, [1; 3000]).is_ok()).collect();
        pieces.iter().step_by(2).for_each(|path| fs::remove_file(path).expect("it is there"));
        let path = root.join("a");
        fs::write(&path, "").expect("there is room");
        let free = run("stat", &["--file-system", "--format", "%a", root.to_str().expect("text")])
            .expect("free blocks");
        let bytes = (free.parse::<u64>().expect("a number") * 1024).next_multiple_of(MIB) - MIB;
        assert!(bytes >= 4 * MIB, "{free} blocks are free");
        // Another file takes what is beyond whole pages, but for the little that is not enough for the list.
        let spare = free.parse::<u64>().expect("a number") * 1024 - bytes;
        if let Some(taken) = spare.checked_sub(16 << 10) {
            fs::write(root.join("taken"), vec![1; taken as usize]).expect("there is room");
        }
        let before = fs::metadata(&path).expect("a file").blocks();
        match open(&path, bytes) {
            Ok(_) => eprintln!("left out: the file system found room for the list"),
            Err(error) => {
                assert!(error.to_string().contains("its file system has"), "{error}");
                assert_eq!(fs::read(&path).expect("read"), b"");
                assert!(fs::metadata(&path).expect("a file").blocks() <= before + 16, "given back");
            }
        }
    });
}

#[test]
fn a_file_system_that_reserves_no_blocks_gives_a_warning() {
    // ext4 without extents has no fallocate.
    with_ext4(&["-O", "^extents,^64bit"], "loop", |root| {
        let path = root.join("a");
        let (devices, warnings) =
            Devices::open(&[specification(&path, 4 * MIB)], MIB, &open_path).expect("a file");
        let expected = format!(
            "the file system of {} cannot reserve blocks: writes fail when it is full",
            path.display()
        );
        assert_eq!(warnings, [expected]);
        assert_eq!(fs::metadata(&path).expect("a file").len(), 4 * MIB);
        check_use(&devices, 0);
    });
}

#[test]
fn a_file_system_without_direct_reads_gives_a_warning() {
    with_ext4(&[], "loop,data=journal", |root| {
        let path = root.join("a");
        let (devices, warnings) =
            Devices::open(&[specification(&path, 4 * MIB)], MIB, &open_path).expect("a file");
        assert!(!devices[0].is_direct());
        let expected = format!(
            "{} cannot be read and written directly (O_DIRECT): what is read and written takes memory in the page cache",
            path.display()
        );
        assert_eq!(warnings, [expected]);
        check_use(&devices, 0);
    });
}

#[test]
fn a_file_system_that_refuses_the_flag_is_used_without() {
    with_file_system(&["-t", "ramfs", "ramfs"], |root| {
        let (devices, warnings) =
            Devices::open(&[specification(&root.join("a"), 4 * MIB)], MIB, &open_path).expect("a file");
        assert!(!devices[0].is_direct());
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        check_use(&devices, 0);
    });
}

#[test]
fn a_file_system_that_is_read_only_is_refused() {
    with_file_system(&["-t", "tmpfs", "-o", "ro", "tmpfs"], |root| {
        crate::check_refused(
            &root.join("a"),
            2 * MIB,
            "open PATH to read and write",
            Some("Read-only file system"),
        );
    });
}
