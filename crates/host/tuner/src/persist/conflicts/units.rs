//! Other drop-ins of the services that get one of ours.

use super::conflict::{Conflict, Kept, Winner};
use crate::observe::root::{Error, Root};
use crate::persist::ordered::acting;
use crate::persist::surroundings::UNITS;
use crate::text::HEADER;

/// Our drop-in's place in the order.
const OURS: &str = "50-evenkeel.conf";

pub(super) fn conflicts(root: &Root, kept: &Kept) -> Result<Vec<Conflict>, Error> {
    let mut found = Vec::new();
    for file in &kept.persistence.files {
        let Some((_, unit)) =
            file.path.strip_suffix(&format!(".d/{OURS}")).and_then(|path| path.rsplit_once('/'))
        else {
            continue;
        };
        let ours: Vec<&str> =
            acting(&file.text).filter_map(|(_, line)| Some(line.split_once('=')?.0)).collect();
        for directory in UNITS {
            for name in
                root.names(&format!("{directory}/{unit}.d"))?.iter().filter(|name| name.ends_with(".conf"))
            {
                let path = format!("{directory}/{unit}.d/{name}");
                let text = root.read(&path)?.unwrap_or_default();
                if text.starts_with(HEADER) {
                    continue;
                }
                let same = |line: &(usize, &str)| {
                    line.1
                        .split_once('=')
                        .is_some_and(|(key, _)| key != "Wants" && ours.contains(&key.trim()))
                };
                for (line, words) in acting(&text).filter(same).filter(|(_, words)| *words != "ExecStart=") {
                    let later = name.as_str() > OURS;
                    found.push(Conflict {
                        place: format!("{path}:{line}"),
                        sets: words.to_owned(),
                        winner: if later { Winner::Theirs } else { Winner::Ours },
                        advice: match later {
                            true => format!("it is read after {OURS}: take the line out, or keep its value"),
                            false => {
                                format!("{OURS} is read after it; take the line out to avoid confusion")
                            }
                        },
                    });
                }
            }
        }
    }
    Ok(found)
}
