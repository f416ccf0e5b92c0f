//! Files of the console. They are in the binary, so that no page is of another version than the program.

use crate::kept::tag;

/// A file.
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

static FILES: [ConsoleFile; 16] = files! {
    "/": HTML, "index.html";
    "/console.css": CSS, "console.css";
    "/console.js": SCRIPT, "console.js";
    "/dom.js": SCRIPT, "dom.js";
    "/words.js": SCRIPT, "words.js";
    "/charts.js": SCRIPT, "charts.js";
    "/table.js": SCRIPT, "table.js";
    "/pages/fleet.js": SCRIPT, "pages/fleet.js";
    "/pages/cluster.js": SCRIPT, "pages/cluster.js";
    "/pages/server.js": SCRIPT, "pages/server.js";
    "/pages/servers.js": SCRIPT, "pages/servers.js";
    "/pages/routers.js": SCRIPT, "pages/routers.js";
    "/pages/key.js": SCRIPT, "pages/key.js";
    "/pages/host.js": SCRIPT, "pages/host.js";
    "/pages/history.js": SCRIPT, "pages/history.js";
    "/pages/lab.js": SCRIPT, "pages/lab.js";
};

impl ConsoleFile {
    /// The file at a path.
    pub(crate) fn at(path: &str) -> Option<&'static ConsoleFile> {
        FILES.iter().find(|file| file.path == path)
    }

    /// Its tag, as in `etag`.
    pub(crate) fn tag(&self) -> String {
        tag(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a script imports, and what the page names, is there under the path that a browser makes of it.
    #[test]
    fn every_file_that_another_one_names_is_served() {
        let mut named = 0;
        for file in &FILES {
            let text = std::str::from_utf8(file.bytes).expect("files are text");
            for mark in ["from \"", "src=\"", "stylesheet\" href=\""] {
                for rest in text.split(mark).skip(1) {
                    let name = rest.split('"').next().expect("a name ends");
                    let folder = &file.path[..=file.path.rfind('/').expect("a path has a folder")];
                    let path = match name.strip_prefix("../") {
                        Some(name) => format!("/{name}"),
                        None => format!("{folder}{}", name.trim_start_matches("./").trim_start_matches('/')),
                    };
                    assert!(ConsoleFile::at(&path).is_some(), "{} names {name}: {path}", file.path);
                    named += 1;
                }
            }
        }
        assert!(named >= FILES.len() - 1, "{named}");
    }
}
