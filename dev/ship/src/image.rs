//! The container image: the program, the libraries that it is linked with, and nothing else. No shell, no package manager.

use crate::commands::said;
use crate::inputs::elf::{Architecture, is_static};
use crate::packages::archive;
use crate::programs::run;
use crate::sbom::notices;
use crate::{Artefact, Workshop};
use anyhow::{Context, Result, ensure};
use checkout::target_directory;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user of the process: that of memcached's image, so that volumes which belong to it fit.
pub const UID: u32 = 11211;

/// The name under which `docker load` knows the image.
pub const NAME: &str = "evenkeel/evenkeel";

/// Where libraries come from: Debian's packages, whose licences demand that their texts go with them.
const LIBRARY_PACKAGES: [&str; 2] = ["libc6", "libgcc-s1"];

/// An OCI layout as an archive, and the same image for `docker load`.
///
/// # Errors
/// Reports a program that is missing or fails.
pub fn make(workshop: &Workshop) -> Result<Vec<Artefact>> {
    let layout = layout(workshop)?;
    let folder = layout.parent().context("a layout lies in a folder")?;
    let architecture = Architecture::of(&workshop.binary)?.name();
    let name = format!("evenkeel-{}-image-{architecture}", workshop.version);
    let oci = workshop.out.join(format!("{name}.oci.tar"));
    archive(&layout, ".", workshop.epoch_s, &oci)?;
    let docker = folder.join(format!("{name}.docker.tar"));
    let mut copy = Command::new("skopeo");
    // It checks no signature: the image has just been made here.
    copy.args(["--insecure-policy", "copy", "--quiet"]);
    copy.arg(format!("oci:{}:{}", layout.display(), workshop.version));
    copy.arg(format!("docker-archive:{}:{NAME}:{}", docker.display(), workshop.version));
    said(&mut copy)?;
    run(Command::new("gzip").args(["-9", "-n"]).arg(&docker))?;
    let compressed = workshop.out.join(format!("{name}.docker.tar.gz"));
    fs::copy(docker.with_extension("tar.gz"), &compressed).context("place the archive for docker")?;
    Ok(vec![Artefact { path: oci }, Artefact { path: compressed }])
}

/// Makes the image as an OCI layout, a folder with the version as its only tag.
///
/// # Errors
/// Reports a program that is missing or fails.
pub fn layout(workshop: &Workshop) -> Result<PathBuf> {
    let folder = target_directory().join("dist-stage/image");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let (layout, root) = (folder.join("layout"), folder.join("root"));
    fill(&root, workshop)?;
    // Times of files and of the layer would otherwise be the present one, so that each image were another one.
    let mut touch = Command::new("find");
    touch.arg(&root).args(["-exec", "touch", "--no-dereference", "--date"]);
    run(touch.arg(format!("@{}", workshop.epoch_s)).args(["{}", "+"]))?;
    let epoch = format!("@{}", workshop.epoch_s);
    let time = said(Command::new("date").args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date", &epoch]))?;
    let time = time.trim();
    let image = format!("{}:{}", layout.display(), workshop.version);
    said(Command::new("umoci").args(["init", "--layout"]).arg(&layout))?;
    said(Command::new("umoci").args(["new", "--image", &image]))?;
    let mut insert = Command::new("umoci");
    insert.args(["insert", "--rootless", "--image", &image, "--history.created", time]);
    said(insert.args(["--history.created_by", "cargo xtask dist"]).arg(&root).arg("/"))?;
    configure(&image, time, workshop)?;
    said(Command::new("umoci").args(["gc", "--layout"]).arg(&layout))?;
    Ok(layout)
}

/// The image's configuration: user, command line, port, labels.
fn configure(image: &str, time: &str, workshop: &Workshop) -> Result<()> {
    let user = format!("{UID}:{UID}");
    let mut config = Command::new("umoci");
    config.args(["config", "--image", image, "--created", time, "--no-history"]);
    config.args(["--config.user", &user, "--config.workingdir", "/"]);
    // `docker run IMAGE -m 1024` works as with memcached's image: the program reads it as `serve -m 1024`.
    config.args(["--config.entrypoint", "/usr/bin/evenkeel", "--config.cmd", "serve"]);
    config.args(["--config.exposedports", "11211/tcp", "--config.stopsignal", "SIGTERM"]);
    let architecture = Architecture::of(&workshop.binary)?;
    config.args(["--os", "linux", "--architecture", architecture.name()]);
    for (label, value) in [
        ("title", "Evenkeel"),
        ("description", "A memcached-compatible cache, its router, control plane and tuner"),
        ("version", &workshop.version),
        ("created", time),
        ("licenses", "Apache-2.0"),
    ] {
        config.arg("--config.label").arg(format!("org.opencontainers.image.{label}={value}"));
    }
    said(&mut config).map(drop)
}

/// Puts all files into the root of the image.
fn fill(root: &Path, workshop: &Workshop) -> Result<()> {
    let program = root.join("usr/bin/evenkeel");
    place(&workshop.binary, &program, 0o755)?;
    let architecture = Architecture::of(&workshop.binary)?;
    run(Command::new(architecture.binutil("strip")?).arg(&program))?;
    for library in libraries(&workshop.binary, architecture)? {
        place(&library, &root.join(library.strip_prefix("/").unwrap_or(&library)), 0o755)?;
    }
    for (package, text) in library_licences() {
        place(&text, &root.join(format!("usr/share/doc/{package}/copyright")), 0o644)?;
    }
    place(&workshop.root.join("LICENSE"), &root.join("usr/share/doc/evenkeel/LICENSE"), 0o644)?;
    let texts = root.join("usr/share/doc/evenkeel/THIRD-PARTY");
    fs::write(&texts, notices::texts(&workshop.root)?).context("write THIRD-PARTY of the image")?;
    allow(&texts, 0o644)?;
    let users = format!("root:x:0:0::/:/nologin\nevenkeel:x:{UID}:{UID}::/:/nologin\n");
    let groups = format!("root:x:0:\nevenkeel:x:{UID}:\n");
    // Names of servers are looked up in /etc/hosts first.
    for (name, text) in [("passwd", &*users), ("group", &groups), ("nsswitch.conf", "hosts: files dns\n")] {
        let path = root.join("etc").join(name);
        fs::create_dir_all(root.join("etc")).context("make etc in the image")?;
        fs::write(&path, text).with_context(|| format!("write {name} of the image"))?;
        allow(&path, 0o644)?;
    }
    // Whatever umask there is: the process is not root.
    run(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(root))?;
    // Everyone may write there, and only owners remove: as /tmp anywhere.
    fs::create_dir(root.join("tmp")).context("make tmp in the image")?;
    allow(&root.join("tmp"), 0o1777)
}

fn place(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))
        .with_context(|| format!("make a folder for {}", to.display()))?;
    fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    allow(to, mode)
}

fn allow(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("set the mode of {}", path.display()))
}

/// Packages of the C library, and the texts of their licences, where this machine has them.
pub(crate) fn library_licences() -> impl Iterator<Item = (&'static str, PathBuf)> {
    let texts = LIBRARY_PACKAGES.map(|name| (name, Path::new("/usr/share/doc").join(name).join("copyright")));
    texts.into_iter().filter(|(_, text)| text.exists())
}

/// The libraries that the program is linked with, and the loader.
fn libraries(binary: &Path, architecture: Architecture) -> Result<Vec<PathBuf>> {
    if is_static(binary)? {
        return Ok(Vec::new());
    }
    ensure!(
        architecture == Architecture::here()?,
        "{} is for {} and linked with libraries, which this machine does not have: give one that is linked statically",
        binary.display(),
        architecture.name()
    );
    let listed = said(Command::new("ldd").arg(binary))?;
    let missing = listed.lines().find(|line| line.contains("not found"));
    ensure!(missing.is_none(), "{}: {}", binary.display(), missing.unwrap_or_default().trim());
    Ok(paths(&listed))
}

/// The paths in what ldd prints: behind `=>`, or at the beginning of a line for the loader. The kernel's own library has none.
fn paths(listed: &str) -> Vec<PathBuf> {
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    listed.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_what_ldd_names_by_a_path() {
        let listed = "\tlinux-vdso.so.1 (0x7fd8)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7fd7)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x7fd8)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(paths(listed), expected.map(PathBuf::from));
        assert!(paths("\tstatically linked\n").is_empty());
    }
}
