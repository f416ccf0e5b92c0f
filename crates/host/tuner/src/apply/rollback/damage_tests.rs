//! Rollback from damaged journals: any line of a real one, damaged in many ways.

use stdx::prng::Prng;

use super::tests::{Shelf, change, place, setting};
use super::*;
use crate::apply::apply;
use crate::apply::journal::Journals;
use crate::observe::shapes::Scratch;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The value of each setting before the plan, and in it.
const VALUES: (&str, &str) = ("1", "2");

/// How a line is damaged. What it is made of has its end, if the line had one.
type Way = fn(&[u8], &mut Prng) -> Vec<u8>;

/// Ways that leave a record nowhere.
const DESTRUCTIVE: [Way; 10] = [
    |line, _| vec![0; line.len()],
    |line, _| [b"\xff\xfe\xfd", &line[3..]].concat(),
    |line, _| [&line[..line.len() / 2], b"\n"].concat(),
    |line, _| [&line[line.len() / 2..]].concat(),
    |line, _| [&line[..line.len() / 2], &vec![b'x'; 1 << 20], &line[line.len() / 2..]].concat(),
    |_, _| b"{\"record\":\"applied\"}\n".to_vec(),
    |_, _| b"{}\n".to_vec(),
    |line, random| noise(line.len(), random),
    |line, random| [noise(line.len() * 9, random), b"\n".to_vec()].concat(),
    |line, random| {
        // Its end is left alone: where that is damaged, the record is found all the same.
        let mut line = line.to_vec();
        let at = random.below(line.len() as u64 - 1) as usize;
        line[at] ^= 1 << random.below(8);
        line
    },
];

/// Ways from which everything is still known.
const HARMLESS: [Way; 5] = [
    |line, _| [line, line].concat(),
    |line, _| line[..line.len() - 1].to_vec(),
    |line, _| [&line[..line.len() - 1], b"\x0b"].concat(),
    |line, _| [line, b"\n\n"].concat(),
    |line, _| [b"\0\0\0", line].concat(),
];

fn noise(len: usize, random: &mut Prng) -> Vec<u8> {
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// A host on which a plan is in force, and the lines of its journal.
fn applied(scratch: &Scratch, is_confirmed: bool) -> (Journals, Vec<Vec<u8>>) {
    let mut host = Shelf::default();
    host.values.extend(NAMES.map(|name| (setting(name), VALUES.0.to_owned())));
    let journals = Journals::new(scratch.path());
    let mut journal = journals.begin(&place(), 0, Some(500)).unwrap();
    apply(&mut host, &NAMES.map(|name| change(name, VALUES.0, VALUES.1)), &mut journal).unwrap();
    if is_confirmed {
        journal.confirm().unwrap();
    }
    let text = std::fs::read(journal.path()).unwrap();
    (journals, text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())
}

/// Undoes what can be read; returns the names of the settings that keep the plan's value, and whether a doubt is told.
fn undone(journals: &Journals, path: &std::path::Path, text: &[u8]) -> (Vec<&'static str>, bool) {
    std::fs::write(path, text).unwrap();
    let mut host = Shelf::default();
    host.values.extend(NAMES.map(|name| (setting(name), VALUES.1.to_owned())));
    let mut all = journals.all().unwrap();
    all.retain(|journal| check_place(journal, &place()).is_ok());
    all.reverse();
    undo_all(&mut host, &mut all, "asked", LaterValues::Keep, |_, undone| assert!(undone.is_whole()));
    let left = NAMES.into_iter().filter(|name| host.values[&setting(name)] != VALUES.0).collect();
    // Also in what another process reads afterwards.
    (left, !journals.read().unwrap().doubts(&place()).is_empty())
}

/// The setting whose old value is in a line.
fn named(line: &[u8]) -> Option<&'static str> {
    let line = String::from_utf8_lossy(line);
    NAMES.into_iter().find(|name| line.contains(&setting(name).to_string()))
}

#[test]
fn whatever_line_is_damaged_the_others_are_undone_and_the_damage_is_told() {
    let scratch = Scratch::new("rollback-damage");
    let mut random = Prng::new(7);
    for is_confirmed in [false, true] {
        let (journals, lines) = applied(&scratch, is_confirmed);
        let path = journals.all().unwrap().pop().unwrap().path().to_owned();
        let with = |index: usize, damaged: Vec<u8>| {
            let each = lines.iter().enumerate();
            each.flat_map(|(at, line)| if at == index { damaged.clone() } else { line.clone() })
                .collect::<Vec<u8>>()
        };
        for (index, line) in lines.iter().enumerate() {
            for (number, way) in DESTRUCTIVE.iter().enumerate() {
                let (left, is_told) = undone(&journals, &path, &with(index, way(line, &mut random)));
                let what = format!("line {} in way {number}: {}", index + 1, String::from_utf8_lossy(line));
                assert_eq!(left, named(line).into_iter().collect::<Vec<_>>(), "{what}");
                assert!(is_told, "{what}");
            }
            for way in HARMLESS {
                let (left, _) = undone(&journals, &path, &with(index, way(line, &mut random)));
                assert_eq!(left, [""; 0], "line {}: {}", index + 1, String::from_utf8_lossy(line));
            }
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn of_two_plans_the_damaged_one_keeps_nothing_of_the_other_from_being_undone() {
    let scratch = Scratch::new("rollback-damage-two");
    let (journals, lines) = applied(&scratch, true);
    applied(&scratch, true);
    let mut all = journals.all().unwrap();
    let path = all.remove(0).path().to_owned();
    for index in 0..lines.len() {
        let mut damaged = lines.clone();
        damaged[index] = b"\0\n".to_vec();
        // The second plan, which has set the same, is undone anew each time.
        let other = all[0].path();
        std::fs::write(other, lines.concat()).unwrap();
        assert_eq!(undone(&journals, &path, &damaged.concat()), (Vec::new(), true), "line {}", index + 1);
    }
}

/// Noise over any part of the file, of any length: what is undone is as before, and whatever is not is told.
#[test]
fn noise_anywhere_is_told_unless_everything_is_undone() {
    let scratch = Scratch::new("rollback-noise");
    let (journals, lines) = applied(&scratch, true);
    let path = journals.all().unwrap().pop().unwrap().path().to_owned();
    let (text, mut random) = (lines.concat(), Prng::new(8));
    let (mut all_undone, mut none_undone) = (0, 0);
    for _ in 0..200 {
        let from = random.below(text.len() as u64) as usize;
        let len = random.below((text.len() - from) as u64) as usize + 1;
        let mut damaged = text.clone();
        damaged[from..from + len].copy_from_slice(&noise(len, &mut random));
        if damaged == text {
            continue;
        }
        let (left, is_told) = undone(&journals, &path, &damaged);
        assert!(is_told, "noise of {len} bytes at {from}");
        all_undone += usize::from(left.is_empty());
        none_undone += usize::from(left.len() == NAMES.len());
    }
    assert!(all_undone > 0 && none_undone > 0, "the noise is of all sizes: {all_undone} {none_undone}");
}

/// What is expected of the plan names the settings that the journal has lost.
#[test]
fn wherever_the_file_is_cut_off_whatever_is_not_undone_is_told() {
    let scratch = Scratch::new("rollback-cut");
    let (journals, lines) = applied(&scratch, false);
    let path = journals.all().unwrap().pop().unwrap().path().to_owned();
    let text = lines.concat();
    let changes = NAMES.map(|name| change(name, VALUES.0, VALUES.1)).to_vec();
    for len in (0..text.len()).rev().step_by(7) {
        ExpectedEffect { changes: changes.clone(), before: None }.keep(&path).unwrap();
        let (left, is_told) = undone(&journals, &path, &text[..len]);
        assert_eq!(left.is_empty(), !is_told, "cut to {len} of {}: {left:?}", text.len());
    }
}

/// What a killed process has not reached is no loss.
#[test]
fn a_plan_that_was_killed_on_the_way_leaves_no_doubt() {
    let scratch = Scratch::new("rollback-killed-early");
    let (journals, lines) = applied(&scratch, false);
    let path = journals.all().unwrap().pop().unwrap().path().to_owned();
    let changes = NAMES.map(|name| change(name, VALUES.0, VALUES.1)).to_vec();
    ExpectedEffect { changes, before: None }.keep(&path).unwrap();
    // The second of four steps may or may not be done.
    let announced = lines.iter().position(|line| named(line) == Some(NAMES[1])).unwrap();
    std::fs::write(&path, lines[..=announced].concat()).unwrap();
    let mut host = Shelf::default();
    host.values.extend(NAMES.map(|name| (setting(name), VALUES.0.to_owned())));
    host.values.insert(setting(NAMES[0]), VALUES.1.to_owned());
    let mut journal = journals.all().unwrap().remove(0);
    assert!(undo(&mut host, &mut journal, "asked").is_whole());
    assert!(host.values.values().all(|value| value == VALUES.0));
    assert_eq!(journals.read().unwrap().doubts(&place()), []);
}
