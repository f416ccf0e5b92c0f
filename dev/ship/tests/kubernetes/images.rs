//! Images for the cluster: two versions of Evenkeel's, and the one that keeps a pod's namespaces.

use crate::image::turn;
use crate::tools::workshop;
use ship::commands::said;
use ship::image;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The versions, in one layout.
pub(super) const VERSIONS: [&str; 2] = ["0.1.0", "0.1.1"];

/// The name of the image, as Kubernetes completes it.
pub(super) const NAME: &str = "docker.io/evenkeel/evenkeel";

/// The image of a pod's first container, which only waits.
pub(super) const PAUSE: &str = "localhost/pause:1";

/// A program that waits for a signal, and takes over what others leave.
const PAUSE_SOURCE: &str = "package main\n\nimport (\n\t\"os\"\n\t\"os/signal\"\n\t\"syscall\"\n)\n\nfunc main() {\n\tended := make(chan os.Signal, 1)\n\tsignal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)\n\t<-ended\n}\n";

/// Writes archives of them into a folder, which is emptied.
pub(super) fn make(binary: &Path, work: &Path) {
    let _ = fs::remove_dir_all(work);
    fs::create_dir_all(work).unwrap();
    let _turn = turn();
    let layout = image::layout(&workshop(binary, "kubernetes")).expect("an image");
    let of = |version: &str| format!("{}:{version}", layout.display());
    let label = format!("org.opencontainers.image.version={}", VERSIONS[1]);
    let mut second = Command::new("umoci");
    second.args([
        "config",
        "--image",
        &of(env!("CARGO_PKG_VERSION")),
        "--tag",
        VERSIONS[1],
        "--config.label",
        &label,
    ]);
    said(&mut second).unwrap();
    for version in VERSIONS {
        let tag = if version == VERSIONS[0] { env!("CARGO_PKG_VERSION") } else { version };
        archive(&of(tag), &work.join(format!("evenkeel-{version}.tar")), &format!("{NAME}:{version}"));
    }
    pause(work);
}

fn pause(work: &Path) {
    let folder = work.join("pause");
    let root = folder.join("root");
    fs::create_dir_all(&root).unwrap();
    fs::write(folder.join("main.go"), PAUSE_SOURCE).unwrap();
    let mut go = Command::new("go");
    go.args(["build", "-ldflags", "-s -w", "-o"]).arg(root.join("pause")).arg("main.go");
    said(go.current_dir(&folder).env("CGO_ENABLED", "0")).unwrap();
    let layout = folder.join("layout");
    let image = format!("{}:1", layout.display());
    said(Command::new("umoci").args(["init", "--layout"]).arg(&layout)).unwrap();
    said(Command::new("umoci").args(["new", "--image", &image])).unwrap();
    said(Command::new("umoci").args(["insert", "--image", &image]).arg(&root).arg("/")).unwrap();
    said(Command::new("umoci").args(["config", "--image", &image, "--config.entrypoint", "/pause"])).unwrap();
    archive(&image, &work.join("pause.tar"), PAUSE);
}

fn archive(image: &str, file: &Path, name: &str) {
    let mut copy = Command::new("skopeo");
    copy.args(["--insecure-policy", "copy", "--quiet"]);
    copy.arg(format!("oci:{image}")).arg(format!("oci-archive:{}:{name}", file.display()));
    said(&mut copy).unwrap();
}

/// Gives them to containerd. Each gets its name by its digest, too, as one that was fetched from a registry has.
pub(super) fn import(work: &Path) {
    let ctr = |words: &[&str]| {
        said(Command::new("ctr").args(["--namespace", "k8s.io", "images"]).args(words)).unwrap()
    };
    for file in ["pause", "evenkeel-0.1.0", "evenkeel-0.1.1"] {
        ctr(&["import", "--snapshotter", "native", &work.join(format!("{file}.tar")).display().to_string()]);
    }
    for line in ctr(&["ls"]).lines().filter(|line| line.starts_with(NAME)) {
        let mut words = line.split_whitespace();
        let (name, digest) = (words.next().unwrap(), words.find(|word| word.starts_with("sha256:")).unwrap());
        ctr(&["tag", name, &format!("{NAME}@{digest}")]);
    }
}
