//! States of hosts by their standard, as they are counted.

use super::{HostStandard, StandardWord};

/// What is heard of a host about its standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardSaid<'a> {
    /// No agent of it is heard.
    Silent,
    /// Its agent says nothing of standards.
    OlderAgent,
    /// It speaks of another standard: it has not heard of this one yet.
    Nothing,
    /// This.
    Word(&'a StandardWord),
}

/// How a host is by its standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StandardState {
    /// It meets it.
    Meets,
    /// It never met it, as far as is known.
    Lacks,
    /// It met it, and does so no more.
    Drifted,
    /// It is being tuned.
    Tuning,
    /// Something works against it.
    SteppedAside,
    /// It cannot have it, or cannot say.
    Refused,
    /// It has not looked yet.
    Unknown,
    /// Its agent is of an older version.
    OlderAgent,
    /// Its agent is not heard.
    Silent,
    /// Its members have classes with different standards.
    Mixed,
}

impl StandardState {
    /// All of them.
    pub const ALL: [StandardState; 10] = [
        StandardState::Meets,
        StandardState::Lacks,
        StandardState::Drifted,
        StandardState::Tuning,
        StandardState::SteppedAside,
        StandardState::Refused,
        StandardState::Unknown,
        StandardState::OlderAgent,
        StandardState::Silent,
        StandardState::Mixed,
    ];

    /// That of a host with this standard; none if it has no standard.
    pub fn of(standard: HostStandard<'_>, said: StandardSaid<'_>) -> Option<StandardState> {
        match standard {
            HostStandard::None => return None,
            HostStandard::Mixed => return Some(StandardState::Mixed),
            HostStandard::One(_) => {}
        }
        Some(match said {
            StandardSaid::Silent => StandardState::Silent,
            StandardSaid::OlderAgent => StandardState::OlderAgent,
            StandardSaid::Nothing | StandardSaid::Word(StandardWord::Unknown) => StandardState::Unknown,
            StandardSaid::Word(StandardWord::Meets) => StandardState::Meets,
            StandardSaid::Word(StandardWord::Lacks { .. }) => StandardState::Lacks,
            StandardSaid::Word(StandardWord::Drifted { .. }) => StandardState::Drifted,
            StandardSaid::Word(StandardWord::Tuning) => StandardState::Tuning,
            StandardSaid::Word(StandardWord::SteppedAside { .. }) => StandardState::SteppedAside,
            StandardSaid::Word(StandardWord::Refused { .. }) => StandardState::Refused,
        })
    }

    /// In a word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            StandardState::Meets => "meets",
            StandardState::Lacks => "lacks",
            StandardState::Drifted => "drifted",
            StandardState::Tuning => "tuning",
            StandardState::SteppedAside => "stepped_aside",
            StandardState::Refused => "refused",
            StandardState::Unknown => "unknown",
            StandardState::OlderAgent => "older_agent",
            StandardState::Silent => "silent",
            StandardState::Mixed => "mixed",
        }
    }

    /// Whether its members may take a slot. A host whose classes do not agree has no standard that it could meet.
    pub fn is_fit(self) -> bool {
        matches!(self, StandardState::Meets | StandardState::Mixed)
    }

    /// Whether it stays so until a person does something, of a host that is not tuned by itself.
    pub fn needs_person(self, is_granted: bool) -> bool {
        match self {
            StandardState::Lacks | StandardState::Drifted => !is_granted,
            StandardState::SteppedAside
            | StandardState::Refused
            | StandardState::OlderAgent
            | StandardState::Mixed => true,
            StandardState::Meets
            | StandardState::Tuning
            | StandardState::Unknown
            // Whoever knows since when it is silent knows more.
            | StandardState::Silent => false,
        }
    }
}
