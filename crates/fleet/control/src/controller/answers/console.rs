//! Addresses of the console: each has a token for one browser.

use admin::api::ApiReply;
use serde_json::json;

use super::replies::{document, refusal};

/// Makes an address with a token; otherwise says why there is none.
pub type ConsoleLinks = Box<dyn Fn() -> Result<String, NoConsoleLink> + Send>;

/// Why there is no address with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoConsoleLink {
    /// It is for browsers of its host alone, at this address.
    IsOpen(String),
    /// The kernel has no random bytes; its reason.
    NoSecret(String),
}

/// An address for one browser. A controller that has none is not the one to ask: status 421.
pub(crate) fn console_link(links: Option<&ConsoleLinks>) -> ApiReply {
    match links.map(|links| links()) {
        Some(Ok(url)) => {
            let text = format!("{url}\nOne browser can open it, once, within 15 minutes.\n");
            document(text, json!({"url": url}))
        }
        None => {
            let hint = "`control serve --console HOST:PORT` begins one with it";
            refusal(421, &format!("this controller has no console\n  hint: {hint}"))
        }
        Some(Err(NoConsoleLink::IsOpen(url))) => {
            let error = "this controller's console is for browsers of its host alone, and takes no token";
            let hint = format!("on that host, open {url}; a console at an address of a network takes tokens");
            refusal(421, &format!("{error}\n  hint: {hint}"))
        }
        Some(Err(NoConsoleLink::NoSecret(why))) => {
            refusal(503, &format!("no random bytes for a token: {why}\n  hint: ask again"))
        }
    }
}
