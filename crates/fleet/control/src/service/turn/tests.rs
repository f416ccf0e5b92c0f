//! Turns as they are on the wire, of honest agents and others.

use super::*;

const REPORT: &str = r#"{"host":"h1","zone":"a","boot":7,"turn":3}"#;

fn report() -> TurnReport {
    serde_json::from_str(REPORT).expect("a report")
}

fn router(name: &str) -> RouterReport {
    let (router, view) = (name.parse().expect("a name"), "main".parse().expect("a name"));
    let (generation, loaded, text) = (None, None, TextReport::Loaded);
    let (suspects, has_traffic, client_address, has_cluster_file) = (Vec::new(), false, None, false);
    RouterReport {
        router,
        view,
        generation,
        loaded,
        text,
        suspects,
        has_traffic,
        unasked: Vec::new(),
        trouble: None,
        client_address,
        has_cluster_file,
        page: None,
        figures: None,
    }
}

#[test]
fn an_agent_of_an_older_or_newer_version_is_understood() {
    assert_eq!(report().members, []);
    let newer = REPORT.replace("\"turn\"", "\"weather\":{\"sun\":[1]},\"turn\"");
    assert_eq!(serde_json::from_str::<TurnReport>(&newer).expect("a report"), report());
    let orders: TurnOrders = serde_json::from_str(r#"{"version":1,"later":true}"#).expect("orders");
    assert_eq!(orders, TurnOrders { version: 1, ..TurnOrders::default() });
}

#[test]
fn names_are_checked_where_they_come_in() {
    let hostile = REPORT.replace("h1", "../etc");
    let error = serde_json::from_str::<TurnReport>(&hostile).expect_err("no name");
    assert!(error.to_string().contains("the host \"../etc\" is not"), "{error}");
}

#[test]
fn the_limits_of_a_turn_are_accepted_and_one_more_is_refused() {
    let with = |count: usize| TurnReport {
        routers: (0..count).map(|number| router(&format!("r{number}"))).collect(),
        ..report()
    };
    assert!(with(ROUTERS_PER_HOST_MAX).checked().is_ok());
    let fault = with(ROUTERS_PER_HOST_MAX + 1).checked().expect_err("one more");
    assert_eq!(fault.to_string(), "the turn has 257 routers, and at most 256 are accepted");
}

#[test]
fn a_router_that_is_named_twice_is_refused() {
    let twice = TurnReport { routers: vec![router("r1"), router("r2"), router("r1")], ..report() };
    assert_eq!(twice.checked(), Err(TurnFault::Twice("r1".to_owned())));
}

#[test]
fn what_is_for_people_is_shortened_between_characters() {
    let reason = "ä".repeat(TEXT_MAX);
    let generation = GenerationNumber(1);
    let mut long = router("r1");
    long.text = TextReport::Crashed { generation, reason };
    long.suspects = vec!["s".repeat(TEXT_MAX + 1); SUSPECTS_MAX + 1];
    let checked = TurnReport { routers: vec![long], ..report() }.checked().expect("it is shortened");
    let [router] = &checked.routers[..] else { panic!("one router") };
    assert_eq!((router.suspects.len(), router.suspects[0].len()), (SUSPECTS_MAX, TEXT_MAX));
    assert_eq!(router.text, TextReport::Crashed { generation, reason: "ä".repeat(TEXT_MAX / 2) });
}

#[test]
fn the_place_of_a_page_is_an_address_or_unknown() {
    let page = |said: &str| {
        let router = format!(r#"{{"router":"r1","view":"main","text":"loaded"{said}}}"#);
        let member = format!(r#"{{"member":"m1","process":"down"{said}}}"#);
        let turn = REPORT.replace('}', &format!(r#","routers":[{router}],"members":[{member}]}}"#));
        let turn: TurnReport = serde_json::from_str(&turn).expect("a turn");
        let checked = turn.checked().expect("the turn counts");
        assert_eq!(checked.routers[0].page, checked.members[0].page);
        checked.routers[0].page.clone()
    };
    for good in ["10.0.0.1:9150", "m1.example:9150", "[2001:db8::1]:9150", "127.0.0.1:1"] {
        assert_eq!(page(&format!(r#","page":"{good}""#)).as_deref(), Some(good));
    }
    for wrong in ["evil.example/x:1", "user@host:1", "javascript:alert(1)", "host", "", "a b:1"] {
        assert_eq!(page(&format!(r#","page":"{wrong}""#)), None, "{wrong}");
    }
    // An older agent does not say it, and a newer one may say it otherwise.
    assert_eq!((page(""), page(r#","page":{"at":["10.0.0.1:9150"]}"#)), (None, None));
}

#[test]
fn a_page_is_not_said_where_there_is_none() {
    let bare = TurnReport { routers: vec![router("r1")], ..report() };
    let json = serde_json::to_string(&bare).expect("JSON");
    assert!(!json.contains("page"), "an older controller is told what it knows: {json}");
    let page = Some("10.0.0.1:9150".to_owned());
    let named = TurnReport { routers: vec![RouterReport { page, ..router("r1") }], ..report() };
    let json = serde_json::to_string(&named).expect("JSON");
    assert_eq!(serde_json::from_str::<TurnReport>(&json).expect("the same"), named);
}
