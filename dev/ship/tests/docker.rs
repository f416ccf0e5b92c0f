//! The image in a Docker of its own: the commands of docs/install.md, and deploy/compose.yaml.
//!
//! dockerd runs in a network namespace, so it changes neither addresses nor rules of this host, and keeps its files in the target
//! directory.

use crate::image::turn;
use crate::tools::{binary, have, have_built, is_thorough, leave_out, workshop};
use checkout::{target_directory, workspace};
use end_to_end::clock;
use ship::commands::said;
use ship::programs::COMPOSE;
use ship::{image, seccomp};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The network namespace of the daemon.
const NAMESPACE: &str = "ek-docker";

struct Docker {
    daemon: Child,
    folder: PathBuf,
}

impl Docker {
    /// `None` where it cannot run.
    fn start() -> Option<Docker> {
        if !is_thorough() {
            leave_out("the image in Docker (EVENKEEL_TEST_ALL=1 has it)");
            return None;
        }
        let programs =
            [("dockerd", "Debian: docker.io"), ("docker", "Debian: docker.io"), ("nsenter", "util-linux")];
        if !have(&programs) {
            return None;
        }
        let folder = target_directory().join("ship-tests/dockerd");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let _ = Command::new("ip").args(["netns", "delete", NAMESPACE]).stderr(Stdio::null()).status();
        said(Command::new("ip").args(["netns", "add", NAMESPACE])).expect("a namespace");
        said(Command::new("ip").args(["-n", NAMESPACE, "link", "set", "lo", "up"])).unwrap();
        let mut daemon = inside("dockerd");
        daemon.args(["--iptables=false", "--ip6tables=false", "--exec-opt", "native.cgroupdriver=cgroupfs"]);
        daemon.arg("--data-root").arg(folder.join("data")).arg("--exec-root").arg(folder.join("run"));
        daemon.arg("--pidfile").arg(folder.join("pid")).args(["--host", &socket(&folder)]);
        let log = fs::File::create(folder.join("log")).unwrap();
        let daemon = daemon.stdin(Stdio::null()).stderr(log).spawn().expect("dockerd");
        let docker = Docker { daemon, folder };
        docker.wait_for("an answer of dockerd", |docker| said(docker.command().arg("version")).ok());
        Some(docker)
    }

    fn command(&self) -> Command {
        let mut docker = Command::new("docker");
        docker.args(["--host", &socket(&self.folder)]);
        docker
    }

    fn says(&self, words: &str) -> String {
        said(self.command().args(words.split(' '))).expect(words)
    }

    #[track_caller]
    fn wait_for<T>(&self, what: &str, look: impl Fn(&Docker) -> Option<T>) -> T {
        if let Some(found) = clock::wait_for(|| look(self)) {
            return found;
        }
        panic!("{what} did not come; dockerd's log is {}", self.folder.join("log").display())
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let names = said(self.command().args(["ps", "--all", "--quiet"])).unwrap_or_default();
        for name in names.split_whitespace() {
            let _ = said(self.command().args(["rm", "--force", name]));
        }
        // nsenter has become dockerd, which ends its containerd.
        let _ = Command::new("kill").arg(self.daemon.id().to_string()).status();
        let _ = self.daemon.wait();
        let _ = Command::new("ip").args(["netns", "delete", NAMESPACE]).status();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn socket(folder: &Path) -> String {
    format!("unix://{}", folder.join("socket").display())
}

/// A program in the daemon's network.
fn inside(program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{NAMESPACE}")).arg(program);
    command
}

#[test]
fn the_image_works_in_docker_as_the_pages_say() {
    let (Some(binary), Some(docker)) = (binary(), Docker::start()) else { return };
    let workshop = workshop(&binary, "docker");
    fs::create_dir_all(&workshop.out).unwrap();
    let made = {
        let _turn = turn();
        image::make(&workshop).expect("an image")
    };
    let page = fs::read_to_string(workspace().join("docs/install.md")).unwrap();
    let load = format!("docker load --input evenkeel-{}-image-amd64.docker.tar.gz", workshop.version);
    let run = "docker run --rm --publish 127.0.0.1:11211:11211 evenkeel/evenkeel:0.1.0 -m 1024";
    assert!(page.contains(&load) && page.contains(run), "the page has these commands");
    docker.says(&format!("load --input {}", made[1].path.display()));

    let words = run.strip_prefix("docker run --rm ").unwrap();
    docker.says(&format!("run --detach --name cache {words}"));
    docker.wait_for("an answer at the published port", |_| {
        let mut ready = inside(binary.to_str().unwrap());
        said(ready.args(["ready", "127.0.0.1:11211"])).ok()
    });
    docker.says("stop cache");
    assert_eq!(docker.says("inspect --format {{.State.ExitCode}} cache").trim(), "0", "an orderly end");

    // As strict platforms run it, with our profile.
    let profile = workshop.out.join("evenkeel-seccomp.json");
    fs::write(&profile, seccomp::profile(&workspace()).expect("a profile")).unwrap();
    let strict = format!(
        "run --detach --name strict --read-only --user 12345 --cap-drop ALL --memory 256m --security-opt seccomp={} \
         evenkeel/evenkeel:0.1.0 -m auto",
        profile.display()
    );
    docker.says(&strict);
    docker.wait_for("the server's line", |docker| {
        let output = docker.command().args(["logs", "strict"]).output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        log.contains("198 MB for items (-m auto of the control group's limit of 256 MB)").then_some(())
    });
    docker.says("rm --force cache strict");
    check_compose(&docker, &workshop.out, &binary);
}

/// Three servers and the router answer; there is no image of Prometheus here.
fn check_compose(docker: &Docker, folder: &Path, binary: &Path) {
    if !have_built(COMPOSE) {
        return;
    }
    let file = fs::read_to_string(workspace().join("deploy/compose.yaml")).unwrap();
    // As many files as this host allows, which may be fewer than the daemon of a real one.
    let limit = said(Command::new("sh").args(["-c", "ulimit -Hn"])).unwrap();
    let files = limit.trim().parse().map_or(65_536, |limit: u32| limit.min(65_536));
    assert!(file.contains("nofile: 65536"), "the composition allows so many files");
    let place = folder.join("compose.yaml");
    fs::write(&place, file.replace("nofile: 65536", &format!("nofile: {files}"))).unwrap();
    let compose = |words: &str| {
        let mut compose = Command::new(COMPOSE.path().expect("compose"));
        compose.arg("--file").arg(&place).args(words.split(' ')).env("DOCKER_HOST", socket(&docker.folder));
        said(&mut compose).expect(words)
    };
    compose("up --detach router");
    docker.wait_for("a value by the router", |_| {
        let mut load = inside(binary.to_str().unwrap());
        load.args(["load", "--server", "127.0.0.1:11211", "--prefill", "--keys", "1000"]);
        said(load.args(["--duration", "200ms", "--warm-up", "100ms"]))
            .ok()
            .filter(|said| said.contains(" 0 misses"))
    });
    docker.wait_for("four healthy containers", |docker| {
        let healthy = said(docker.command().args(["ps", "--quiet", "--filter", "health=healthy"])).ok()?;
        (healthy.lines().count() == 4).then_some(())
    });
    compose("down");
}
