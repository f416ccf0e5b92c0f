//! Exit statuses of `evenkeel control`.

/// The register or the fleet changed meanwhile, or too much is going on (EX_TEMPFAIL): plan again.
pub(super) const STATUS_OVERTAKEN: u8 = 75;
/// No controller answers (EX_UNAVAILABLE).
pub(super) const STATUS_UNAVAILABLE: u8 = 69;
/// The controller says no.
pub(super) const STATUS_REFUSED: u8 = 1;

/// Exit statuses, for the man page.
pub(crate) const STATUSES: [(&str, &str); 6] = [
    ("0", "It is done, or shown."),
    ("1", "The controller refuses, and says why; a gate is missed."),
    ("64", "The command line is wrong."),
    ("69", "No controller answers."),
    ("71", "A file cannot be read."),
    (
        "75",
        "Something else was decided meanwhile, so that the plan is not the one that was shown: plan again. Or it cannot be said yet whether a gate is fulfilled.",
    ),
];
