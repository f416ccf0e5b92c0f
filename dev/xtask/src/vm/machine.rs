//! The machine itself: QEMU without KVM, which is not to be had inside of most virtual machines.
//!
//! ```text
//! node 0    CPUs 0-3   cores 0,1 and 2,3
//! node 1    CPUs 4-7   cores 4,5 and 6,7   eth1 (4 queues)
//! no node                                  eth0 (2 queues), nvme0, nvme1
//! ```
//!
//! The interfaces are taps in a network namespace that ends with QEMU; 10.9.0.1 and 10.9.1.1 answer there.

use anyhow::{Context, Result, bail};
use os::clock::{self, Stopwatch};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The kernel's log.
pub(super) const CONSOLE: &str = "console";

/// The texts of the conversations.
const ANSWERS: &str = "answers";

/// From start to power-off. It takes three or four minutes on two CPUs, and these may be busy with other things.
const TIME_MAX: Duration = Duration::from_secs(900);

/// Without a word of the machine. A step is killed by the machine after 60 s of its own clock, which runs slower than
/// ours where the CPUs are busy; one that stays silent longer has a kernel that hangs.
const SILENCE_MAX: Duration = Duration::from_secs(240);

/// Between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Of each disk, in files without blocks for what is not written.
const DISK_BYTES: u64 = 256 << 20;

const DISKS: [&str; 2] = ["disk0", "disk1"];

/// The taps, and then QEMU in the place of the shell.
const IN_NAMESPACE: &str = r#"set -e
ip link set lo up
for number in 0 1; do
    ip tuntap add tap$number mode tap multi_queue vnet_hdr
    ip addr add 10.9.$number.1/24 dev tap$number
    ip link set tap$number up
done
exec "$0" "$@""#;

/// Runs until the machine powers itself off; what it said.
pub(super) fn run(kernel: &Path, archive: &Path, folder: &Path) -> Result<String> {
    for file in [CONSOLE, ANSWERS] {
        fs::write(folder.join(file), "")?;
    }
    for disk in DISKS {
        File::create(folder.join(disk)).and_then(|file| file.set_len(DISK_BYTES))?;
    }
    let mut machine = Machine(command(kernel, archive, folder).spawn().context("start QEMU")?);
    let ended = machine.wait(&folder.join(ANSWERS));
    drop(machine);
    for disk in DISKS {
        fs::remove_file(folder.join(disk))?;
    }
    let said = String::from_utf8_lossy(&fs::read(folder.join(ANSWERS))?).into_owned();
    match ended {
        Ok(()) => Ok(said),
        Err(error) => {
            let kernel = String::from_utf8_lossy(&fs::read(folder.join(CONSOLE))?).into_owned();
            let [last, log] = [&said, &kernel].map(|text| last_lines(text, 20));
            Err(error.context(format!(
                "the machine failed; its kernel's last words:\n{log}\nand its own:\n{last}"
            )))
        }
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn command(kernel: &Path, archive: &Path, folder: &Path) -> Command {
    // The machine ends with this process, however that ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", IN_NAMESPACE]);
    command.args(["qemu-system-x86_64", "-nodefaults", "-no-reboot", "-display", "none"]);
    command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "Nehalem"]);
    command.args(["-smp", "8,sockets=2,cores=2,threads=2", "-m", "1G"]);
    for (node, cpus) in ["0-3", "4-7"].into_iter().enumerate() {
        command.args(["-object", &format!("memory-backend-ram,id=memory{node},size=512M")]);
        command.args(["-numa", &format!("node,nodeid={node},cpus={cpus},memdev=memory{node}")]);
    }
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(archive);
    command.args(["-append", "console=ttyS0 panic=-1 no_timer_check"]);
    for file in [CONSOLE, ANSWERS] {
        command.args(["-serial", &format!("file:{}", folder.join(file).display())]);
    }
    // A bus of its own is the only thing of this machine that can lie on a node.
    command.args(["-device", "pxb-pcie,id=far,bus=pcie.0,bus_nr=128,numa_node=1"]);
    command.args(["-device", "pcie-root-port,id=far_port,bus=far,chassis=1"]);
    for (number, queues, bus) in [(0, 2, "pcie.0"), (1, 4, "far_port")] {
        let tap = format!("tap,id=net{number},ifname=tap{number},queues={queues},script=no,downscript=no");
        // Two vectors for each queue, one for the configuration, one to spare.
        let vectors = 2 * queues + 2;
        let nic = format!("virtio-net-pci,netdev=net{number},mq=on,vectors={vectors},bus={bus}");
        command.args(["-netdev", &tap, "-device", &nic]);
    }
    for disk in DISKS {
        let file = folder.join(disk);
        command.args(["-drive", &format!("if=none,id={disk},format=raw,file={}", file.display())]);
        command.args(["-device", &format!("nvme,drive={disk},serial={disk},bus=pcie.0")]);
    }
    command.stdin(Stdio::null());
    command
}

/// A running machine, which is killed when it is dropped.
struct Machine(Child);

impl Machine {
    /// Until it ends, or its file of answers grows no more.
    fn wait(&mut self, answers: &Path) -> Result<()> {
        let watch = Stopwatch::start();
        let (mut length, mut silence) = (0, Stopwatch::start());
        loop {
            if let Some(status) = self.0.try_wait()? {
                return if status.success() { Ok(()) } else { bail!("QEMU: {status}") };
            }
            if watch.passed() >= TIME_MAX {
                bail!("it has not powered off in {} s", TIME_MAX.as_secs());
            }
            let grown = fs::metadata(answers)?.len();
            if grown != length {
                (length, silence) = (grown, Stopwatch::start());
            } else if silence.passed() >= SILENCE_MAX {
                bail!("it has said nothing for {} s", SILENCE_MAX.as_secs());
            }
            clock::pause(LOOK_EVERY);
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
