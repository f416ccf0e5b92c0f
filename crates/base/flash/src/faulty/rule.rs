//! Rules by which calls of a disk fail.

use super::draws::Draws;
use std::ops::Range;

/// A way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A read fails with `EIO`.
    ReadError,
    /// A read is done, and so many bits of what it returns are wrong. What the device has stays as it is.
    FlippedRead {
        /// How many bits, all of them different.
        bits: u64,
    },
    /// A write fails with `EIO`, and nothing of it gets there.
    WriteError,
    /// A write is reported as done, and only some of its sectors of 512 bytes got there.
    TornWrite,
    /// A write fails with `EIO`, and some of its sectors of 512 bytes got there.
    FailedTornWrite,
    /// A write is reported as done, and nothing of it got there.
    LostWrite,
}

/// Calls that fail, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    fault: Fault,
    device: Option<usize>,
    range: Range<u64>,
    probability: f64,
    times: u64,
}

/// Names a rule of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleNumber(pub(super) usize);

impl FaultRule {
    /// Each call fails so that the fault is for, on each device.
    pub fn new(fault: Fault) -> FaultRule {
        FaultRule { fault, device: None, range: 0..u64::MAX, probability: 1.0, times: u64::MAX }
    }

    /// Only calls of this device.
    pub fn device(self, device: usize) -> FaultRule {
        FaultRule { device: Some(device), ..self }
    }

    /// Only calls that touch this range, in bytes. Sectors are lost and bits are wrong within it, and an error is that of the
    /// whole call.
    pub fn range(self, range: Range<u64>) -> FaultRule {
        FaultRule { range, ..self }
    }

    /// A call fails with this probability, instead of surely.
    pub fn probability(self, probability: f64) -> FaultRule {
        FaultRule { probability, ..self }
    }

    /// The rule ends after so many failures.
    pub fn times(self, times: u64) -> FaultRule {
        FaultRule { times, ..self }
    }
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Fault {
    fn access(self) -> Access {
        match self {
            Fault::ReadError | Fault::FlippedRead { .. } => Access::Read,
            Fault::WriteError | Fault::TornWrite | Fault::FailedTornWrite | Fault::LostWrite => Access::Write,
        }
    }
}

/// A rule, and how often it has made a call fail.
pub(super) struct SetRule {
    rule: FaultRule,
    strikes: u64,
}

impl SetRule {
    pub(super) fn new(rule: FaultRule) -> SetRule {
        SetRule { rule, strikes: 0 }
    }

    pub(super) fn end(&mut self) {
        self.rule.times = self.strikes.min(self.rule.times);
    }

    pub(super) fn strikes(&self) -> u64 {
        self.strikes
    }

    /// The part of a call's range that the rule is for.
    fn part(&self, access: Access, device: usize, range: &Range<u64>) -> Option<Range<u64>> {
        let FaultRule { fault, device: of, range: within, times, .. } = &self.rule;
        let is_meant = fault.access() == access && of.is_none_or(|of| of == device) && self.strikes < *times;
        let part = range.start.max(within.start)..range.end.min(within.end);
        (is_meant && !part.is_empty()).then_some(part)
    }
}

/// The faults of a call, in the order in which their rules were set, each with the part of the call's range that it is for.
pub(super) fn strike(
    rules: &mut [SetRule],
    draws: &mut Draws,
    access: Access,
    device: usize,
    range: &Range<u64>,
) -> Vec<(Fault, Range<u64>)> {
    let mut struck = Vec::new();
    for set in rules {
        if let Some(part) = set.part(access, device, range).filter(|_| draws.happens(set.rule.probability)) {
            set.strikes += 1;
            struck.push((set.rule.fault, part));
        }
    }
    struck
}
