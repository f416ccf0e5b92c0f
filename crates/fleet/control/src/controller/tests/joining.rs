//! Join tokens before a controller with an authority and a simulated register.

use tls::CertificateKey;

use super::*;
use crate::identity::authority::Authority;
use crate::identity::join_token::{JoinClaim, TokenTerms};
use crate::identity::{FleetIdentity, FleetRole};
use crate::service::questions::{CertifyQuestion, JoinQuestion};
use crate::testing::Scratch;

fn signing(register: &SimulatedRegister, scratch: &Scratch) -> Controller {
    let authority = Authority::open(&scratch.path("ca")).expect("it was made");
    controller(register, &Arc::default()).signing(authority)
}

fn authority(scratch: &Scratch) {
    let now_s = os::clock::unix_s();
    Authority::create(&scratch.path("ca"), fleet(), "ann".parse().expect("a name"), now_s).expect("one");
}

fn token(controller: &mut Controller, role: FleetRole) -> ApiReply {
    let terms = TokenTerms { role, zone: "a".parse().expect("a name"), id: None };
    controller.answer(ControlQuestion::IssueToken(terms), &owner())
}

fn text(reply: &ApiReply, name: &str) -> String {
    let json: Value = serde_json::from_str(&reply.json).expect("JSON");
    json[name].as_str().unwrap_or_default().to_owned()
}

fn join(controller: &mut Controller, token: &str, zone: &str, request: &str) -> ApiReply {
    let (zone, id) = (zone.parse().expect("a name"), "h1".parse().expect("a name"));
    let claim = JoinClaim { role: FleetRole::Agent, zone, id };
    let question = JoinQuestion { token: token.to_owned(), claim, request: request.to_owned() };
    controller.answer(ControlQuestion::Join(question), &Requester::Anonymous)
}

fn request() -> String {
    CertificateKey::new().and_then(|key| key.request()).expect("a request")
}

#[test]
fn a_token_that_two_controllers_are_shown_is_good_for_one_certificate() {
    let (register, scratch) = (SimulatedRegister::default(), Scratch::new());
    authority(&scratch);
    let [mut first, mut second] = [(); 2].map(|()| signing(&register, &scratch));
    let token = text(&token(&mut first, FleetRole::Agent), "token");
    let accepted = join(&mut second, &token, "a", &request());
    assert_eq!(text(&accepted, "identity"), "evenkeel://f/agent/h1");
    assert!(text(&accepted, "certificate").contains("BEGIN CERTIFICATE"));
    for controller in [&mut first, &mut second] {
        let refused = join(controller, &token, "a", &request());
        assert_eq!((refused.status, text(&refused, "certificate")), (403, String::new()));
    }
}

#[test]
fn a_request_that_cannot_be_signed_uses_no_token_up() {
    let (register, scratch) = (SimulatedRegister::default(), Scratch::new());
    authority(&scratch);
    let mut controller = signing(&register, &scratch);
    let token = text(&token(&mut controller, FleetRole::Agent), "token");
    assert_eq!(join(&mut controller, &token, "b", &request()).status, 403, "another zone");
    assert_eq!(join(&mut controller, &token, "a", "no request").status, 422);
    assert_eq!(join(&mut controller, &token, "a", &request()).status, 200);
}

#[test]
fn without_an_authority_or_a_register_nothing_is_signed() {
    let (register, scratch) = (SimulatedRegister::default(), Scratch::new());
    let mut unable = controller(&register, &Arc::default());
    assert_eq!(token(&mut unable, FleetRole::Agent).status, 421);
    assert_eq!(join(&mut unable, "x", "a", &request()).status, 422);
    authority(&scratch);
    let mut controller = signing(&register, &scratch);
    assert_eq!(token(&mut controller, FleetRole::Operator).status, 422);
    let token = text(&token(&mut controller, FleetRole::Agent), "token");
    register.add_fault(SimulatedFault::NotReached);
    assert_eq!(join(&mut controller, &token, "a", &request()).status, 503);
}

#[test]
fn a_certificate_is_renewed_for_its_owner_alone() {
    let (register, scratch) = (SimulatedRegister::default(), Scratch::new());
    authority(&scratch);
    let mut controller = signing(&register, &scratch);
    let renew = |controller: &mut Controller, requester: &Requester| {
        controller.answer(ControlQuestion::Renew { request: request(), present: None }, requester)
    };
    let agent = Requester::Certified("evenkeel://f/agent/h1".parse().expect("an identity"));
    let renewed = renew(&mut controller, &agent);
    assert_eq!(renewed.status, 200);
    let pem = text(&renewed, "certificate");
    let path = scratch.path("renewed.pem");
    std::fs::write(&path, pem).expect("a file");
    let chain = tls::certificates(&path).expect("a certificate");
    let found = FleetIdentity::of_certificate(&chain[0], &fleet(), os::clock::unix_s());
    assert_eq!(found.expect("an identity").to_string(), "evenkeel://f/agent/h1");
    assert_eq!(renew(&mut controller, &owner()).status, 422);
    assert_eq!(renew(&mut controller, &Requester::Anonymous).status, 403);
}

#[test]
fn an_agent_gets_a_first_certificate_of_its_server_and_of_no_other_host() {
    let (mut stage, scratch) = (Stage::running(2), Scratch::new());
    authority(&scratch);
    let question = |role: FleetRole, id: &str| CertifyQuestion {
        host: "h1".parse().expect("a name"),
        role,
        id: id.parse().expect("a name"),
        hosts: vec!["10.0.0.1".to_owned()],
        request: request(),
    };
    let agent = |name: &str| -> Requester {
        Requester::Certified(format!("evenkeel://f/agent/{name}").parse().expect("an identity"))
    };
    let may = |asked: &ControlQuestion, who: &Requester| who.may_ask(asked, &fleet()).is_ok();
    let asked = ControlQuestion::Certify(question(FleetRole::Server, "m1"));
    assert!(may(&asked, &agent("h1")) && may(&asked, &owner()));
    assert!(!may(&asked, &agent("h2")) && !may(&asked, &Requester::Anonymous));
    let refused = stage.controller.answer(asked.clone(), &agent("h1"));
    assert!(refused.status == 422 && refused.json.contains("no authority"), "{}", refused.json);
    stage.controller = controller(&stage.register, &stage.seats)
        .signing(Authority::open(&scratch.path("ca")).expect("it was made"));
    stage.rounds(1);
    for (role, id) in [(FleetRole::Server, "m1"), (FleetRole::Router, "r1")] {
        let asked = ControlQuestion::Certify(question(role, id));
        let signed = stage.controller.answer(asked, &agent("h1"));
        assert_eq!(signed.status, 200, "{}", signed.json);
        let path = scratch.path("first.pem");
        std::fs::write(&path, text(&signed, "certificate")).expect("a file");
        let found = tls::certificate_uris(&tls::certificates(&path).expect("a certificate")[0]);
        let found = found.expect("it is one");
        assert_eq!(found.uris, [format!("evenkeel://f/{role}/{id}")]);
        assert_eq!(found.hosts, ["10.0.0.1"]);
    }
    for (role, id) in [(FleetRole::Server, "m2"), (FleetRole::Router, "r2"), (FleetRole::Agent, "h1")] {
        let asked = ControlQuestion::Certify(question(role, id));
        let refused = stage.controller.answer(asked, &agent("h1"));
        assert_eq!((refused.status, text(&refused, "certificate")), (422, String::new()), "{role} {id}");
    }
}

#[test]
fn a_router_keeps_the_hosts_that_its_authority_has_signed() {
    let (register, scratch) = (SimulatedRegister::default(), Scratch::new());
    authority(&scratch);
    let mut controller = signing(&register, &scratch);
    let now_s = os::clock::unix_s();
    let other = Authority::create(&scratch.path("other"), fleet(), "ann".parse().expect("a name"), now_s);
    let identity: FleetIdentity = "evenkeel://f/router/r1".parse().expect("an identity");
    let hosts = ["r1.example".to_owned(), "10.0.0.9".to_owned()];
    let der = |authority: &Authority| {
        let signed = authority.sign(&request(), &identity, &hosts, now_s).expect("a certificate");
        let path = scratch.path("present.pem");
        std::fs::write(&path, signed.pem).expect("a file");
        tls::certificates(&path).expect("a certificate")[0].to_vec()
    };
    let mut renew = |present: Option<Vec<u8>>| {
        let requester = Requester::Certified(identity.clone());
        controller.answer(ControlQuestion::Renew { request: request(), present }, &requester)
    };
    let renewed = renew(Some(der(&Authority::open(&scratch.path("ca")).expect("it was made"))));
    assert_eq!(renewed.status, 200, "{}", renewed.json);
    let path = scratch.path("renewed.pem");
    std::fs::write(&path, text(&renewed, "certificate")).expect("a file");
    let next = &tls::certificates(&path).expect("a certificate")[0];
    assert_eq!(tls::certificate_uris(next).expect("it is one").hosts, hosts);
    let refused = renew(Some(der(&other.expect("one"))));
    assert!(refused.status == 422 && refused.json.contains("has signed it"), "{}", refused.json);
    assert_eq!(renew(None).status, 422);
}
