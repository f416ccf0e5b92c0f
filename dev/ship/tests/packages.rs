//! Packages: what is in them, and what the tools of distributions say of them.

mod client;
mod commands;
mod guest;
mod life;
mod units;

use crate::tools::{have, have_built, workshop};
use checkout::workspace;
use ship::commands::said;
use ship::programs::NFPM;
use ship::stage::PackageStage;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lists modes, owners and paths of a package.
type List = fn(&Path) -> String;

/// nfpm's formats, and how a package of each is listed.
const FORMATS: [(&str, List); 4] =
    [("deb", of_deb), ("rpm", of_rpm), ("apk", of_apk), ("archlinux", of_arch)];

/// What the file with the expected contents begins with.
const HEAD: &str = "Files of the packages: mode, owner, path, and the formats that have them.\n\n";

/// A stage with small files in place of those that a build makes.
pub(crate) fn small_stage(name: &str) -> PackageStage {
    let workshop = workshop(Path::new("/bin/true"), name);
    let stage = PackageStage {
        folder: workshop.out.join("stage"),
        version: "1.2.3-rc.1".to_owned(),
        epoch_s: workshop.epoch_s,
        architecture: ship::inputs::elf::Architecture::Amd64,
        glibc: Some("2.34".to_owned()),
        build_id: Some("ab/cdef".to_owned()),
        keys: None,
    };
    stage.copy_sources(&workshop.root).expect("a stage");
    // A program of this machine, so that tools that look into programs find one.
    stage.write("evenkeel", &fs::read("/bin/true").unwrap()).expect("a program");
    let pages = ["man/evenkeel.1", "man/evenkeel-serve.1"];
    for page in pages {
        stage.write(page, b".TH evenkeel 1\n.SH NAME\nevenkeel \\- a cache\n").expect("a man page");
    }
    said(Command::new("gzip").args(["-9", "-n"]).args(pages).current_dir(&stage.folder)).expect("man pages");
    let made = ["evenkeel.debug", "seccomp.json"];
    let completions = ["completions/evenkeel.bash", "completions/_evenkeel", "completions/evenkeel.fish"];
    for file in made.iter().chain(&completions) {
        stage.write(file, format!("{file}\n").as_bytes()).expect("a file");
    }
    stage
}

pub(crate) fn pack(stage: &PackageStage, recipe: &str, format: &str, folder: &str) -> PathBuf {
    let out = stage.folder.with_file_name(folder);
    stage.pack(recipe, format, &out).expect("a package").path
}

#[test]
fn packages_have_the_expected_files_and_are_the_same_twice() {
    if !have_built(NFPM)
        || !have(&[("dpkg-deb", "Debian: dpkg"), ("rpm", "Debian: rpm"), ("zstd", "Debian: zstd")])
    {
        return;
    }
    let stage = small_stage("contents");
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (format, list) in FORMATS {
        let first = pack(&stage, "nfpm.yaml", format, "first");
        // As if it had been filled at another time.
        let touch = ["-exec", "touch", "{}", "+"];
        said(Command::new("find").arg(&stage.folder).args(touch)).expect("other times");
        let second = pack(&stage, "nfpm.yaml", format, "second");
        assert_eq!(first.file_name(), second.file_name());
        assert!(
            fs::read(&first).unwrap() == fs::read(&second).unwrap(),
            "{format}: other bytes the second time"
        );
        for line in list(&first).lines().filter(|line| !line.starts_with('d')) {
            found.entry(line.to_owned()).or_default().push(format);
        }
    }
    let by_path = |line: &String| line.rsplit(' ').next().unwrap_or_default().to_owned();
    let mut lines: Vec<String> = found.keys().cloned().collect();
    lines.sort_by_key(by_path);
    let lines = lines.iter().map(|line| format!("{line}  {}\n", found[line].join(" ")));
    let found = HEAD.to_owned() + &lines.collect::<String>();
    let path = workspace().join("dev/ship/testdata/packages.txt");
    if std::env::var_os("EVENKEEL_TEST_WRITE").is_some() {
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(&path).expect("testdata/packages.txt");
    assert!(found == expected, "expected\n{expected}\nfound\n{found}\nEVENKEEL_TEST_WRITE=1 accepts it");
}

/// Mode, owner and path of each entry of an archive that tar lists.
fn of_archive(tar: &mut Command) -> String {
    let listed = said(tar).expect("a list");
    let entry = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // apk and pacman have files about the package beside those of the package.
        let path = words[5].trim_start_matches('.').trim_start_matches('/');
        let is_about_it = words[5].starts_with('.') && !words[5].starts_with("./");
        // nfpm names no user in packages for Arch.
        (!is_about_it).then(|| format!("{} {} /{path}\n", words[0], words[1].replace("0/0", "root/root")))
    };
    listed.lines().filter_map(entry).collect()
}

fn of_deb(package: &Path) -> String {
    let mut list = Command::new("sh");
    list.args(["-c", "dpkg-deb --fsys-tarfile \"$0\" | tar --list --verbose --file -"]).arg(package);
    of_archive(&mut list)
}

fn of_rpm(package: &Path) -> String {
    let format = "[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES}\n]";
    said(Command::new("rpm").args(["-qp", "--nosignature", "--qf", format]).arg(package)).expect("a list")
}

fn of_apk(package: &Path) -> String {
    // Three archives one after the other: signature, control, data.
    of_archive(
        Command::new("tar").args(["--list", "--verbose", "--gzip", "--ignore-zeros", "--file"]).arg(package),
    )
}

fn of_arch(package: &Path) -> String {
    of_archive(Command::new("tar").args(["--list", "--verbose", "--zstd", "--file"]).arg(package))
}

#[test]
fn lintian_finds_no_error() {
    if have_built(NFPM) && have(&[("lintian", "Debian: lintian")]) {
        let stage = small_stage("lintian");
        for recipe in ["nfpm.yaml", "nfpm-dbg.yaml"] {
            let package = pack(&stage, recipe, "deb", "out");
            let mut lintian = Command::new("lintian");
            // A user who runs this in a container is root, which lintian warns about.
            lintian.args(["--allow-root", "--fail-on", "error", "--tag-display-limit", "0"]).arg(package);
            println!("{}", said(&mut lintian).expect("no error"));
        }
    }
}

#[test]
fn rpmlint_finds_no_error() {
    if have_built(NFPM) && have(&[("rpmlint", "Debian: rpmlint"), ("cpio", "Debian: cpio")]) {
        let stage = small_stage("rpmlint");
        let config = workspace().join("packaging/rpmlint.toml");
        // rpmlint unpacks with a cpio that follows the names in the package, which begin with a slash: as root it would install
        // the package on this host.
        let programs = stage.folder.with_file_name("programs");
        fs::create_dir_all(&programs).unwrap();
        let cpio = programs.join("cpio");
        fs::write(&cpio, "#!/bin/sh\nexec /usr/bin/cpio --no-absolute-filenames \"$@\"\n").unwrap();
        fs::set_permissions(&cpio, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("a PATH"));
        let installed =
            || fs::metadata("/usr/lib/systemd/system/evenkeel.service").and_then(|it| it.modified()).ok();
        let before = installed();
        for recipe in ["nfpm.yaml", "nfpm-dbg.yaml"] {
            let package = pack(&stage, recipe, "rpm", "out");
            let mut rpmlint = Command::new("rpmlint");
            rpmlint.arg("--config").arg(&config).arg(package).env("PATH", &path);
            println!("{}", said(&mut rpmlint).expect("no error"));
        }
        assert_eq!(installed(), before, "rpmlint has written on this host");
    }
}

#[test]
fn scripts_are_accepted_by_a_shell() {
    for script in fs::read_dir(workspace().join("packaging/scripts")).expect("scripts") {
        said(Command::new("sh").arg("-n").arg(script.unwrap().path())).expect("a script");
    }
    // pacman has all of them in one file, each as a function.
    if have_built(NFPM) && have(&[("zstd", "Debian: zstd")]) {
        let package = pack(&small_stage("install"), "nfpm.yaml", "archlinux", "out");
        let check = "tar --extract --zstd --to-stdout --file \"$0\" .INSTALL | bash -n";
        said(Command::new("bash").args(["-o", "pipefail", "-c", check]).arg(&package)).expect("functions");
    }
}
