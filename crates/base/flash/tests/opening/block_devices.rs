//! Block devices, which are loop devices here. Where there are none, the tests are left out, which is said.

use crate::{
    Folder, MIB, check_refused, check_use, close, open, open_path, run, specification, with_own_mounts,
};
use flash::Devices;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const IN_USE: &str = "use PATH alone: it is mounted, part of a RAID, of LVM or of swap, or a program uses it";

/// A loop device over a file of its own, until it is dropped.
struct Loop {
    path: PathBuf,
    folder: Folder,
}

impl Loop {
    fn new(bytes: u64, arguments: &[&str]) -> Option<Loop> {
        let folder = Folder::new();
        let file = folder.path("backing");
        File::create(&file).and_then(|file| file.set_len(bytes)).expect("a file");
        let arguments = [&["--find", "--show"], arguments, &[file.to_str().expect("text")]].concat();
        match run("losetup", &arguments) {
            Ok(path) => Some(Loop { path: path.into(), folder }),
            Err(why) => {
                eprintln!("left out: there are no loop devices: {why}");
                None
            }
        }
    }

    fn name(&self) -> &str {
        self.path.to_str().expect("text")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Err(why) = run("losetup", &["--detach", self.name()]) {
            eprintln!("{} stays: {why}", self.name());
        }
    }
}

#[test]
fn a_block_device_is_used_directly() {
    for arguments in [&[][..], &["--sector-size", "4096"], &["--direct-io=on"]] {
        let Some(device) = Loop::new(4 * MIB, arguments) else { continue };
        symlink(&device.path, device.folder.path("by-id")).expect("a link");
        for path in [&device.path, &device.folder.path("by-id")] {
            let (devices, warnings) =
                Devices::open(&[specification(path, 3 * MIB + 1)], MIB, &open_path).expect("a device");
            assert!(devices[0].is_direct() && warnings.is_empty(), "{warnings:?}");
            assert_eq!((devices[0].bytes(), devices[0].path()), (3 * MIB, &**path));
            check_use(&devices, 0);
            close(devices);
        }
    }
}

#[test]
fn a_device_that_is_smaller_than_told_is_refused() {
    let Some(device) = Loop::new(3 * MIB, &[]) else { return };
    check_refused(&device.path, 4 * MIB, "use 4194304 bytes of PATH: the device has 3145728", None);
    open(&device.path, 4 * MIB - 1).expect("whole pages of what was told fit");
}

#[test]
fn a_device_is_not_opened_twice_under_any_name() {
    let Some(device) = Loop::new(2 * MIB, &[]) else { return };
    let (link, node) = (device.folder.path("link"), device.folder.path("node"));
    symlink(&device.path, &link).expect("a link");
    let mut names: Vec<&Path> = vec![&device.path, &link];
    match copy_node(&device.path, &node) {
        Ok(_) => names.push(&node),
        Err(why) => eprintln!("left out: a second node of the device: {why}"),
    }
    let first = open(&device.path, 2 * MIB).expect("a device");
    for name in &names {
        check_refused(name, 2 * MIB, IN_USE, None);
    }
    close(first);
    for name in &names {
        let error =
            Devices::open(&[&device.path, *name].map(|path| specification(path, 2 * MIB)), MIB, &open_path);
        let error = error.expect_err("twice").to_string();
        close(());
        assert!(error.contains("they are the same file or device"), "{error}");
        close(open(name, 2 * MIB).expect("nobody has it"));
    }
}

/// Another name of a block device, which is no link.
fn copy_node(of: &Path, node: &Path) -> Result<String, String> {
    let numbers = run("stat", &["--format", "0x%t 0x%T", of.to_str().expect("text")])?;
    let (major, minor) = numbers.split_once(' ').expect("two numbers");
    run("mknod", &[node.to_str().expect("text"), "b", major, minor])
}

#[test]
fn a_mounted_device_is_refused() {
    with_own_mounts(|| {
        let Some(device) = Loop::new(16 * MIB, &[]) else { return };
        let folder = device.folder.path("mounted");
        std::fs::create_dir(&folder).expect("a directory");
        let folder = folder.to_str().expect("text");
        let mounted =
            run("mkfs.ext4", &["-q", device.name()]).and_then(|_| run("mount", &[device.name(), folder]));
        if let Err(why) = mounted {
            return eprintln!("left out: no file system can be mounted here: {why}");
        }
        check_refused(&device.path, 2 * MIB, IN_USE, None);
        run("umount", &[folder]).expect("it is mounted");
        open(&device.path, 2 * MIB).expect("nobody has it");
    });
}

#[test]
fn a_device_that_cannot_be_written_is_refused() {
    let Some(device) = Loop::new(2 * MIB, &["--read-only"]) else { return };
    check_refused(&device.path, 2 * MIB, "write to PATH: the device is read-only", None);
}
