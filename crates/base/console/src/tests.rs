use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use super::*;

/// Documents that say how often they were asked for.
#[derive(Default)]
struct Counted(Arc<AtomicUsize>);

impl ConsoleDocuments for Counted {
    fn document(&self, path: &str, query: Option<&str>) -> Option<DocumentAnswer> {
        let count = self.0.fetch_add(1, Relaxed) + 1;
        let (status, json) = match path {
            "/v1/summary" => (200, format!("{{\"count\":{count}}}")),
            "/v1/figures" => (200, format!("{{\"query\":{query:?}}}")),
            "/v1/away" => (503, "{\"error\":\"later\"}".to_owned()),
            _ => return None,
        };
        Some(Box::pin(std::future::ready(Document { status, json })))
    }
}

fn site(name: Option<&str>) -> Arc<ConsoleSite<Counted>> {
    Arc::new(ConsoleSite::new(Counted::default(), ConsoleReaders::ThisHost(name.map(str::to_owned))))
}

/// Nothing of these answers has to be waited for.
fn answer(site: &Arc<ConsoleSite<Counted>>, request: SiteRequest) -> SiteReply {
    let mut answer = Arc::clone(site).answer(request);
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reply) => reply,
        Poll::Pending => panic!("it waits"),
    }
}

fn request(path: &str) -> SiteRequest {
    let (path, query) =
        path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query.to_owned())));
    let host = Some("127.0.0.1:7580".to_owned());
    SiteRequest { path: path.to_owned(), query, host, ..SiteRequest::default() }
}

fn header<'r>(reply: &'r SiteReply, name: &str) -> Option<&'r str> {
    reply.headers.iter().find(|(one, _)| *one == name).map(|(_, value)| &**value)
}

#[test]
fn a_page_of_another_name_gets_nothing() {
    let site = site(Some("Console.example"));
    let status = |host: Option<&str>| {
        answer(&site, SiteRequest { host: host.map(str::to_owned), ..request("/v1/summary") }).status
    };
    for meant in [
        "127.0.0.1:7580",
        "127.0.0.1",
        "10.1.2.3:1",
        "[::1]:7580",
        "[fd00::1]",
        "localhost:7580",
        "LOCALHOST",
        "console.example:443",
    ] {
        assert_eq!(status(Some(meant)), 200, "{meant}");
    }
    for other in [
        "",
        "evil.example",
        "evil.example:7580",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "[evil]:1",
        "1.2.3",
        "consolexexample",
    ] {
        assert_eq!(status(Some(other)), 421, "{other}");
    }
    assert_eq!(status(None), 421);
}

#[test]
fn every_answer_forbids_what_the_pages_do_not_need() {
    let site = site(None);
    let other = SiteRequest { host: None, ..request("/") };
    let requests =
        ["/", "/console.js", "/pages/fleet.js", "/v1/summary", "/v1/away", "/nothing", "/../Cargo.toml"]
            .map(request);
    for asked in requests.into_iter().chain([other]) {
        let reply = answer(&site, asked.clone());
        let policy = header(&reply, "content-security-policy").expect("a policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{asked:?}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(header(&reply, "x-content-type-options"), Some("nosniff"));
        assert_eq!(header(&reply, "cache-control"), Some("no-store"));
    }
}

#[test]
fn what_a_browser_has_is_not_sent_again() {
    let site = site(None);
    for path in ["/", "/console.css", "/v1/figures?cluster=web"] {
        let first = answer(&site, request(path));
        let tag = header(&first, "etag").expect("a tag").to_owned();
        let again = answer(&site, SiteRequest { has: Some(tag), ..request(path) });
        assert_eq!((first.status, again.status, again.body.len()), (200, 304, 0), "{path}");
        let changed = answer(&site, SiteRequest { has: Some("\"another\"".to_owned()), ..request(path) });
        assert_eq!((changed.status, changed.body), (200, first.body), "{path}");
    }
}

#[test]
fn many_tabs_cost_a_document_once_and_queries_are_told_apart() {
    let site = site(None);
    for _ in 0..1000 {
        answer(&site, request("/v1/summary"));
    }
    let built = site.documents.0.load(Relaxed);
    // Once for each second that this took.
    assert!(built <= 100, "{built}");
    let body = |path: &str| String::from_utf8(answer(&site, request(path)).body.to_vec()).expect("text");
    assert!(body("/v1/figures?host=a").contains("host=a"));
    assert!(body("/v1/figures?host=b").contains("host=b"));
}

#[test]
fn a_refusal_is_passed_on_and_not_kept() {
    let site = site(None);
    for expected in 1..=3 {
        let reply = answer(&site, request("/v1/away"));
        assert_eq!((reply.status, &*reply.body), (503, &b"{\"error\":\"later\"}"[..]));
        assert_eq!(site.documents.0.load(Relaxed), expected);
    }
    assert_eq!(answer(&site, request("/v1/apply")).status, 404);
}

/// Documents whose answers take long, and how often they were asked for.
#[derive(Default)]
struct Slow {
    asked: AtomicUsize,
    is_over: Arc<AtomicBool>,
}

impl ConsoleDocuments for Slow {
    fn document(&self, path: &str, _: Option<&str>) -> Option<DocumentAnswer> {
        self.asked.fetch_add(1, Relaxed);
        let status = if path == "/v1/away" { 503 } else { 200 };
        let (is_over, document) = (Arc::clone(&self.is_over), Document { status, json: "{}".to_owned() });
        Some(Box::pin(std::future::poll_fn(move |_| match is_over.load(Relaxed) {
            true => Poll::Ready(document.clone()),
            false => Poll::Pending,
        })))
    }
}

fn poll(answer: &mut SiteAnswer) -> Option<SiteReply> {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reply) => Some(reply),
        Poll::Pending => None,
    }
}

#[test]
fn tabs_that_ask_while_an_answer_is_on_its_way_wait_for_it() {
    let site = Arc::new(ConsoleSite::new(Slow::default(), ConsoleReaders::ThisHost(None)));
    for (path, status) in [("/v1/summary", 200), ("/v1/away", 503)] {
        site.documents.asked.store(0, Relaxed);
        site.documents.is_over.store(false, Relaxed);
        let mut tabs: Vec<SiteAnswer> = (0..50).map(|_| Arc::clone(&site).answer(request(path))).collect();
        for _ in 0..3 {
            assert!(tabs.iter_mut().all(|tab| poll(tab).is_none()));
        }
        assert_eq!(site.documents.asked.load(Relaxed), 1, "{path}");
        // The one that has asked is gone, and another one asks in its place.
        drop(tabs.remove(0));
        assert!(tabs.iter_mut().all(|tab| poll(tab).is_none()));
        assert_eq!(site.documents.asked.load(Relaxed), 2, "{path}");
        site.documents.is_over.store(true, Relaxed);
        for tab in &mut tabs {
            assert_eq!(poll(tab).expect("it is over").status, status);
        }
        assert_eq!(site.documents.asked.load(Relaxed), 2, "{path}");
    }
}

#[test]
fn beyond_a_limit_of_answers_on_their_way_a_question_is_refused() {
    let site = Arc::new(ConsoleSite::new(Slow::default(), ConsoleReaders::ThisHost(None)));
    let ask = |at: usize| {
        let mut answer = Arc::clone(&site).answer(request(&format!("/v1/history?since={at}")));
        (poll(&mut answer), answer)
    };
    let mut waiting = Vec::new();
    for at in 0..UNDER_WAY_MAX {
        let (reply, answer) = ask(at);
        assert_eq!(reply, None);
        waiting.push(answer);
    }
    let refused = ask(UNDER_WAY_MAX).0.expect("it is refused");
    assert_eq!((refused.status, header(&refused, "retry-after")), (503, Some("1")));
    assert_eq!(&*refused.body, b"{\"error\":\"16 other answers are on their way\"}");
    assert_eq!(ask(0).0, None, "it waits with the other one");
    let mut page = Arc::clone(&site).answer(request("/"));
    assert_eq!(poll(&mut page).expect("files need no answer").status, 200);
    assert_eq!(site.documents.asked.load(Relaxed), UNDER_WAY_MAX);
    // A browser that goes away makes room.
    waiting.pop();
    assert_eq!(ask(UNDER_WAY_MAX).0, None);
}

/// What a browser gets of the page of one process.
fn of_process(request: SiteRequest) -> SiteReply {
    let mut answer = Arc::new(ProcessSite::new(Some("cache-1".to_owned()))).answer(request);
    poll(&mut answer).expect("it has files only")
}

#[test]
fn the_page_of_a_process_has_the_same_headers_and_hosts() {
    for path in ["/", "/process/page.js", "/charts.js", "/nothing", "/console.js"] {
        let reply = of_process(request(path));
        assert_eq!(
            reply.status,
            if ["/nothing", "/console.js"].contains(&path) { 404 } else { 200 },
            "{path}"
        );
        let policy = header(&reply, "content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
    }
    for (host, status) in
        [("10.0.0.5:9150", 200), ("cache-1:9150", 200), ("localhost", 200), ("evil.example:9150", 421)]
    {
        let reply = of_process(SiteRequest { host: Some(host.to_owned()), ..request("/") });
        assert_eq!(reply.status, status, "{host}");
    }
    let tag = header(&of_process(request("/")), "etag").map(str::to_owned);
    assert_eq!(of_process(SiteRequest { has: tag, ..request("/") }).status, 304);
}

#[test]
fn over_a_network_documents_are_for_those_who_are_admitted() {
    let gate = Arc::new(ConsoleGate::new(7580, Arc::new(|der| der == b"reader")));
    let readers = ConsoleReaders::Admitted(Arc::clone(&gate));
    let site = Arc::new(ConsoleSite::new(Counted::default(), readers));
    let named = |path: &str| SiteRequest { host: Some("c1.example:7580".to_owned()), ..request(path) };
    assert_eq!(answer(&site, named("/")).status, 200, "the page says what is needed");
    for path in ["/v1/summary", "/v1/figures?cluster=web", "/nothing"] {
        assert_eq!(answer(&site, named(path)).status, 401, "{path}");
    }
    assert_eq!(site.documents.0.load(Relaxed), 0, "nothing was asked");

    let post = |path: &str, bearer: &str| SiteRequest {
        method: SiteMethod::Post,
        bearer: Some(bearer.to_owned()),
        ..named(path)
    };
    let token = gate.issue().expect("random bytes");
    assert_eq!(answer(&site, post("/session", "wrong")).status, 401);
    assert_eq!(answer(&site, post("/v1/summary", &token)).status, 405);
    let exchanged = answer(&site, post("/session", &token));
    let cookie = header(&exchanged, "set-cookie").expect("a cookie").to_owned();
    assert_eq!(exchanged.status, 200);
    assert!(answer(&site, post("/session", &token)).headers.iter().all(|(name, _)| *name != "set-cookie"));
    let with = |cookies: Option<&str>, certificate: Option<&[u8]>| SiteRequest {
        cookies: cookies.map(str::to_owned),
        certificate: certificate.map(<[u8]>::to_vec),
        ..named("/v1/summary")
    };
    assert_eq!(answer(&site, with(cookie.split(';').next(), None)).status, 200);
    assert_eq!(answer(&site, with(None, Some(b"reader"))).status, 200);
    assert_eq!(answer(&site, with(None, Some(b"server"))).status, 401);
}

#[test]
fn a_console_of_this_host_takes_no_token() {
    let site = site(None);
    let asked = SiteRequest { method: SiteMethod::Post, bearer: Some("x".to_owned()), ..request("/session") };
    assert_eq!(answer(&site, asked).status, 405);
}
