//! irqbalance's list of interrupts to leave alone: asked for, added to and restored, of the real one where it is
//! installed, and of one that speaks as it does. In namespaces of the test's own, where interrupts cannot be moved.

use std::collections::BTreeSet;
use std::fs;
use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::namespace::in_namespace;
use crate::running::Running;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};
use tuner::apply::apply;
use tuner::apply::host::{FileHost, HostAccess};
use tuner::apply::journal::{BootAndNamespace, Journals, PlanState};
use tuner::apply::rollback::undo;
use tuner::plan::change::{Change, Risk, Stage};
use tuner::plan::signal::ExpectedSignal;
use tuner::{Root, Setting, probe};

const ALONE: &str = "
    mount -t tmpfs none /run; mkdir /run/irqbalance
    mount --bind /proc/irq /proc/irq; mount -o remount,ro,bind /proc/irq";

/// Looks before a test gives up, 10 ms apart: a minute.
const LOOKS_MAX: usize = 6000;

/// Adds two interrupts to the list of this irqbalance, which has 31 on it, and takes them off again.
fn check(pid: u32) {
    let setting = Setting::Irqbalance { pid };
    let mut host = FileHost::new(Root::new("/"));
    assert_eq!(host.read(&setting).unwrap(), "31");
    let change = Change {
        stage: Stage::Irqbalance,
        setting: setting.clone(),
        now: "31".into(),
        wanted: "31 38 39".into(),
        why: String::new(),
        asked_by: String::new(),
        risk: Risk::Low,
        signal: ExpectedSignal::default(),
    };
    let state = std::env::temp_dir().join(format!("tuner-irqbalance-{}", std::process::id()));
    let place = BootAndNamespace::of(&Root::new("/")).unwrap();
    let mut journal = Journals::new(&state).begin(&place, 0, None).unwrap();
    let done = apply(&mut host, &[change], &mut journal).unwrap().done;
    assert_eq!((done.len(), &done[0]), (1, &setting));
    assert_eq!(host.read(&setting).unwrap(), "31 38 39");
    assert!(undo(&mut host, &mut journal, "asked").is_whole());
    assert_eq!((host.read(&setting).unwrap().as_str(), journal.state()), ("31", PlanState::RolledBack));
    host.write(&setting, "").unwrap();
    assert_eq!(host.read(&setting).unwrap(), "");
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn the_list_of_one_that_speaks_as_irqbalance_does() {
    if !in_namespace("irqbalance::the_list_of_one_that_speaks_as_irqbalance_does", ALONE) {
        return;
    }
    let pid = std::process::id();
    let listener = UnixListener::bind(format!("/run/irqbalance/irqbalance{pid}.sock")).unwrap();
    sockopt::set_socket_passcred(&listener, true).unwrap();
    std::thread::spawn(move || {
        let mut banned = BTreeSet::from([31]);
        for stream in listener.incoming() {
            answer(stream.unwrap(), &mut banned);
        }
    });
    check(pid);
}

/// By irqbalance(1), "API": no answer for users other than root, and a new list for the old one.
fn answer(mut stream: UnixStream, banned: &mut BTreeSet<u32>) {
    let mut bytes = [0; 500];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(&stream, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::empty()).unwrap();
    let is_root = |message| match message {
        RecvAncillaryMessage::ScmCredentials(who) => who.uid.is_root(),
        _ => false,
    };
    assert!(ancillary.drain().any(is_root), "it shows who it is");
    let command = std::str::from_utf8(&bytes[..received.bytes]).unwrap();
    match command.strip_prefix("settings ban irqs ") {
        Some("NONE") => banned.clear(),
        Some(irqs) => *banned = irqs.split(' ').map(|irq| irq.parse().unwrap()).collect(),
        None => {
            assert_eq!(command, "setup");
            let irqs: String = banned.iter().map(|irq| format!("IRQ {irq} LOAD 0 DIFF 0 CLASS 0 ")).collect();
            write!(stream, "SLEEP 10 {irqs}BANNED 00000000").unwrap();
        }
    }
}

#[test]
fn the_list_of_the_real_irqbalance() {
    const PROGRAM: &str = "/usr/sbin/irqbalance";
    if !fs::exists(PROGRAM).unwrap() {
        return eprintln!("irqbalance is not installed");
    }
    if !in_namespace("irqbalance::the_list_of_the_real_irqbalance", ALONE) {
        return;
    }
    let mut irqbalance = Command::new(PROGRAM);
    irqbalance.args(["--foreground", "--banirq=31"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running(irqbalance.spawn().unwrap());
    let pid = running.0.id();
    let setting = Setting::Irqbalance { pid };
    let host = FileHost::new(Root::new("/"));
    let mut looks = 0;
    while host.read(&setting).is_err() {
        if running.0.try_wait().unwrap().is_some() {
            return eprintln!("irqbalance finds nothing to balance on this machine");
        }
        looks += 1;
        assert!(looks < LOOKS_MAX, "irqbalance does not answer");
        pause();
    }
    let facts = probe(&Root::new("/"), &[]).unwrap();
    // Another one may run on this machine, which cannot be seen from here.
    if let Some(found) = facts.irqbalance.filter(|found| found.pid == pid) {
        assert_eq!(found.banned, [31].into());
    }
    check(pid);
    drop(running);
    let error = host.read(&setting).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::SRCH.raw_os_error()), "{error}");
}

fn pause() {
    std::thread::park_timeout(Duration::from_millis(10));
}
