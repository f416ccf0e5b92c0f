//! The site in a browser, opened from a folder: the search works, and nothing is asked of another host.

use super::made;
use crate::tools::have;
use ship::commands::said;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Opens a page, and returns what the browser shows of it when its scripts have run, with what it wrote of its requests.
fn opened(folder: &Path, address: &str) -> (String, String) {
    let profile = folder.with_file_name("browser");
    let _ = fs::remove_dir_all(&profile);
    let log = profile.with_file_name("requests.json");
    let mut browser = Command::new("chromium");
    // As root, a browser runs without its sandbox only. It asks its maker nothing by itself.
    browser.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]);
    browser.args([
        "--no-first-run",
        "--disable-component-update",
        "--virtual-time-budget=20000",
        "--dump-dom",
    ]);
    browser
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--log-net-log={}", log.display()));
    // A name that is asked for is in the log, and is not found.
    browser.arg("--host-resolver-rules=MAP * ~NOTFOUND");
    let text = said(browser.arg(format!("file://{}/{address}", folder.display()))).expect("a page");
    let requests = fs::read_to_string(&log).expect("a log of requests");
    let _ = fs::remove_dir_all(&profile);
    (text, requests)
}

/// Addresses of other hosts that a page asked for. What the browser asks for by itself has no page behind it.
fn foreign(requests: &str) -> Vec<String> {
    let addresses =
        requests.split("\"initiator\":\"").skip(1).filter(|rest| !rest.starts_with("not an origin"));
    let around = addresses.filter_map(|rest| rest.split_once("\"url\":\"")?.1.split('"').next());
    around.filter(|url| !url.starts_with("file:") && !url.starts_with("data:")).map(str::to_owned).collect()
}

#[test]
fn the_search_works_without_a_server_and_no_other_host_is_asked() {
    let Some(folder) = made("site-browser") else { return };
    if !have(&[("chromium", "Debian: chromium")]) {
        return;
    }
    let (text, requests) = opened(&folder, "docs/index.html?search=burst+rate");
    let results = text.split_once("id=\"mdbook-searchresults\"").expect("a list of results").1;
    assert!(results.split("<li").count() > 3, "{}", &results[..500.min(results.len())]);
    assert!(text.contains("class=\"chapter-item"), "the list of pages is not there");
    assert_eq!(foreign(&requests), Vec::<String>::new());
    // The same look at the log finds a page that does ask.
    fs::write(folder.join("bad.html"), "<img src=\"http://asked.example/x.png\">").unwrap();
    let (_, requests) = opened(&folder, "bad.html");
    fs::remove_file(folder.join("bad.html")).unwrap();
    assert_eq!(foreign(&requests), ["http://asked.example/x.png"]);
}
