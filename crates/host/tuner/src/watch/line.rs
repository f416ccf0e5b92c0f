//! Output line for each piece of news: for people, or as JSON for programs.

use serde::Serialize;
use stdx::calendar::utc;

use super::{Act, Cause, Found, News, REVERSIONS_MAX, REVERSIONS_MS, Sure};

/// News with the result of the repair.
#[derive(Clone, Debug)]
pub struct NewsLine<'a> {
    /// When, in seconds since 1970.
    pub unix_s: u64,
    /// The news.
    pub news: &'a News,
    /// Why a repair failed, if it did.
    pub failure: Option<&'a str>,
}

/// The line as programs read it.
#[derive(Serialize)]
struct Json<'a> {
    unix_s: u64,
    time: String,
    setting: String,
    wanted: &'a str,
    found: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comes_to: Option<&'a str>,
    done: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sure: Option<Sure>,
    evidence: &'a [String],
    suspects: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// The number of watched settings, as a line of its own.
pub fn watching(unix_s: u64, settings: usize, json: bool) -> String {
    let time = utc(unix_s);
    match json {
        true => format!("{}\n", serde_json::json!({ "unix_s": unix_s, "time": time, "watching": settings })),
        false => format!("{time} watching: {settings} settings\n"),
    }
}

impl NewsLine<'_> {
    /// The action, in one word.
    pub fn done(&self) -> &'static str {
        match (&self.news.act, self.failure) {
            (Act::Repair, None) => "repaired",
            (Act::Repair, Some(_)) => "failed",
            (Act::Report, _) => "reported",
            (Act::Wait(_), _) => "waiting",
            (Act::Gone, _) => "gone",
            (Act::BackOff, _) => "backed-off",
            (Act::StepAside, _) => "stepped-aside",
            (Act::HoldsAgain, _) => "holds-again",
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let News { desired, found, because, .. } = self.news;
        let (time, done, setting, wanted) =
            (utc(self.unix_s), self.done(), &desired.setting, desired.wanted.trim());
        let mut line = match found {
            Found::Text(text) if done == "holds-again" => {
                format!("{time} {done}: {setting} = {}", text.trim())
            }
            Found::Text(text) => {
                format!("{time} {done}: {setting} was to be {wanted} and read {}", text.trim())
            }
            Found::Elsewhere(cpus) => {
                format!(
                    "{time} {done}: {setting} is {wanted}, and the interrupt goes on coming to CPUs {cpus}"
                )
            }
            Found::Gone => format!("{time} {done}: {setting} was to be {wanted}"),
            Found::Unreadable(why) => {
                format!("{time} {done}: {setting} was to be {wanted} and cannot be read: {why}")
            }
        };
        if let Some(because) = because {
            line += &format!("; {}", because.cause.words());
            if because.sure != Sure::Certain {
                line += &format!(" ({})", because.sure.words());
            }
            if !because.evidence.is_empty() {
                line += &format!(": {}", because.evidence.join(", "));
            }
            if !because.suspects.is_empty() && because.sure != Sure::Certain {
                line += &format!("; sets such things: {}", because.suspects.join(", "));
            }
        }
        if let Some(detail) = self.detail() {
            line += &format!("; {detail}");
        }
        line
    }

    /// For programs.
    pub fn json(&self) -> String {
        let News { desired, found, because, .. } = self.news;
        let json = Json {
            unix_s: self.unix_s,
            time: utc(self.unix_s),
            setting: desired.setting.to_string(),
            wanted: desired.wanted.trim(),
            found: match found {
                Found::Text(text) => Some(text.trim()),
                Found::Elsewhere(_) => Some(desired.wanted.trim()),
                Found::Gone | Found::Unreadable(_) => None,
            },
            comes_to: match found {
                Found::Elsewhere(cpus) => Some(cpus),
                _ => None,
            },
            done: self.done(),
            cause: because.as_ref().map(|because| because.cause),
            sure: because.as_ref().map(|because| because.sure),
            evidence: because.as_ref().map_or(&[], |because| &because.evidence),
            suspects: because.as_ref().map_or(&[], |because| &because.suspects),
            detail: self.detail(),
        };
        serde_json::to_string(&json).expect("lines are plain data")
    }

    /// Advice for the reader.
    fn detail(&self) -> Option<String> {
        const HAND_OVER: &str = "`evenkeel tune rollback` gives it up for good";
        let cause = self.news.because.as_ref().map(|because| because.cause);
        match (&self.news.act, self.failure) {
            (Act::Repair, Some(why)) => Some(format!("failed to {why}")),
            (Act::Repair, None) if matches!(cause, Some(Cause::Agent | Cause::Reset)) => {
                Some(format!("if that was on purpose, {HAND_OVER}"))
            }
            (Act::Report, _) if self.news.desired.journal.is_none() => Some(
                "`evenkeel tune persist` keeps it, and `evenkeel tune apply` would set it again".to_owned(),
            ),
            (Act::Wait(why), _) => Some(why.clone()),
            (Act::BackOff, _) => Some(format!(
                "it was repaired {REVERSIONS_MAX} times within {} min and is left alone from now on; {HAND_OVER}",
                REVERSIONS_MS / 60_000
            )),
            (Act::StepAside, _) => Some(format!(
                "it is left as it was chosen, until it has the planned value again; {HAND_OVER}"
            )),
            _ => None,
        }
    }
}

impl Cause {
    fn words(self) -> &'static str {
        match self {
            Cause::Gone => "it is not there any more",
            Cause::Renumbered => "it has another number",
            Cause::Recreated => "the interface was made anew",
            Cause::DriverReset => "the driver has reset the device",
            Cause::QueuesChanged => "the number of queues has changed",
            Cause::Hotplug => "CPUs came or went",
            Cause::Link => "the interface was down or was configured",
            Cause::Agent => "another program sets it",
            Cause::Reset => "its earlier value was restored",
            Cause::Somebody => "a user or a program has chosen this value",
        }
    }
}

impl Sure {
    fn words(self) -> &'static str {
        match self {
            Sure::Certain => "certain",
            Sure::Likely => "likely",
            Sure::Guess => "a guess",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::change::Setting;
    use crate::watch::{Because, DesiredState};

    fn news(act: Act) -> News {
        News {
            desired: DesiredState {
                setting: Setting::mask("/sys/class/net/eth0/queues/rx-0/rps_cpus"),
                wanted: "3".into(),
                before: vec!["0\n".into()],
                identity: None,
                journal: Some("000001.jsonl".into()),
                step: 0,
            },
            found: Found::Text("0\n".into()),
            because: Some(Because {
                cause: Cause::Recreated,
                sure: Sure::Certain,
                evidence: vec!["eth0 was interface 4 and is 9 now".into()],
                suspects: vec![],
            }),
            act,
        }
    }

    #[test]
    fn a_line_says_what_was_found_why_and_what_was_done() {
        let news = news(Act::Repair);
        let line = NewsLine { unix_s: 0, news: &news, failure: None };
        assert_eq!(
            line.text(),
            "1970-01-01T00:00:00Z repaired: /sys/class/net/eth0/queues/rx-0/rps_cpus was to be 3 and read 0; \
             the interface was made anew: eth0 was interface 4 and is 9 now"
        );
        let failed = NewsLine { failure: Some("write it: it is busy"), ..line };
        assert!(failed.text().ends_with("; failed to write it: it is busy"), "{}", failed.text());
    }

    #[test]
    fn json_has_the_same() {
        let news = news(Act::StepAside);
        let json: serde_json::Value =
            serde_json::from_str(&NewsLine { unix_s: 7, news: &news, failure: None }.json()).unwrap();
        let word = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            ["done", "cause", "sure", "found"].map(word),
            ["stepped-aside", "recreated", "certain", "0"]
        );
        assert!(word("detail").contains("`evenkeel tune rollback`"));
        assert_eq!(json["unix_s"], 7);
    }
}
