//! Findings of rules: the evidence, the cause, and whether this host has a remedy.

use serde::{Deserialize, Serialize};

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know; leaving it costs nothing.
    Note,
    /// Costs something, or will when load grows.
    Warning,
    /// Limits the service now.
    Critical,
}

/// A number that was measured or read, with its window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The source, in the words of the kernel: `softnet_stat time_squeeze, CPU 0`.
    pub what: String,
    /// The value, with its unit: `87 %`, `1,204 /s`, `0`.
    pub value: String,
    /// The threshold, if there is one, in the same unit.
    pub threshold: Option<String>,
    /// Seconds over which it was measured; `None`: a setting, as it is.
    pub window_s: Option<f64>,
}

/// Whether there is a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyStatus {
    /// A setting of this host would help.
    Fixable,
    /// No setting of this host will: the reason, and the remedy elsewhere.
    NotHere {
        /// For example: "the instance's packet allowance is used up: spread the load or resize".
        reason: String,
    },
}

/// One thing that limits the service, or will.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule that found it, for `tune explain`: `softirq-one-core`.
    pub rule: String,
    /// How much it matters.
    pub severity: Severity,
    /// Its subject: `eth0`, `CPU 0`, `memcached (PID 812)`, `127.0.0.1:11211`.
    pub subject: String,
    /// The cause in one sentence.
    pub cause: String,
    /// Expected effect of the remedy, in one sentence.
    pub effect: String,
    /// Whether there is a remedy.
    pub verdict: RemedyStatus,
    /// The numbers.
    pub evidence: Vec<Evidence>,
    /// Findings of the same rule with the same cause for other subjects: three more servers that wait as this one
    /// does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<Finding>,
    /// Its consequences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Finding>,
}

impl Finding {
    /// A finding that has a remedy here; its rule's name is added by the registry.
    pub(crate) fn about(severity: Severity, subject: impl Into<String>) -> Finding {
        Finding {
            rule: String::new(),
            severity,
            subject: subject.into(),
            cause: String::new(),
            effect: String::new(),
            verdict: RemedyStatus::Fixable,
            evidence: Vec::new(),
            alike: Vec::new(),
            consequences: Vec::new(),
        }
    }

    /// This one, those like it, and all their consequences, each by itself; with the rule of its cause.
    pub(crate) fn unfolded(&self) -> Vec<(Finding, Option<&str>)> {
        let itself = Finding { alike: Vec::new(), consequences: Vec::new(), ..self.clone() };
        let alike = self.alike.iter().flat_map(Finding::unfolded);
        let consequences = self.consequences.iter().flat_map(Finding::unfolded);
        let follows = consequences.map(|(finding, cause)| (finding, cause.or(Some(self.rule.as_str()))));
        std::iter::once((itself, None)).chain(alike).chain(follows).collect()
    }

    /// The reason, in one sentence.
    #[must_use]
    pub(crate) fn cause(self, cause: impl Into<String>) -> Finding {
        Finding { cause: cause.into(), ..self }
    }

    /// Expected effect of the remedy, in one sentence.
    #[must_use]
    pub(crate) fn effect(self, effect: impl Into<String>) -> Finding {
        Finding { effect: effect.into(), ..self }
    }

    /// No setting of this host will help: the reason, and the remedy elsewhere.
    #[must_use]
    pub(crate) fn not_here(self, reason: impl Into<String>) -> Finding {
        Finding { verdict: RemedyStatus::NotHere { reason: reason.into() }, ..self }
    }

    /// With a number that was measured or read.
    #[must_use]
    pub(crate) fn saw(mut self, evidence: Evidence) -> Finding {
        self.evidence.push(evidence);
        self
    }
}

impl Severity {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

impl Evidence {
    /// A setting as it was read.
    pub fn setting(what: impl Into<String>, value: impl Into<String>) -> Evidence {
        Evidence { what: what.into(), value: value.into(), threshold: None, window_s: None }
    }

    /// A figure measured over a window.
    pub fn measured(what: impl Into<String>, value: impl Into<String>, window_s: f64) -> Evidence {
        Evidence { what: what.into(), value: value.into(), threshold: None, window_s: Some(window_s) }
    }

    /// The threshold.
    #[must_use]
    pub fn threshold(self, threshold: impl Into<String>) -> Evidence {
        Evidence { threshold: Some(threshold.into()), ..self }
    }
}
