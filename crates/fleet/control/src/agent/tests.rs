//! An agent's turns with a controller that a test plays.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use admin::api::{Api, ApiAnswer, ApiLimits, ApiListener, ApiReply, ApiRequest};
use serde_json::json;
use tls::{ClientSettings, ClientTls};

use super::*;
use crate::client::ControlPlace;
use crate::service::turn::ProcessReport;

/// Answers every turn at once with the same orders, and tells the test which orders the agent had seen.
struct HastyController(Mutex<Sender<u64>>);

impl Api for HastyController {
    fn answer(self: Arc<Self>, request: ApiRequest) -> ApiAnswer {
        let report: TurnReport = serde_json::from_slice(&request.body).expect("a turn");
        // The test may have ended.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).send(report.seen);
        Box::pin(async { ApiReply::new(200, json!({"version": 7}).to_string()) })
    }
}

/// Serves until the tests end.
fn begin(name: &str) -> (ControlPlace, Receiver<u64>) {
    let path = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = ApiListener::default().unix(&path).expect("a socket");
    let (sender, seen) = channel();
    let controller = Arc::new(HastyController(Mutex::new(sender)));
    std::thread::spawn(move || listener.serve(controller, ApiLimits::default()));
    (ControlPlace::Unix(path), seen)
}

fn report() -> SharedReport {
    let json = json!({"host": "h1", "zone": "a", "boot": 1, "turn": 0});
    Arc::new(Mutex::new(serde_json::from_value(json).expect("a report")))
}

#[test]
fn orders_that_wait_to_be_carried_out_are_not_asked_for_again() {
    let (place, seen) = begin("orders");
    let (tls, _) = ClientTls::load(ClientSettings::default()).expect("settings");
    let settings = AgentSettings {
        host: "h1".parse().expect("a name"),
        zone: "a".parse().expect("a name"),
        boot: 1,
        routers: Vec::new(),
        servers: Vec::new(),
        tune: TuneSettings::default(),
        folder: std::env::temp_dir(),
        controllers: vec![place],
        tls: Arc::new(tls),
        say: Arc::new(|_, _: &str| {}),
    };
    let figures = Arc::new(AgentFigures::new());
    let turns = Controllers::new(&settings, Arc::clone(&figures));
    // Nobody carries them out.
    let (sender, orders) = sync_channel(1);
    let shared = report();
    std::thread::spawn(move || turns.take_turns(&shared, &sender));
    let found: Vec<u64> = seen.iter().take(3).collect();
    assert_eq!(found, [0, 7, 7]);
    assert_eq!(orders.recv().expect("the first ones").orders.version, 7);
    assert!(figures.turns().0 >= 2, "answers are counted");
}

#[test]
fn figures_are_no_news() {
    let server: MemberReport = serde_json::from_value(serde_json::json!({
        "member": "m1", "process": {"running": {"pid": 7}}
    }))
    .expect("a report");
    let router: RouterReport =
        serde_json::from_value(serde_json::json!({"router": "r1", "view": "main", "text": "loaded"}))
            .expect("a report");
    let server_later = MemberReport { hits: 1, misses: 2, figures: Some(Box::default()), ..server.clone() };
    let router_later = RouterReport {
        unasked: vec!["10.0.0.1:1".to_owned()],
        figures: Some(Box::default()),
        ..router.clone()
    };
    assert_eq!(news_of_members(std::slice::from_ref(&server)), news_of_members(&[server_later]));
    assert_eq!(news_of_routers(std::slice::from_ref(&router)), news_of_routers(&[router_later]));
    let restarted = MemberReport { process: ProcessReport::Running { pid: 8 }, ..server.clone() };
    assert_ne!(news_of_members(&[server]), news_of_members(&[restarted]));
    let without_traffic = RouterReport { has_traffic: true, ..router.clone() };
    assert_ne!(news_of_routers(&[router]), news_of_routers(&[without_traffic]));
}
