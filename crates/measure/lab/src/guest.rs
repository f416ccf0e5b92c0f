//! Virtual machines for subjects, each with a kernel of its own. QEMU boots it, and nothing else runs there.
//!
//! The machine's file system is an archive in its memory (`files`): busybox, the kernel's modules for the network and for
//! disks, and the files that the subject's command line names. Disks are empty files beside the archive. It is connected by the console, which is the
//! subject's log, and one port: 127.0.0.1:{port} here is 127.0.0.1:{port} there. A card with several queues ends in a
//! network namespace instead, which belongs to QEMU and ends with it. The agent in the machine is [`inside`].

mod accelerator;
mod files;
pub mod inside;
mod modules;

use crate::error::Error;
use crate::experiment::{GuestKernel, Level};
use crate::record::GuestRecord as Recorded;
use crate::trial::settings;
use crate::trial::trace::quoted;
pub(crate) use accelerator::Accelerator;
use files::Files;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The machine of one cell.
#[derive(Clone, Debug)]
pub(crate) struct GuestMachine<'e> {
    /// The key in the experiment's file.
    place: String,
    kernel: &'e GuestKernel,
}

/// The program to run there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    /// The command, with all names filled in.
    pub(crate) start: &'a str,
    pub(crate) env: &'a BTreeMap<String, String>,
    /// The trial's own directory, which the machine gets with its present content.
    pub(crate) dir: &'a Path,
    pub(crate) port: u16,
    /// Whether the subject is ready as soon as the port accepts connections.
    pub(crate) is_awaited: bool,
}

/// Printed by the machine as soon as a process listens at the port.
pub(crate) const LISTENS: &str = "guest: listens";

/// Prefix of a line about a change that a strategy could not make there.
pub(crate) const LEFT: &str = "guest: left: ";

/// Prefix of a line about a setting that was changed from outside.
pub(crate) const MOVED: &str = "guest: moved: ";

/// Prefix of the line when the kernel is up, before its release.
const IS_UP: &str = "guest: Linux ";

/// Prefix of the line when the machine lacks something, before the reason.
const GIVES_UP: &str = "guest: cannot go on: ";

const QEMU: &str = "qemu-system-x86_64";

/// The kernel's command line. The archive is as large as it is, and not half of the memory at most. A machine that is
/// emulated on busy CPUs may miss the ticks by which the kernel tests its timer at boot, and the kernel gives up.
const APPEND: &str = "console=ttyS0 panic=-1 quiet rootfstype=ramfs no_timer_check";

/// Memory that Debian's kernel takes before it can unpack anything, in megabytes (2^20 bytes): it boots with 96.
const OWN_MB: u64 = 128;

/// Makes the other end of a card with queues, then becomes QEMU. `MULTI` stands for the option of more than one.
const IN_NAMESPACE: &str = r#"set -e
ip link set lo up
ip tuntap add dev tap0 mode tap vnet_hdr MULTI
ip address add 10.0.2.2/24 dev tap0
ip link set tap0 up
exec "$0" "$@""#;

/// The first program of the machine.
const INIT: &str = include_str!("guest/init.sh");

impl<'e> GuestMachine<'e> {
    /// The machine of these levels, if one of them has a kernel.
    pub(crate) fn of(levels: &[(&'e str, &'e Level)]) -> Result<Option<GuestMachine<'e>>, Error> {
        let mut asked = levels.iter().filter_map(|(factor, level)| {
            let place = format!("{}: kernel", settings::place(factor, level));
            Some(GuestMachine { place, kernel: level.kernel.as_ref()? })
        });
        let first = asked.next();
        match asked.next() {
            None => Ok(first),
            Some(other) => Err(other.wrong("another factor has a kernel, too, and a machine boots only one")),
        }
    }

    fn wrong(&self, what: impl ToString) -> Error {
        Error::place(&self.place, what)
    }

    /// Whether this host has everything that the machine needs.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !cfg!(target_arch = "x86_64") {
            return Err(self.wrong("virtual machines are built for x86-64 only"));
        }
        let always = [(QEMU, "qemu-system-x86"), ("busybox", "busybox-static"), ("ldd", "libc-bin")];
        let for_queues = [("ip", "iproute2"), ("unshare", "util-linux")];
        let with_queues = for_queues.into_iter().filter(|_| self.kernel.queues.is_some());
        for (program, package) in always.into_iter().chain(with_queues) {
            if files::program(program).is_none() {
                return Err(self.wrong(format!("there is no {program} (Debian: {package})")));
            }
        }
        if self.kernel.queues.is_some() && !rustix::process::geteuid().is_root() {
            return Err(self.wrong("queues take root, for a network namespace with a tap"));
        }
        self.release().map(|_| ())
    }

    /// The kernel's release: in its header, by offset 0x20e (Documentation/arch/x86/boot.rst).
    fn release(&self) -> Result<String, Error> {
        let image = Path::new(&self.kernel.image);
        let mut head = Vec::new();
        let read = File::open(image).and_then(|file| file.take(1 << 16).read_to_end(&mut head));
        read.map_err(|error| self.wrong(format!("read the image {}: {error}", image.display())))?;
        let release = || {
            (head.get(0x202..0x206)? == b"HdrS").then_some(())?;
            let at = 0x200 + usize::from(u16::from_le_bytes(head.get(0x20e..0x210)?.try_into().ok()?));
            let text = String::from_utf8_lossy(head.get(at..)?.split(|byte| *byte == 0).next()?).into_owned();
            text.split(' ').next().filter(|release| !release.is_empty()).map(str::to_owned)
        };
        release()
            .ok_or_else(|| self.wrong(format!("{} is no kernel that QEMU boots (bzImage)", image.display())))
    }

    /// Writes the machine's file system.
    pub(crate) fn pack(&self, task: &Task, archive: &Path) -> Result<(), Error> {
        let mut files = Files::new(&self.place, task.env);
        files.text("init", INIT);
        files.at(
            "/bin/busybox",
            &files::program("busybox").ok_or_else(|| self.wrong("there is no busybox"))?,
        )?;
        // Those of several kernels may lie side by side, as in /lib/modules itself.
        let folder = Path::new(self.kernel.modules.as_deref().unwrap_or("/lib/modules"));
        let own =
            Some(folder.join(self.release()?)).filter(|own| own.exists() || self.kernel.modules.is_none());
        let modules = own.as_deref().unwrap_or(folder);
        let with_disks = self.kernel.disks.is_some();
        if let Some(disks) = self.kernel.disks {
            files.text("guest/disks", &format!("{}\n", disks.count));
        }
        for (number, (name, content)) in
            modules::in_order(modules, &self.place, with_disks)?.iter().enumerate()
        {
            files.content(&format!("guest/modules/{number:02}-{name}"), content);
        }
        let sysctls = self.kernel.sysctl.iter();
        let sysctls = sysctls.map(|(name, value)| format!("{} {}\n", name.replace('.', "/"), words(value)));
        files.text("guest/sysctl", &sysctls.collect::<String>());
        if task.is_awaited {
            files.text("guest/port", &format!("{}\n", task.port));
        }
        files.text("guest/start", &start(task)?);
        if let Some(strategy) = &self.kernel.strategy {
            let ours = std::env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
            let every_s = self.kernel.sample_s;
            files.text("guest/inside", &format!("{strategy} {every_s} {}\n", ours.display()));
            files.add(&ours)?;
        }
        for path in ["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/ld.so.cache"].map(Path::new) {
            if path.exists() {
                files.add(path)?;
            }
        }
        files.named_in(task.start)?;
        self.kernel.files.iter().try_for_each(|path| files.add(Path::new(path)))?;
        files.add(task.dir)?;
        let content = files.finish();
        // While the kernel unpacks the archive it is there twice.
        let least_mb = 2 * (content.len() as u64 >> 20) + OWN_MB;
        if u64::from(self.kernel.memory_mb) < least_mb {
            let what =
                format!("memory_mb = {} is too little for its files: {least_mb}", self.kernel.memory_mb);
            return Err(self.wrong(what));
        }
        // For the owner alone: {dir} may hold a key.
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(archive);
        file.and_then(|mut file| file.write_all(&content)).map_err(Error::io("write", archive))
    }

    /// The files of its disks.
    fn disks(&self, archive: &Path) -> impl Iterator<Item = PathBuf> {
        let count = self.kernel.disks.map_or(0, |disks| disks.count);
        (0..count).map(move |number| archive.with_extension(format!("disk{number}")))
    }

    /// Makes its disks anew, without blocks for what is not written.
    pub(crate) fn make_disks(&self, archive: &Path) -> Result<(), Error> {
        let bytes = self.kernel.disks.map_or(0, |disks| u64::from(disks.size_mb) << 20);
        self.disks(archive).try_for_each(|disk| {
            let made = File::create(&disk).and_then(|file| file.set_len(bytes));
            made.map_err(Error::io("create", &disk))
        })
    }

    /// Whether the machine sends samples.
    pub(crate) fn is_seen(&self) -> bool {
        self.kernel.strategy.is_some()
    }

    /// The command that boots it, for the shell. `samples` is the file for its samples.
    pub(crate) fn command(
        &self,
        accelerator: &Accelerator,
        archive: &Path,
        port: u16,
        samples: &Path,
    ) -> String {
        let GuestKernel { image, append, cpus, memory_mb, .. } = self.kernel;
        let Accelerator { option, cpu, .. } = accelerator;
        let append = format!("{APPEND} {append}");
        let words = [
            format!("exec {}{QEMU} -nodefaults -no-user-config -no-reboot", self.namespace()),
            format!("-display none -serial stdio -serial {}", quoted(&file(samples))),
            format!("-machine q35 -accel {option} -cpu {cpu} -smp {cpus} -m {memory_mb}"),
            format!("-kernel {} -initrd {}", quoted(Path::new(image)), quoted(archive)),
            format!("-append {}", quoted(Path::new(append.trim()))),
            self.card(port),
        ];
        let disks = self.disks(archive).enumerate().map(|(number, disk)| {
            // A comma of a value is doubled.
            let file = disk.to_string_lossy().replace(',', ",,");
            let drive = quoted(format!("if=none,id=disk{number},format=raw,file={file}").as_ref());
            format!("-drive {drive} -device nvme,drive=disk{number},serial=disk{number}")
        });
        words.into_iter().chain(disks).collect::<Vec<_>>().join(" ")
    }

    /// The command before QEMU's, if its card ends in a namespace.
    fn namespace(&self) -> String {
        let Some(queues) = self.kernel.queues else { return String::new() };
        let script = IN_NAMESPACE.replace("MULTI", if queues > 1 { "multi_queue" } else { "" });
        format!("unshare --net sh -c {} ", quoted(Path::new(&script)))
    }

    fn card(&self, port: u16) -> String {
        match self.kernel.queues {
            None => format!(
                "-netdev user,id=port,restrict=on,hostfwd=tcp:127.0.0.1:{port}-127.0.0.1:{port} \
                 -device virtio-net-pci,netdev=port,romfile="
            ),
            Some(queues) => {
                let several = if queues > 1 { format!(",queues={queues}") } else { String::new() };
                // Two vectors for each queue, one for the configuration, one to spare.
                let vectors = 2 * queues + 2;
                format!(
                    "-netdev tap,id=port,ifname=tap0,script=no,downscript=no{several} \
                     -device virtio-net-pci,netdev=port,romfile=,mq=on,vectors={vectors}"
                )
            }
        }
    }

    /// The accelerator of this host, which the first call finds out.
    pub(crate) fn accelerator(&self, archive: &Path) -> Result<&'static Accelerator, Error> {
        Accelerator::of_host(Path::new(&self.kernel.image), &archive.with_extension("kvm"))
    }

    /// The machine's entry in the record. `log` is the console.
    pub(crate) fn recorded(&self, accelerator: &Accelerator, log: &Path) -> Option<Recorded> {
        let kernel = said(log, IS_UP)?;
        Some(Recorded { kernel, accelerator: accelerator.name.to_owned(), samples: Vec::new() })
    }

    /// The reason why it did not start, if that is not the subject's fault.
    pub(crate) fn complaint(&self, error: Error, log: &Path) -> Error {
        match error {
            Error::Place { .. } if let Some(why) = said(log, GIVES_UP) => self.wrong(why),
            Error::Place { what, .. } if said(log, IS_UP).is_none() => {
                self.wrong(format!("the kernel did not come up: {what}"))
            }
            other => other,
        }
    }
}

/// The rest of the console line that begins so.
fn said(log: &Path, beginning: &str) -> Option<String> {
    all_said(log, beginning).into_iter().next()
}

/// The rest of all console lines that begin so.
pub(crate) fn all_said(log: &Path, beginning: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    text.lines().filter_map(|line| line.strip_prefix(beginning)).map(|rest| rest.trim().to_owned()).collect()
}

/// In the form of `-serial`; the text after the colon is taken literally.
fn file(path: &Path) -> PathBuf {
    format!("file:{}", path.display()).into()
}

/// The script that starts the subject: in the directory where it starts here, with its environment, and with programs where
/// a shell finds them here.
fn start(task: &Task) -> Result<String, Error> {
    let here = std::env::current_dir().map_err(Error::io("find", Path::new(".")))?;
    let here = quoted(&here);
    let env = task.env.iter();
    let env: String =
        env.map(|(name, value)| format!("export {name}={}\n", quoted(Path::new(value)))).collect();
    let path = std::env::var_os("PATH")
        .map_or_else(String::new, |path| format!("export PATH={}:\"$PATH\"\n", quoted(Path::new(&path))));
    Ok(format!("mkdir -p {here}; cd {here}\n{path}{env}{}\n", task.start))
}

/// As the kernel prints it, whatever stands between the words.
fn words(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn kernel(image: &Path) -> GuestKernel {
        let text = format!("image = \"{}\"\nappend = \"mitigations=off\"", image.display());
        toml::from_str(&text).expect("a kernel")
    }

    fn guest(kernel: &GuestKernel) -> GuestMachine<'_> {
        GuestMachine { place: "here".into(), kernel }
    }

    fn tcg() -> Accelerator {
        Accelerator::after(Err("no".into()))
    }

    /// The beginning of a bzImage that calls itself so.
    fn image(release: &str) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        bytes[0x300..0x300 + release.len()].copy_from_slice(release.as_bytes());
        bytes
    }

    #[test]
    fn a_kernel_says_its_release() {
        let scratch = Scratch::new("guest-release");
        let path = scratch.path().join("vmlinuz");
        let kernel = kernel(&path);
        std::fs::write(&path, image("6.1.0-56-cloud-amd64 (debian-kernel@) #1 SMP")).expect("written");
        assert_eq!(guest(&kernel).release().expect("a release"), "6.1.0-56-cloud-amd64");
        for wrong in [b"text".to_vec(), image(""), vec![0; 0x208], Vec::new()] {
            std::fs::write(&path, wrong).expect("written");
            let error = guest(&kernel).release().expect_err("no kernel").to_string();
            assert!(error.ends_with("vmlinuz is no kernel that QEMU boots (bzImage)"), "{error}");
        }
        std::fs::remove_file(&path).expect("it was there");
        let error = guest(&kernel).release().expect_err("no file").to_string();
        assert!(error.starts_with("carry out here: read the image "), "{error}");
    }

    #[test]
    fn the_machine_has_one_way_in() {
        let kernel = kernel(Path::new("/boot/it's"));
        let command = guest(&kernel).command(&tcg(), Path::new("/run/a b"), 4711, Path::new("/run/s"));
        assert!(command.starts_with("exec qemu-system-x86_64 "), "{command}");
        assert!(command.contains("restrict=on,hostfwd=tcp:127.0.0.1:4711-127.0.0.1:4711 "), "{command}");
        assert!(command.contains("-smp 1 -m 1024 -kernel '/boot/it'\\''s' -initrd '/run/a b' "), "{command}");
        assert!(command.contains(" no_timer_check mitigations=off' "), "{command}");
    }

    #[test]
    fn a_card_with_queues_has_a_namespace_and_interrupts_for_each() {
        let command = |queues| {
            let kernel = GuestKernel { queues: Some(queues), ..kernel(Path::new("/boot/it")) };
            guest(&kernel).command(&tcg(), Path::new("/run/a"), 4711, Path::new("/run/s"))
        };
        let two = command(2);
        assert!(two.starts_with("exec unshare --net sh -c 'set -e\n"), "{two}");
        assert!(
            two.contains(" vnet_hdr multi_queue\n") && two.contains("\"$@\"' qemu-system-x86_64 "),
            "{two}"
        );
        assert!(
            two.contains(",queues=2 ") && two.contains("mq=on,vectors=6") && !two.contains("hostfwd"),
            "{two}"
        );
        // One of one queue must not be opened as one of several.
        let one = command(1);
        assert!(!one.contains("multi_queue") && !one.contains("queues="), "{one}");
    }

    #[test]
    fn disks_are_empty_files_beside_the_archive() {
        let scratch = Scratch::new("guest-disks");
        let disks = Some(crate::experiment::GuestDisks { count: 2, size_mb: 3 });
        let kernel = GuestKernel { disks, ..kernel(Path::new("/boot/it")) };
        let archive = scratch.path().join("a,b.guest");
        std::fs::write(archive.with_extension("disk1"), "of the trial before").expect("written");
        guest(&kernel).make_disks(&archive).expect("made");
        let content = std::fs::read(archive.with_extension("disk1")).expect("a file");
        assert!(content.len() == 3 << 20 && content.iter().all(|byte| *byte == 0));
        let command = guest(&kernel).command(&tcg(), &archive, 4711, Path::new("/run/s"));
        assert!(command.contains("a,,b.disk0' -device nvme,drive=disk0,"), "{command}");
        assert!(command.ends_with("a,,b.disk1' -device nvme,drive=disk1,serial=disk1"), "{command}");
    }

    #[test]
    fn a_program_is_looked_for_where_it_was_found_here() {
        let env = BTreeMap::from([("A".to_owned(), "b c".to_owned())]);
        let task = Task { start: "exec it", env: &env, dir: Path::new("/run"), port: 1, is_awaited: true };
        let script = start(&task).expect("a directory");
        let path = std::env::var("PATH").expect("tests run with one");
        assert!(
            script.contains(&format!("\nexport PATH='{path}':\"$PATH\"\nexport A='b c'\nexec it\n")),
            "{script}"
        );
    }

    #[track_caller]
    fn complains(log: &str, expected: &str) {
        let scratch = Scratch::new("guest-complains");
        let (path, kernel) = (scratch.path().join("log"), kernel(Path::new("x")));
        std::fs::write(&path, log).expect("written");
        let error = guest(&kernel).complaint(Error::place("subject", "it is not ready"), &path);
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn whose_fault_it_is_stands_on_the_console() {
        complains("Kernel panic\r\n", "carry out here: the kernel did not come up: it is not ready");
        let sysctl = "guest: Linux 6.1.0\r\nguest: cannot go on: sysctl a/b cannot be set to 1\r\n";
        complains(sysctl, "carry out here: sysctl a/b cannot be set to 1");
        complains("guest: Linux 6.1.0\r\nguest: listens\r\n", "carry out subject: it is not ready");
    }

    #[test]
    fn two_kernels_at_once_are_refused() {
        let kernel = kernel(Path::new("x"));
        let level =
            |name: &str| Level { name: name.into(), kernel: Some(kernel.clone()), ..Level::default() };
        let (a, b, none) = (level("a"), level("b"), Level::default());
        assert!(GuestMachine::of(&[("f", &none)]).expect("none").is_none());
        let only = GuestMachine::of(&[("f", &none), ("g", &a)]).expect("one").expect("one");
        assert_eq!(only.place, "factor \"g\": level \"a\": kernel");
        let error = GuestMachine::of(&[("f", &a), ("g", &b)]).expect_err("two").to_string();
        assert!(error.contains("factor \"g\": level \"b\": kernel: another factor has a kernel"), "{error}");
    }
}
