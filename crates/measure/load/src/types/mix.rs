//! Mix of commands: the commands of a load and their shares.

use std::fmt;
use std::str::FromStr;
use stdx::prng::Prng;

/// A command of memcached's, by its name in the text protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Command {
    Get,
    Gets,
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Delete,
    Incr,
    Decr,
    Touch,
}

impl Command {
    /// In the order of their numbers.
    pub(crate) const ALL: [Command; 11] = [
        Command::Get,
        Command::Gets,
        Command::Set,
        Command::Add,
        Command::Replace,
        Command::Append,
        Command::Prepend,
        Command::Delete,
        Command::Incr,
        Command::Decr,
        Command::Touch,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Command::Get => "get",
            Command::Gets => "gets",
            Command::Set => "set",
            Command::Add => "add",
            Command::Replace => "replace",
            Command::Append => "append",
            Command::Prepend => "prepend",
            Command::Delete => "delete",
            Command::Incr => "incr",
            Command::Decr => "decr",
            Command::Touch => "touch",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Command> {
        Command::ALL.into_iter().find(|command| command.name() == name)
    }

    /// Asks for values.
    pub(crate) fn is_get(self) -> bool {
        matches!(self, Command::Get | Command::Gets)
    }

    /// Sends a value.
    #[inline]
    pub(crate) fn is_store(self) -> bool {
        matches!(self, Command::Set | Command::Add | Command::Replace | Command::Append | Command::Prepend)
    }

    /// Operates on a number.
    pub(crate) fn counts(self) -> bool {
        matches!(self, Command::Incr | Command::Decr)
    }
}

/// The commands of a load and the share of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    entries: Vec<Entry>,
    /// As it was read: printed shares that are read again need not be identical.
    given: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    command: Command,
    share: f64,
    /// The last random number that falls to this command or one before it.
    last: u64,
}

impl Mix {
    /// The weights need not add up to 1; one of them at least is above 0.
    fn new(weights: &[(Command, f64)], given: &str) -> Mix {
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let entries = weights.iter().filter(|(_, weight)| *weight > 0.0).map(|(command, weight)| {
            sum += weight / total;
            // The cast saturates.
            Entry { command: *command, share: weight / total, last: (sum * DRAWS) as u64 }
        });
        let mut entries: Vec<Entry> = entries.collect();
        if let Some(entry) = entries.last_mut() {
            // To correct rounding of the sum.
            entry.last = u64::MAX;
        }
        Mix { entries, given: given.to_owned() }
    }

    /// For people: shares, whatever the weights were, to a hundredth of a percent.
    pub(crate) fn shares(&self) -> String {
        let share = |Entry { command, share, .. }: &Entry| {
            format!("{}={}", command.name(), (share * 1e4).round() / 1e4)
        };
        self.entries.iter().map(share).collect::<Vec<_>>().join(",")
    }

    /// The next command.
    #[inline]
    pub(crate) fn choose(&self, prng: &mut Prng) -> Command {
        match &self.entries[..] {
            [only] => only.command,
            entries => {
                let draw = prng.next_u64();
                let entry = entries.iter().find(|entry| draw <= entry.last);
                entry.expect("the last entry takes what is left").command
            }
        }
    }

    /// The share of the commands for which this holds.
    pub(crate) fn share(&self, is_such: impl Fn(Command) -> bool) -> f64 {
        let such = self.entries.iter().filter(|entry| is_such(entry.command));
        // A sum of nothing would be -0.
        such.map(|entry| entry.share).fold(0.0, |sum, share| sum + share)
    }

    /// Whether it holds for any command.
    pub(crate) fn has(&self, is_such: impl Fn(Command) -> bool) -> bool {
        self.entries.iter().any(|entry| is_such(entry.command))
    }
}

const DRAWS: f64 = 18_446_744_073_709_551_616.0;

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let mut weights: Vec<(Command, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, weight) =
                part.split_once('=').ok_or_else(|| format!("{part:?} is not of the form get=0.9"))?;
            let command = Command::of_name(name).ok_or_else(|| {
                let names: Vec<_> = Command::ALL.iter().map(|command| command.name()).collect();
                format!("{name:?} is none of {}", names.join(", "))
            })?;
            let weight = weight.parse().ok().filter(|weight: &f64| *weight >= 0.0 && weight.is_finite());
            let weight = weight.ok_or_else(|| format!("the share in {part:?} is no number from 0 on"))?;
            if weights.iter().any(|(other, _)| *other == command) {
                return Err(format!("{name} is given twice"));
            }
            weights.push((command, weight));
        }
        if weights.iter().all(|(_, weight)| *weight == 0.0) {
            return Err(String::from("every share is 0"));
        }
        Ok(Mix::new(&weights, text))
    }
}

/// As it was read.
impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_and_shown() {
        let check = |text: &str, shown: &str| {
            let mix: Mix = text.parse().expect(text);
            assert_eq!((mix.shares().as_str(), mix.to_string().as_str()), (shown, text));
        };
        check("get=0.9,set=0.1", "get=0.9,set=0.1");
        check("get=3,delete=1", "get=0.75,delete=0.25");
        check("touch=1,set=0", "touch=1");
        for bad in ["", "get", "get=x", "get=-1", "get=inf", "get=0", "got=1", "get=1,get=1", "get=1,"] {
            assert!(bad.parse::<Mix>().is_err(), "{bad:?}");
        }
        for command in Command::ALL {
            assert_eq!(Command::ALL[command as usize], command);
        }
    }

    #[test]
    fn commands_come_as_often_as_their_shares_say() {
        let mix: Mix = "get=7,gets=1,incr=2".parse().expect("a mix");
        let mut prng = Prng::new(1);
        let mut seen = [0_i32; Command::ALL.len()];
        for _ in 0..100_000 {
            seen[mix.choose(&mut prng) as usize] += 1;
        }
        for (command, expected) in [(Command::Get, 70_000), (Command::Gets, 10_000), (Command::Incr, 20_000)]
        {
            let found = std::mem::take(&mut seen[command as usize]);
            assert!((found - expected).abs() < 700, "{}: {found} of {expected}", command.name());
        }
        assert_eq!(seen, [0; Command::ALL.len()]);
    }
}
