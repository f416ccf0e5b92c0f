//! Crashes, power losses and full disks at every step of a write, on a folder in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use stdx::prng::Prng;

use super::*;
use crate::register::contents::RegisterEntry;
use crate::register::keys::RegisterKey;
use crate::register::numbers::LeaseId;

/// A folder that can lose what was not waited for, and that fails on request.
#[derive(Clone, Default)]
struct MemoryFolder(Arc<Mutex<Disk>>);

#[derive(Default)]
struct Disk {
    /// As a program sees it.
    files: BTreeMap<String, Vec<u8>>,
    /// As it is after a power loss.
    durable: BTreeMap<String, Vec<u8>>,
    /// Names that changed since the last wait.
    changed: Vec<String>,
    steps: usize,
    trouble: Option<Trouble>,
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The power goes at this step, which may be half done; nothing works afterwards.
    PowerLoss(usize),
    /// This step alone fails; a write is half done.
    Fails(usize),
}

impl MemoryFolder {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().expect("no panic")
    }

    /// The folder after the power came back: of each name that was not waited for, the old or the new state.
    fn after_power_loss(&self, prng: &mut Prng) -> MemoryFolder {
        let mut disk = self.disk();
        let Disk { files, durable, changed, .. } = &mut *disk;
        for name in changed.drain(..) {
            if prng.below(2) == 0 {
                match files.get(&name) {
                    Some(bytes) => durable.insert(name, bytes.clone()),
                    None => durable.remove(&name),
                };
            }
        }
        let files = durable.clone();
        MemoryFolder(Arc::new(Mutex::new(Disk { durable: files.clone(), files, ..Disk::default() })))
    }

    fn steps(&self) -> usize {
        self.disk().steps
    }

    fn set_trouble(&self, trouble: Option<Trouble>) {
        self.disk().trouble = trouble;
    }
}

impl Disk {
    /// Counts a step; whether it must stay half done.
    fn step(&mut self) -> io::Result<bool> {
        let step = self.steps;
        self.steps += 1;
        match self.trouble {
            Some(Trouble::PowerLoss(at)) if step > at => Err(io::Error::other("there is no power")),
            Some(Trouble::PowerLoss(at) | Trouble::Fails(at)) if step == at => Ok(true),
            _ => Ok(false),
        }
    }

    fn change(&mut self, name: &str, bytes: Option<Vec<u8>>) {
        match bytes {
            Some(bytes) => drop(self.files.insert(name.to_owned(), bytes)),
            None => drop(self.files.remove(name)),
        }
        self.changed.push(name.to_owned());
    }
}

fn failed() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

impl Folder for MemoryFolder {
    fn path(&self) -> &Path {
        Path::new("/memory")
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.disk().files.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.disk().files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        let is_half = disk.step()?;
        let len = if is_half { bytes.len() / 2 } else { bytes.len() };
        disk.change(name, Some(bytes[..len].to_vec()));
        if is_half { Err(failed()) } else { Ok(()) }
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.step()? {
            return Err(failed());
        }
        let bytes = disk.files.get(from).cloned().ok_or(io::ErrorKind::NotFound)?;
        disk.change(from, None);
        disk.change(to, Some(bytes));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.step()? {
            return Err(failed());
        }
        let Disk { files, durable, changed, .. } = &mut *disk;
        durable.clone_from(files);
        changed.clear();
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.step()? {
            return Err(failed());
        }
        if !disk.files.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.change(name, None);
        Ok(())
    }
}

fn key(number: u64) -> RegisterKey {
    format!("/k{number}").parse().expect("a key")
}

fn put(number: u64, value: &str) -> Write {
    Write { key: key(number), body: WriteBody::Put(value.as_bytes().to_vec(), None) }
}

fn open(folder: &MemoryFolder) -> Result<DirectoryJournal, RegisterError> {
    DirectoryJournal::open(Box::new(folder.clone()), false)
}

fn entries(journal: &DirectoryJournal) -> Vec<RegisterEntry> {
    journal.contents().expect("known").entries().cloned().collect()
}

/// A journal with so many commits, each of two of five keys.
fn filled(folder: &MemoryFolder, commits: u64) -> DirectoryJournal {
    let mut journal = open(folder).expect("a journal");
    for number in 0..commits {
        journal
            .commit(&[put(number % 5, &format!("{number}")), put((number + 1) % 5, "x")])
            .expect("durable");
    }
    journal
}

/// Lets the power go at every step of an act in turn: afterwards there is the state before, or the one after.
#[track_caller]
fn check_power_loss(commits: u64, act: impl Fn(&mut DirectoryJournal) -> Result<(), RegisterError>) {
    let mut prng = Prng::new(commits);
    // A commit begins with the same few steps, and may end with hundreds of removals.
    for at in (0..10).chain((10..).step_by(23)) {
        let folder = MemoryFolder::default();
        let mut journal = filled(&folder, commits);
        let before = entries(&journal);
        let first = folder.steps();
        folder.set_trouble(Some(Trouble::PowerLoss(first + at)));
        let answer = act(&mut journal);
        let is_over = folder.steps() <= first + at;
        let after = is_over.then(|| entries(&journal));
        for _ in 0..4 {
            let again = open(&folder.after_power_loss(&mut prng));
            let mut again = again.unwrap_or_else(|error| panic!("step {at} of {commits}: {error}"));
            let found = entries(&again);
            match answer {
                Ok(()) => {
                    let expected = after.clone().unwrap_or_else(|| entries(&journal));
                    assert_eq!(found, expected, "step {at} of {commits}: it was said to be durable");
                }
                Err(_) => {
                    let mut whole = filled(&MemoryFolder::default(), commits);
                    act(&mut whole).expect("without trouble");
                    assert!(found == before || found == entries(&whole), "step {at} of {commits}: a part");
                }
            }
            again.commit(&[put(9, "more")]).expect("it goes on");
        }
        if is_over {
            return;
        }
    }
}

fn commit(journal: &mut DirectoryJournal) -> Result<(), RegisterError> {
    journal.commit(&[put(1, "new"), put(2, "new"), put(7, "new")]).map(drop)
}

#[test]
fn a_power_loss_at_any_step_of_a_commit_leaves_the_old_state_or_the_new_one() {
    check_power_loss(0, commit);
    check_power_loss(7, commit);
    // The commit after which the state is written anew and older ones are removed, first and again.
    check_power_loss(COMMITS_PER_STATE - 1, commit);
    check_power_loss(2 * COMMITS_PER_STATE - 1, commit);
}

#[test]
fn a_power_loss_at_any_step_of_a_compaction_changes_no_key() {
    check_power_loss(20, |journal| journal.compact(Revision(12)));
}

#[test]
fn a_power_loss_at_any_step_of_the_beginning_leaves_an_empty_register_or_none() {
    for at in 0..8 {
        let folder = MemoryFolder::default();
        folder.set_trouble(Some(Trouble::PowerLoss(at)));
        let _ = open(&folder);
        let again = open(&folder.after_power_loss(&mut Prng::new(at as u64))).expect("a journal");
        assert_eq!(entries(&again), []);
    }
}

#[test]
fn a_step_that_fails_changes_nothing_or_says_that_nobody_knows() {
    for at in 0..4 {
        let folder = MemoryFolder::default();
        let mut journal = filled(&folder, 3);
        let before = entries(&journal);
        folder.set_trouble(Some(Trouble::Fails(folder.steps() + at)));
        match commit(&mut journal) {
            Err(RegisterError::Disk { .. }) => {
                assert_eq!(entries(&journal), before, "step {at}");
                assert_eq!(entries(&open(&folder).expect("a journal")), before, "step {at}");
                commit(&mut journal).expect("with room it goes on");
            }
            Err(RegisterError::Unsettled { .. }) => {
                assert_eq!(at, 2, "only the wait for names leaves it open");
                assert!(
                    journal.contents().is_err() && commit(&mut journal).is_err(),
                    "until it is opened again"
                );
            }
            Ok(()) => assert_eq!(at, 3, "a commit has three steps"),
            Err(other) => panic!("step {at}: {other}"),
        }
    }
}

#[test]
fn without_a_state_commits_are_accepted_up_to_a_limit_and_again_when_it_can_be_written() {
    let folder = MemoryFolder::default();
    let mut journal = filled(&folder, COMMITS_PER_STATE - 1);
    let mut accepted = COMMITS_PER_STATE - 1;
    let error = loop {
        // The steps of the commit pass; the next one, of the state, does not.
        let after = if accepted >= COMMITS_MAX { 0 } else { 3 };
        folder.set_trouble(Some(Trouble::Fails(folder.steps() + after)));
        match journal.commit(&[put(accepted, "")]) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted <= COMMITS_MAX, "the limit has no effect");
    };
    assert!(matches!(error, RegisterError::Disk { .. }), "{error}");
    assert_eq!(accepted, COMMITS_MAX);
    folder.set_trouble(None);
    journal.commit(&[put(accepted, "")]).expect("it goes on");
    assert_eq!(entries(&open(&folder).expect("a journal")), entries(&journal));
    assert!(folder.names().expect("names").len() as u64 <= COMMITS_MAX + 4);
}

#[test]
fn contents_are_accepted_up_to_their_limit_and_deletes_beyond_it() {
    let folder = MemoryFolder::default();
    let mut journal = open(&folder).expect("a journal");
    let value = "v".repeat(1 << 20);
    let refused = (0..100).find(|number| journal.commit(&[put(*number, &value)]).is_err());
    let number = refused.expect("the limit has an effect");
    assert_eq!(number as usize + 1, CONTENTS_LEN_MAX >> 20, "the keys count, too");
    let before = journal.contents().expect("known").revision();
    let error = journal.commit(&[put(number, &value)]).expect_err("no room");
    assert!(error.to_string().contains("more than 67108864 bytes"), "{error}");
    assert_eq!(journal.contents().expect("known").revision(), before);
    let delete = Write { key: key(0), body: WriteBody::Delete };
    journal.commit(&[delete]).expect("it makes room");
    journal.commit(&[put(number, &value)]).expect("there is room");
}

#[test]
fn histories_with_power_losses_are_those_of_a_map() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let mut folder = MemoryFolder::default();
        let mut model: BTreeMap<RegisterKey, Vec<u8>> = BTreeMap::new();
        let mut journal = open(&folder).expect("a journal");
        for round in 0..12 {
            if prng.below(3) > 0 {
                folder.set_trouble(Some(Trouble::PowerLoss(folder.steps() + prng.below(200) as usize)));
            }
            for _ in 0..prng.below(120) {
                let mut next = model.clone();
                let writes: Vec<Write> = (0..=prng.below(2))
                    .map(|at| {
                        let (number, value) = (prng.below(6) * 3 + at, format!("{}", prng.below(100)));
                        let lease = (prng.below(50) == 0).then_some(LeaseId(1));
                        let body = match prng.below(4) {
                            0 => WriteBody::Delete,
                            _ => WriteBody::Put(value.into_bytes(), lease),
                        };
                        Write { key: key(number), body }
                    })
                    .collect();
                for write in &writes {
                    match &write.body {
                        WriteBody::Put(value, None) => drop(next.insert(write.key.clone(), value.clone())),
                        // What a lease holds is gone after the restart, and each round ends with one.
                        WriteBody::Put(_, Some(_)) | WriteBody::Delete => drop(next.remove(&write.key)),
                    }
                }
                match journal.commit(&writes) {
                    Ok(_) => model = next,
                    Err(_) => {
                        folder = folder.after_power_loss(&mut prng);
                        journal = open(&folder).expect("a journal");
                        if values(&journal) == next {
                            model = next;
                        }
                        break;
                    }
                }
            }
            folder = folder.after_power_loss(&mut prng);
            journal = open(&folder).expect("a journal");
            assert_eq!(values(&journal), model, "seed {seed}, round {round}");
        }
    }
}

fn values(journal: &DirectoryJournal) -> BTreeMap<RegisterKey, Vec<u8>> {
    entries(journal).into_iter().map(|entry| (entry.key, entry.value.to_vec())).collect()
}
