//! Regular files, and what is none.

use crate::{Folder, MIB, check_refused, check_use, open, open_path, specification};
use flash::{Bucket, Devices};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

#[test]
fn a_file_is_created_for_its_owner_with_all_of_its_blocks() {
    let folder = Folder::new();
    let path = folder.path("new");
    let opened = open(&path, 4 * MIB + 5).expect("a file");
    let metadata = fs::metadata(&path).expect("it is there");
    assert_eq!((metadata.len(), metadata.permissions().mode() & 0o777), (4 * MIB, 0o600));
    assert!(metadata.blocks() * 512 >= 4 * MIB, "{} blocks", metadata.blocks());
    let device = &opened.device;
    assert_eq!((device.bytes(), device.bucket(), device.path()), (4 * MIB, Bucket::Default, &*path));
}

#[test]
fn several_files_are_one_disk() {
    let folder = Folder::new();
    let specifications = [3, 2].map(|mib| specification(&folder.path(&mib.to_string()), mib * MIB));
    let (devices, _) = Devices::open(&specifications, MIB, &open_path).expect("files");
    assert_eq!(devices.len(), 2);
    check_use(&devices, 1);
    assert_eq!(fs::metadata(folder.path("2")).expect("a file").len(), 2 * MIB, "it has not grown");
}

#[test]
fn a_file_on_a_disk_is_used_directly() {
    let folder = Folder::new();
    let (devices, warnings) =
        Devices::open(&[specification(&folder.path("a"), 2 * MIB)], MIB, &open_path).expect("a file");
    // Which file system the directory has is not ours to choose.
    eprintln!("direct: {}, warnings: {warnings:?}", devices[0].is_direct());
    assert!(devices[0].is_direct() || warnings.len() == 1, "{warnings:?}");
    check_use(&devices, 0);
}

#[test]
fn a_file_in_memory_is_used_with_a_warning() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        return eprintln!("left out: there is no /dev/shm");
    }
    let folder = Folder::in_directory(shm);
    let path = folder.path("a");
    let (devices, warnings) =
        Devices::open(&[specification(&path, 2 * MIB)], MIB, &open_path).expect("a file");
    let expected =
        format!("{} is in a file system in memory: it takes memory, and no disk is used", path.display());
    assert_eq!(warnings, [expected]);
    check_use(&devices, 0);
}

#[test]
fn a_file_keeps_what_it_has_and_is_neither_cut_nor_made_longer() {
    let folder = Folder::new();
    let path = folder.path("longer");
    fs::write(&path, vec![b'x'; 3 * MIB as usize]).expect("written");
    drop(open(&path, 2 * MIB).expect("a file"));
    assert_eq!(fs::read(&path).expect("read"), vec![b'x'; 3 * MIB as usize]);
    let path = folder.path("shorter");
    fs::write(&path, "precious").expect("written");
    let message = "use 2097152 bytes of PATH: it has 8, and a file that is not empty is not made longer";
    check_refused(&path, 2 * MIB, message, None);
    assert_eq!(fs::read(&path).expect("read"), b"precious");
}

#[test]
fn a_file_that_others_own_or_can_write_is_refused() {
    let folder = Folder::new();
    let path = folder.path("a");
    fs::write(&path, "").expect("written");
    for mode in [0o620, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        let message = format!(
            "use PATH for the flash tier: its mode is {mode:04o}, so others than its owner can write it"
        );
        check_refused(&path, 2 * MIB, &message, None);
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
    if std::os::unix::fs::chown(&path, Some(5), None).is_err() {
        return eprintln!("left out: only root can give a file to another user");
    }
    let user = fs::metadata(&folder.0).expect("a folder").uid();
    let message =
        format!("use PATH for the flash tier: it belongs to user 5, and a file of user {user} is expected");
    check_refused(&path, 2 * MIB, &message, None);
    assert_eq!(fs::metadata(&path).expect("a file").len(), 0);
}

#[test]
fn holes_of_a_file_get_blocks() {
    let folder = Folder::new();
    let path = folder.path("sparse");
    File::create(&path).and_then(|file| file.set_len(4 * MIB)).expect("a sparse file");
    let _device = open(&path, 4 * MIB).expect("a file");
    assert!(fs::metadata(&path).expect("a file").blocks() * 512 >= 4 * MIB);
}

#[test]
fn links_are_followed_to_a_file() {
    let folder = Folder::new();
    fs::write(folder.path("file"), "").expect("written");
    symlink("file", folder.path("link")).expect("a link");
    let opened = open(&folder.path("link"), 2 * MIB).expect("a file");
    assert_eq!(opened.device.path(), folder.path("link"));
    assert_eq!(fs::metadata(folder.path("file")).expect("a file").len(), 2 * MIB);
}

#[test]
fn a_clone_of_the_descriptor_has_the_same_bytes() {
    let folder = Folder::new();
    let opened = open(&folder.path("a"), 2 * MIB).expect("a file");
    let file = opened.device.file().expect("a descriptor");
    assert_eq!(file.metadata().expect("a file").len(), 2 * MIB);
}

#[test]
fn a_size_below_two_pages_is_refused() {
    let folder = Folder::new();
    let message = "use 2097151 bytes of PATH: at least 2097152 are needed, which are two pages of 1048576";
    check_refused(&folder.path("a"), 2 * MIB - 1, message, None);
    assert!(!folder.path("a").exists(), "nothing is created");
}

#[test]
fn what_is_neither_a_file_nor_a_block_device_is_refused() {
    let folder = Folder::new();
    let refused = |path: &Path, found: &str| {
        let message = format!(
            "use PATH for the flash tier: it is {found}, and a regular file or a block device is accepted"
        );
        check_refused(path, 2 * MIB, &message, None);
    };
    refused(&folder.0, "a directory");
    refused(Path::new("/dev/null"), "a character device");
    let fifo = folder.path("fifo");
    crate::run("mkfifo", &[fifo.to_str().expect("text")]).expect("a FIFO");
    refused(&fifo, "a FIFO");
    let socket = folder.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    refused(&socket, "a socket");
    symlink("nowhere", folder.path("dangling")).expect("a link");
    refused(&folder.path("dangling"), "a symbolic link that leads nowhere");
    symlink(&fifo, folder.path("to-fifo")).expect("a link");
    refused(&folder.path("to-fifo"), "a FIFO");
}

#[test]
fn a_device_that_is_not_there_is_not_made_a_file() {
    let path = Path::new("/dev/flash-no-such-device");
    let message = "use PATH for the flash tier: there is no such device, and no file is created in /dev";
    check_refused(path, 2 * MIB, message, None);
    assert!(!path.exists());
}

#[test]
fn what_the_system_refuses_is_said() {
    let folder = Folder::new();
    check_refused(
        &folder.path("a/b"),
        2 * MIB,
        "open PATH to read and write",
        Some("No such file or directory"),
    );
    fs::write(folder.path("file"), "").expect("written");
    check_refused(&folder.path("file/b"), 2 * MIB, "open PATH to read and write", Some("Not a directory"));
}

#[test]
fn a_file_that_was_cut_ends_early() {
    use flash::{AlignedBytes, Disk};
    let folder = Folder::new();
    let path = folder.path("a");
    let (devices, _) = Devices::open(&[specification(&path, 2 * MIB)], MIB, &open_path).expect("a file");
    let file = File::options().write(true).open(&path).expect("a file");
    file.set_len(MIB + 4096 + 100).expect("cut");
    (&file).write_all(b"x").expect("written");
    for (position, len) in [(MIB, 8192), (MIB + 4096, 4096), (MIB + 8192, 4096)] {
        let error = devices.read(0, position, &mut AlignedBytes::zeroed(len)).expect_err("the end");
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{position}");
    }
    devices.read(0, MIB, &mut AlignedBytes::zeroed(4096)).expect("before the end");
}

#[test]
#[should_panic(expected = "the memory is not aligned")]
fn memory_that_is_not_aligned_is_the_callers_mistake() {
    use flash::{AlignedBytes, Disk};
    let folder = Folder::new();
    let (devices, _) =
        Devices::open(&[specification(&folder.path("a"), 2 * MIB)], MIB, &open_path).expect("a file");
    let _ = devices.read(0, 0, &mut AlignedBytes::zeroed(8192)[1..4097]);
}
