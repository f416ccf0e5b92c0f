//! Limits that the kernel has in two units: writing one makes the other 0.

use std::io;

use os::CpuSet;
use rustix::io::Errno;
use tuner::Root;
use tuner::apply::apply;
use tuner::apply::host::{FileHost, HostAccess};
use tuner::apply::journal::{BootAndNamespace, Journals};
use tuner::apply::rollback::undo;
use tuner::plan::change::{Change, Holds, Risk, Setting, Stage};
use tuner::plan::signal::ExpectedSignal;

use crate::hosts::tree::Tree;

const PAIRS: [[&str; 2]; 3] = [
    ["vm.dirty_bytes", "vm.dirty_ratio"],
    ["vm.dirty_background_bytes", "vm.dirty_background_ratio"],
    ["vm.overcommit_kbytes", "vm.overcommit_ratio"],
];

fn setting(name: &str) -> Setting {
    Setting::sysctl(name, Holds::Words)
}

/// Does as mm/page-writeback.c and mm/util.c do.
struct Kernel(FileHost);

impl HostAccess for Kernel {
    fn read(&self, setting: &Setting) -> io::Result<String> {
        self.0.read(setting)
    }

    fn write(&mut self, written: &Setting, text: &str) -> io::Result<()> {
        let is = |name: &str| *written == setting(name);
        if text.trim() == "0" && (is("vm.dirty_bytes") || is("vm.dirty_background_bytes")) {
            return Err(Errno::INVAL.into());
        }
        self.0.write(written, &format!("{}\n", text.trim()))?;
        for [one, other] in PAIRS {
            if is(one) {
                self.0.write(&setting(other), "0\n")?;
            } else if is(other) {
                self.0.write(&setting(one), "0\n")?;
            }
        }
        Ok(())
    }

    fn interrupt(&self, irq: u32) -> io::Result<(u64, CpuSet)> {
        self.0.interrupt(irq)
    }

    fn reset_by(&self, setting: &Setting) -> Vec<Setting> {
        self.0.reset_by(setting)
    }
}

/// Carries out these changes, one after the other, and undoes them.
#[track_caller]
fn check(changes: &[(&str, &str)], before: [(&str, &str); 2], then: [&str; 2]) {
    let file = |tree: Tree, (name, value): (&str, &str)| {
        tree.file(&format!("proc/sys/{}", name.replace('.', "/")), value)
    };
    let tree = before.into_iter().fold(Tree::new().kernel("6.1.0-18-amd64"), file);
    let root: Root = tree.root();
    let mut kernel = Kernel(FileHost::new(tree.root()));
    let journals = Journals::new(root.path("/var/lib/evenkeel/tune"));
    let mut journal =
        journals.begin(&BootAndNamespace::of(&root).expect("a place"), 0, None).expect("a journal");
    for (name, wanted) in changes {
        let change = Change {
            stage: Stage::Sysctl,
            setting: setting(name),
            now: kernel.read(&setting(name)).expect("a value"),
            wanted: (*wanted).to_owned(),
            why: String::new(),
            asked_by: String::new(),
            risk: Risk::Low,
            signal: ExpectedSignal::default(),
        };
        apply(&mut kernel, &[change], &mut journal).expect("it is made");
    }
    let values = |kernel: &Kernel| {
        before.map(|(name, _)| kernel.read(&setting(name)).expect("a value").trim().to_owned())
    };
    assert_eq!(values(&kernel), then);
    let undone = undo(&mut kernel, &mut journal, "test");
    assert!(undone.is_whole(), "{undone:?}");
    assert_eq!(values(&kernel), before.map(|(_, value)| value), "{undone:?}");
}

#[test]
fn a_limit_is_restored_in_the_unit_that_it_was_in() {
    for [bytes, ratio] in PAIRS {
        let (as_ratio, as_bytes) = ([(bytes, "0"), (ratio, "20")], [(bytes, "65536"), (ratio, "0")]);
        check(&[(bytes, "131072")], as_ratio, ["131072", "0"]);
        check(&[(ratio, "10")], as_ratio, ["0", "10"]);
        check(&[(bytes, "131072")], as_bytes, ["131072", "0"]);
        check(&[(ratio, "10")], as_bytes, ["0", "10"]);
        check(&[(bytes, "131072"), (ratio, "10")], as_ratio, ["0", "10"]);
        check(&[(ratio, "10"), (bytes, "131072")], as_bytes, ["131072", "0"]);
    }
}
