//! Questions as clients send them, good and bad.

use admin::api::ApiPeer;

use super::*;
use crate::service::turn::TEXT_MAX;

fn ask(line: &str) -> Result<ControlQuestion, QuestionFault> {
    let (method, rest) = line.split_once(' ').expect("a method and a target");
    let (target, body) = rest.split_once(' ').unwrap_or((rest, ""));
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let method = if method == "GET" { ApiMethod::Get } else { ApiMethod::Post };
    question(&ApiRequest {
        method,
        path: path.to_owned(),
        query: query.map(str::to_owned),
        body: body.into(),
        peer: ApiPeer::Local,
    })
}

#[track_caller]
fn refused(line: &str, expected: &str) {
    let fault = ask(line).expect_err("it is refused");
    assert!(fault.error.contains(expected), "{}", fault.error);
}

#[test]
fn documents_are_read() {
    assert_eq!(ask("GET /v1/status"), Ok(ControlQuestion::Status));
    let from = GenerationNumber(3);
    assert_eq!(ask("GET /v1/diff?from=3"), Ok(ControlQuestion::Diff { from, to: None }));
    let why = ControlQuestion::Why { key: b"a:1|#|\xff".to_vec(), view: None };
    assert_eq!(ask("GET /v1/why?key=a%3A1%7C%23%7C%FF"), Ok(why));
    refused("GET /v1/status?verbose", "expected no query, found \"verbose\"");
    refused("GET /v1/diff?from=3&too=4", "expected from or to, found \"too\"");
    refused("GET /v1/diff?from=-1", "from: expected a generation, found \"-1\"");
    refused("GET /v1/diff?from=1&from=2", "\"from\" twice");
    refused("GET /v1/why?key=", "expected a key of 1 to 250 bytes, found 0");
    refused("GET /v1/why?key=a&view=../x", "is not 1 to 63 letters");
    refused("GET /v1/nothing", "there is no GET of this path");
    refused("POST /v1/status", "there is no POST of this path");
}

#[test]
fn a_change_is_one_of_policy_requests_rollback_adopt_and_drain() {
    assert_eq!(ask("POST /v1/plan {}"), Ok(ControlQuestion::Plan(ChangeQuestion::Policy(None))));
    let rollback = ChangeQuestion::Rollback(GenerationNumber(4));
    assert_eq!(ask(r#"POST /v1/plan {"rollback":4}"#), Ok(ControlQuestion::Plan(rollback)));
    let member = "m1".parse().expect("a name");
    let requests = ChangeQuestion::Requests(vec![ChangeRequest::Replace { member, by: None, now: false }]);
    let found = ask(r#"POST /v1/plan {"requests":[{"replace":{"member":"m1"}}]}"#);
    assert_eq!(found, Ok(ControlQuestion::Plan(requests)));
    let (view, zone, text) = ("v".parse().expect("a name"), "a".parse().expect("a name"), "{}".to_owned());
    let adopt = ChangeQuestion::Adopt(AdoptQuestion { fleet: None, view, zone, text });
    let found = ask(r#"POST /v1/plan {"adopt":{"view":"v","zone":"a","text":"{}"}}"#);
    assert_eq!(found, Ok(ControlQuestion::Plan(adopt)));
    refused(r#"POST /v1/plan {"adopt":{"view":"v","zone":"a","text":"{}"},"policy":""}"#, "found several");
    refused(r#"POST /v1/plan {"adopt":{"view":"v","zone":"a"}}"#, "missing field `text`");
    let drain = |line: &str| match ask(line) {
        Ok(ControlQuestion::Plan(ChangeQuestion::Drain(drain))) => {
            (drain.member.to_string(), drain.warm_up_s)
        }
        found => panic!("{found:?}"),
    };
    assert_eq!(drain(r#"POST /v1/plan {"drain":{"member":"m1"}}"#), ("m1".to_owned(), 600));
    let longest = r#"POST /v1/plan {"drain":{"member":"m1","warm_up_s":3600}}"#;
    assert_eq!(drain(longest), ("m1".to_owned(), 3_600));
    refused(&longest.replace("3600", "3601"), "expected a warm-up of 0 to 3600 s, found 3601 s");
    let cancel = ChangeQuestion::CancelDrain("m1".parse().expect("a name"));
    assert_eq!(ask(r#"POST /v1/plan {"cancel_drain":"m1"}"#), Ok(ControlQuestion::Plan(cancel)));
    refused(r#"POST /v1/plan {"cancel_drain":"m1","drain":{"member":"m1"}}"#, "found several");
    refused(r#"POST /v1/plan {"requests":[]}"#, "expected 1 to 256 requests, found 0");
    refused(r#"POST /v1/plan {"requests":[{"remove":{"member":"m1"}}]}"#, "unknown variant `remove`");
    refused(r#"POST /v1/plan {"rollback":4,"policy":""}"#, "found several");
    refused(r#"POST /v1/plan {"polcy":""}"#, "unknown field `polcy`");
    refused("POST /v1/plan not-json", "understand the body of /v1/plan");
}

#[test]
fn what_is_carried_out_has_a_plan_and_a_reason() {
    let applied = ask(r#"POST /v1/apply {"rollback":4,"plan":"p","why":" load "}"#);
    assert!(matches!(applied, Ok(ControlQuestion::Apply { why, .. }) if why == "load"));
    refused(r#"POST /v1/apply {"rollback":4,"why":"load"}"#, "expected the name of the plan that was shown");
    refused(r#"POST /v1/apply {"rollback":4,"plan":"p"}"#, "expected a reason");
    refused(r#"POST /v1/apply {"rollback":4,"plan":"p","why":" "}"#, "expected a reason");
    let long = format!(r#"POST /v1/apply {{"plan":"p","why":"{}"}}"#, "x".repeat(TEXT_MAX + 1));
    refused(&long, "expected a reason of 500 bytes at most, found 501");
}

#[test]
fn a_scope_is_the_fleet_a_cluster_a_zone_a_member_or_a_host() {
    for text in ["fleet", "cluster/a", "zone/eu-1", "member/m1", "host/h1"] {
        assert_eq!(text.parse::<FreezeScope>().map(|scope| scope.to_string()), Ok(text.to_owned()));
        assert!(ask(&format!(r#"POST /v1/freeze {{"scope":"{text}","why":"x"}}"#)).is_ok());
    }
    for text in ["", "fleet/", "cluster/", "cluster/a/b", "zone", "host/", "router/r1", "Fleet"] {
        refused(
            &format!(r#"POST /v1/freeze {{"scope":"{text}","why":"x"}}"#),
            "expected fleet, cluster/NAME, zone/NAME, member/ID or host/ID",
        );
    }
}

#[test]
fn a_person_wants_something_of_a_rollout_and_says_why() {
    let halt = ControlQuestion::Rollout { act: RolloutAct::Halt, why: "load".to_owned() };
    assert_eq!(ask(r#"POST /v1/rollout {"act":"halt","why":"load"}"#), Ok(halt));
    refused(
        r#"POST /v1/rollout {"act":"stop","why":"load"}"#,
        "expected one of `resume`, `hurry`, `halt`, `abandon`",
    );
    refused(r#"POST /v1/rollout {"act":"abandon","why":" "}"#, "expected a reason");
}

#[test]
fn a_turn_is_checked_where_it_comes_in() {
    let turn = r#"POST /v1/turn {"host":"h1","zone":"a","boot":7,"turn":3}"#;
    assert!(matches!(ask(turn), Ok(ControlQuestion::Turn(report)) if report.turn == 3));
    refused(&turn.replace("\"turn\":3", "\"turn\":-3"), "invalid value");
    let twice = r#","members":[{"member":"m","process":"down"},{"member":"m","process":"down"}]}"#;
    refused(&turn.replace('}', twice), "names m twice");
}

#[test]
fn questions_about_tuning_name_their_hosts_and_one_thing_to_do() {
    let hosts = |scope: &str| scope.parse().expect("a scope");
    let all = ControlQuestion::TuneCheck { scope: hosts("all") };
    assert_eq!(ask("GET /v1/tune/check"), Ok(all.clone()));
    assert_eq!(ask("GET /v1/tune/check?hosts=all"), Ok(all));
    let web = ControlQuestion::TuneCheck { scope: hosts("cluster=web,zone=a,b") };
    assert_eq!(ask("GET /v1/tune/check?hosts=cluster%3Dweb%2Czone%3Da%2Cb"), Ok(web));
    let wish = PlanWish::Strategy("defer-50".to_owned());
    let plan = ControlQuestion::TuneAsk { scope: hosts("zone=a"), what: TuneWhat::Plan(wish) };
    assert_eq!(ask(r#"POST /v1/tune/ask {"hosts":"zone=a","strategy":"defer-50","profile":null}"#), Ok(plan));
    let look = ControlQuestion::TuneAsk { scope: hosts("all"), what: TuneWhat::Check };
    assert_eq!(ask(r#"POST /v1/tune/ask {"hosts":"all","check":true}"#), Ok(look));
    let id: TuneAskId = "00ff".parse().expect("a name");
    assert_eq!(ask("GET /v1/tune/ask?id=00ff"), Ok(ControlQuestion::TuneAsked(id.clone())));
    assert_eq!(ask("GET /v1/tune/plan?id=00ff"), Ok(ControlQuestion::TunePlan(id)));
    refused("GET /v1/tune/check?hosts=web", "hosts: expected all, or host=");
    refused("GET /v1/tune/check?zone=a", "expected hosts, found \"zone\"");
    refused("GET /v1/tune/plan", "expected ?id=QUESTION");
    refused("GET /v1/tune/plan?id=../x", "is not 1 to 63 letters");
    refused(
        r#"POST /v1/tune/ask {"hosts":"all"}"#,
        "expected one of check, profile, strategy and version, found 0",
    );
    let both = r#"POST /v1/tune/ask {"hosts":"all","check":true,"profile":"memcached"}"#;
    refused(both, "expected one of check, profile, strategy and version, found 2");
    let hostile = r#"POST /v1/tune/ask {"hosts":"all","profile":"x --script=/etc/passwd"}"#;
    refused(hostile, "expected a profile of small letters, digits and '-', found");
    refused(r#"POST /v1/tune/ask {"hosts":"all","check":true,"apply":true}"#, "unknown field `apply`");
}

#[test]
fn changes_of_hosts_are_asked_for_with_what_was_shown() {
    use super::changes::{ChangeSteer, ChangeTerms, ChangeWanted};
    let id: TuneAskId = "00ff".parse().expect("a name");
    let wanted = ChangeWanted { id, terms: ChangeTerms::default(), confirmed: None };
    assert_eq!(ask(r#"POST /v1/tune/apply {"id":"00ff"}"#), Ok(ControlQuestion::ChangeHosts(wanted.clone())));
    let confirmed = Some(("abc".to_owned(), "a test".to_owned()));
    let begun = r#"POST /v1/tune/apply {"id":"00ff","plan":"abc","why":" a test "}"#;
    assert_eq!(ask(begun), Ok(ControlQuestion::ChangeHosts(ChangeWanted { confirmed, ..wanted })));
    refused(r#"POST /v1/tune/apply {"id":"00ff","plan":"abc"}"#, "expected a reason");
    refused(r#"POST /v1/tune/apply {"id":"00ff","promised":["p50"]}"#, "unknown variant `p50`");
    refused(
        r#"POST /v1/tune/apply {"id":"00ff","objective":"up"}"#,
        "objective: expected a query that compares",
    );
    assert_eq!(ask("GET /v1/changes"), Ok(ControlQuestion::Changes(None)));
    assert_eq!(ask("GET /v1/changes?number=7"), Ok(ControlQuestion::Changes(Some(ChangeNumber(7)))));
    refused("GET /v1/changes?number=x", "number: expected the number of a change, found \"x\"");
    let (number, act, why) = (ChangeNumber(7), ChangeSteer::Undo, "a test".to_owned());
    let undo = r#"POST /v1/changes {"number":7,"act":"undo","why":"a test"}"#;
    assert_eq!(ask(undo), Ok(ControlQuestion::SteerChange { number, act, why }));
    refused(r#"POST /v1/changes {"number":7,"act":"undo","why":""}"#, "expected a reason");
    refused(r#"POST /v1/changes {"number":7,"act":"melt","why":"a"}"#, "unknown variant `melt`");
}
