//! Files of the console. They are in the binary, so that no page is of another version than the program.

use crate::kept::tag;

/// A file. Its path is that on the site.
pub(crate) struct ConsoleFile {
    path: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($path:literal: $content_type:expr, $name:literal;)*) => {
        [$(ConsoleFile {
            path: $path,
            content_type: $content_type,
            bytes: include_bytes!(concat!("../files/", $name)),
        },)*]
    };
}

/// Of both sites.
static SHARED: [ConsoleFile; 7] = files! {
    "/console.css": CSS, "console.css";
    "/live.js": SCRIPT, "live.js";
    "/dom.js": SCRIPT, "dom.js";
    "/words.js": SCRIPT, "words.js";
    "/charts.js": SCRIPT, "charts.js";
    "/table.js": SCRIPT, "table.js";
    "/levels.js": SCRIPT, "levels.js";
};

/// Of a controller's console.
static FLEET: [ConsoleFile; 12] = files! {
    "/": HTML, "index.html";
    "/console.js": SCRIPT, "console.js";
    "/pages/fleet.js": SCRIPT, "pages/fleet.js";
    "/pages/cluster.js": SCRIPT, "pages/cluster.js";
    "/pages/server.js": SCRIPT, "pages/server.js";
    "/pages/servers.js": SCRIPT, "pages/servers.js";
    "/pages/routers.js": SCRIPT, "pages/routers.js";
    "/pages/key.js": SCRIPT, "pages/key.js";
    "/pages/host.js": SCRIPT, "pages/host.js";
    "/pages/history.js": SCRIPT, "pages/history.js";
    "/pages/change.js": SCRIPT, "pages/change.js";
    "/pages/lab.js": SCRIPT, "pages/lab.js";
};

/// Of the page of one process.
static PROCESS: [ConsoleFile; 7] = files! {
    "/": HTML, "process/index.html";
    "/process/page.js": SCRIPT, "process/page.js";
    "/process/seen.js": SCRIPT, "process/seen.js";
    "/process/heat.js": SCRIPT, "process/heat.js";
    "/process/parts.js": SCRIPT, "process/parts.js";
    "/process/server.js": SCRIPT, "process/server.js";
    "/process/router.js": SCRIPT, "process/router.js";
};

/// The sites that files are of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FilesOf {
    Fleet,
    Process,
}

impl FilesOf {
    /// The file at a path.
    pub(crate) fn at(self, path: &str) -> Option<&'static ConsoleFile> {
        self.all().find(|file| file.path == path)
    }

    fn all(self) -> impl Iterator<Item = &'static ConsoleFile> {
        let own: &[ConsoleFile] = match self {
            FilesOf::Fleet => &FLEET,
            FilesOf::Process => &PROCESS,
        };
        own.iter().chain(&SHARED)
    }
}

impl ConsoleFile {
    /// Its tag, as in `etag`.
    pub(crate) fn tag(&self) -> String {
        tag(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// What a script imports, and what the page names, is there under the path that a browser makes of it.
    #[test]
    fn every_file_that_another_one_names_is_served() {
        for files in [FilesOf::Fleet, FilesOf::Process] {
            let mut named = HashSet::from(["/".to_owned()]);
            for file in files.all() {
                named.extend(named_in(file));
            }
            for path in &named {
                assert!(files.at(path).is_some(), "{files:?}: {path}");
            }
            for file in files.all() {
                assert!(named.contains(file.path), "{files:?}: nothing names {}", file.path);
            }
        }
    }

    /// Paths of the files that a file names.
    fn named_in(file: &ConsoleFile) -> Vec<String> {
        let text = std::str::from_utf8(file.bytes).expect("files are text");
        let folder = &file.path[..=file.path.rfind('/').expect("a path has a folder")];
        let names = ["from \"", "src=\"", "stylesheet\" href=\""]
            .into_iter()
            .flat_map(|mark| text.split(mark).skip(1));
        let names = names.map(|rest| rest.split('"').next().expect("a name ends"));
        let path = |name: &str| match name.strip_prefix("../") {
            Some(name) => format!("/{name}"),
            None => format!("{folder}{}", name.trim_start_matches("./").trim_start_matches('/')),
        };
        names.map(path).collect()
    }
}
