//! The page of one process: a server or a router that is looked at by itself.

use std::future::ready;
use std::sync::Arc;

use admin::site::{BrowserSite, SiteAnswer, SiteRequest};

use crate::files::FilesOf;
use crate::meant::MeantHost;
use crate::{PLAIN, file_reply, reply};

/// Files of the page. What it shows it reads from `/api/v1/`, beside which it is served: nothing is made for it while nobody looks.
pub struct ProcessSite {
    meant: MeantHost,
}

impl ProcessSite {
    /// For browsers that know this program by an address, as `localhost`, or by this name.
    pub fn new(name: Option<String>) -> ProcessSite {
        ProcessSite { meant: MeantHost::new(name) }
    }
}

impl BrowserSite for ProcessSite {
    fn answer(self: Arc<Self>, request: SiteRequest) -> SiteAnswer {
        let answer =
            self.meant.refusal(&request).unwrap_or_else(|| match FilesOf::Process.at(&request.path) {
                Some(file) => file_reply(file, &request),
                None => reply(404, PLAIN, "not found; / lists what there is\n".into()),
            });
        Box::pin(ready(answer))
    }
}
