//! Accelerators of virtual machines: KVM where it boots a kernel, translation in software elsewhere.
//!
//! Neither the file /dev/kvm nor a virtual processor that it grants proves that KVM works: a virtual machine without
//! nested virtualisation may have both, and the first kernel in there never comes up. So one is booted.

use super::files;
use crate::error::Error;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use stdx::newc::Archive;

/// How QEMU carries out the instructions of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accelerator {
    /// For records.
    pub(crate) name: &'static str,
    /// For `-accel`.
    pub(super) option: &'static str,
    /// For `-cpu`.
    pub(super) cpu: &'static str,
    /// Why it is not KVM.
    pub(crate) why_not: Option<String>,
}

/// The host's, which is found out once.
static TRIED: OnceLock<Accelerator> = OnceLock::new();

/// A kernel on a processor takes 1 to 2 s to its first program.
const BOOT_TIME_MAX_S: &str = "10";

impl Accelerator {
    /// The host's: the first call boots this kernel, with its archive written to `scratch`.
    pub(crate) fn of_host(image: &Path, scratch: &Path) -> Result<&'static Accelerator, Error> {
        if let Some(known) = TRIED.get() {
            return Ok(known);
        }
        let tried = attempt(image, scratch)?;
        Ok(TRIED.get_or_init(|| Accelerator::after(tried)))
    }

    pub(super) fn after(tried: Result<(), String>) -> Accelerator {
        match tried {
            Ok(()) => Accelerator { name: "kvm", option: "kvm", cpu: "host", why_not: None },
            Err(why) => Accelerator {
                name: "tcg",
                option: "tcg,thread=multi",
                // Emulated features cost time: the oldest processor of x86-64-v2.
                cpu: "Nehalem",
                why_not: Some(why),
            },
        }
    }

    /// The remark of its trials, if the machine is emulated.
    pub(crate) fn remark(&self) -> Option<String> {
        let why = self.why_not.as_ref()?;
        Some(format!(
            "emulated: the machine's instructions are translated in software, since KVM cannot be used: {why}"
        ))
    }
}

/// Whether a kernel comes up with KVM, and if not, why.
fn attempt(image: &Path, scratch: &Path) -> Result<Result<(), String>, Error> {
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        let hint =
            if error.kind() == ErrorKind::PermissionDenied { " (its group is usually kvm)" } else { "" };
        return Ok(Err(format!("open /dev/kvm: {error}{hint}")));
    }
    let Some(busybox) = files::program("busybox") else {
        return Ok(Err("there is no busybox to boot".into()));
    };
    let mut archive = Archive::default();
    archive.add("init", super::INIT.as_bytes());
    archive.add("bin/busybox", &fs::read(&busybox).map_err(Error::io("read", &busybox))?);
    fs::write(scratch, archive.finish()).map_err(Error::io("write", scratch))?;
    let machine = "-nodefaults -no-user-config -no-reboot -display none -serial stdio -machine q35 -accel kvm -cpu host -m 256";
    let mut qemu = Command::new("timeout");
    qemu.args(["--signal=KILL", BOOT_TIME_MAX_S, super::QEMU]).args(machine.split(' '));
    qemu.arg("-kernel").arg(image).arg("-initrd").arg(scratch).args(["-append", super::APPEND]);
    let said = qemu.stdin(Stdio::null()).output().map_err(Error::io("start", Path::new("timeout")))?;
    fs::remove_file(scratch).map_err(Error::io("remove", scratch))?;
    Ok(judged(&String::from_utf8_lossy(&said.stdout), &String::from_utf8_lossy(&said.stderr)))
}

/// From the console, and QEMU's own messages.
fn judged(console: &str, messages: &str) -> Result<(), String> {
    if console.lines().any(|line| line.starts_with(super::IS_UP)) {
        return Ok(());
    }
    let said = |line| {
        str::strip_prefix(line, super::QEMU)?.strip_prefix(": ").filter(|it| !it.starts_with("warning"))
    };
    let first = messages.lines().find_map(said);
    let first = first.or_else(|| messages.lines().find(|line| !line.trim().is_empty()));
    Err(match first {
        Some(message) => format!("no kernel comes up with it here: QEMU says \"{}\"", message.trim()),
        None => format!("no kernel comes up with it here within {BOOT_TIME_MAX_S} s"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(console: &str, messages: &str, expected: Result<(), &str>) {
        assert_eq!(judged(console, messages), expected.map_err(str::to_owned));
    }

    #[test]
    fn a_kernel_that_comes_up_proves_kvm_and_qemus_message_says_why_not() {
        check("SeaBIOS\r\nguest: Linux 6.1.0\r\nguest: cannot go on: no network\r\n", "", Ok(()));
        check("SeaBIOS\r\n", "", Err("no kernel comes up with it here within 10 s"));
        let messages = "qemu-system-x86_64: warning: no sse4.1\nqemu-system-x86_64: error: failed to set MSR 0x10a to 0x69\nqemu-system-x86_64: ../kvm.c: 3183\n";
        let why = "no kernel comes up with it here: QEMU says \"error: failed to set MSR 0x10a to 0x69\"";
        check("", messages, Err(why));
        let failure = "KVM internal error. Suberror: 1\nemulation failure\nRAX=0000000001ad29a0\n";
        check(
            "",
            failure,
            Err("no kernel comes up with it here: QEMU says \"KVM internal error. Suberror: 1\""),
        );
    }

    #[test]
    fn an_emulated_machine_has_a_remark_with_the_reason() {
        assert_eq!(Accelerator::after(Ok(())).remark(), None);
        let remark = Accelerator::after(Err("open /dev/kvm: no".into())).remark().expect("a remark");
        assert!(
            remark.starts_with("emulated: ") && remark.ends_with("cannot be used: open /dev/kvm: no"),
            "{remark}"
        );
    }
}
