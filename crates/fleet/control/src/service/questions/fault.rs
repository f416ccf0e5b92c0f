//! Questions that are refused, and what every question is checked for.

use admin::api::ApiRequest;
use serde::de::DeserializeOwned;

use crate::service::turn::TEXT_MAX;

/// Why a question is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionFault {
    /// HTTP's status.
    pub status: u16,
    /// A sentence for who asked.
    pub error: String,
}

/// A reason is for the people who come later.
pub(super) fn reason(text: String) -> Result<String, QuestionFault> {
    match text.trim() {
        "" => Err(bad("expected a reason, for those who read the history")),
        text if text.len() > TEXT_MAX => {
            Err(bad(format!("expected a reason of {TEXT_MAX} bytes at most, found {}", text.len())))
        }
        text => Ok(text.to_owned()),
    }
}

/// What a body says.
pub(super) fn body<T: DeserializeOwned>(request: &ApiRequest) -> Result<T, QuestionFault> {
    serde_json::from_slice(&request.body).map_err(|error| {
        let path = &request.path;
        bad(format!("understand the body of {path}: {error}"))
    })
}

pub(super) fn bad(error: impl Into<String>) -> QuestionFault {
    QuestionFault { status: 400, error: error.into() }
}
