//! Three real controllers with one register, and the ways between them and the agents.

pub(super) mod mortal_register;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use control::identity::FleetIdentity;
use control::register::{Revision, SimulatedRegister};
use control::{
    AgentSeats, ChangeQuestion, ChangeRequest, ControlQuestion, Controller, ControllerChoice,
    ControllerMessage, ControllerSettings, FleetDecisions, LivenessOutbox, NewGeneration, ProbeResult,
    Publication, Requester, RolloutAct, ScaleQuestion, TurnOrders, TurnReport,
};
use fleet::{
    FleetContent, FleetPlanInput, FleetPolicy, Generation, GenerationNumber, Inventory, MemberId, Replacement,
};
use stdx::clock::Now;
use tokio::runtime::Runtime;

use self::mortal_register::MortalRegister;
use super::shape::{CONTROLLERS, FLEET, member, policy, rollout, thresholds, zone};

/// Routes of a policy that works.
pub(super) const ROUTES: &str = "{\"route\": \"PoolRoute|web\"}";
/// A controller that was killed is started again after this.
const RESTARTS_AFTER_MS: u64 = 3_000;
/// Warm-up of a resize, in seconds: a run is short.
const WARM_UP_S: u32 = 3;
/// Controllers' clocks begin here: 0 is before all times.
const CLOCK_BEGIN_MS: u64 = 1_000;

/// A controller's place.
struct ControllerSeat {
    controller: Option<Controller>,
    seats: Arc<AgentSeats>,
    register: Arc<MortalRegister>,
    /// For each controller.
    outboxes: Vec<Arc<LivenessOutbox>>,
    starts_ms: Option<u64>,
    written: u64,
    /// Since when its way to the register is cut, or is not.
    is_cut: bool,
    cut_since_ms: u64,
}

/// All of them.
pub(super) struct SmallControllers {
    all: Vec<ControllerSeat>,
    register: SimulatedRegister,
    decisions: FleetDecisions,
    written: Arc<AtomicU64>,
    seen_written: u64,
    /// A planted bug: agents stay with a controller that is without its register.
    pub(super) agents_stay: bool,
    /// Seats' orders are futures, and need a timer that never ends here.
    runtime: Runtime,
}

/// The time for people: the world begins in 1970.
fn unix_s(now: Now) -> i64 {
    (now.ms() / 1000).cast_signed()
}

impl SmallControllers {
    /// Controllers of a fleet with so many servers, with a first generation.
    pub(super) fn new(servers: usize) -> SmallControllers {
        let register = SimulatedRegister::default();
        let written = Arc::new(AtomicU64::new(0));
        let own = MortalRegister::new(register.client(), Arc::clone(&written));
        let decisions = FleetDecisions::new(Arc::new(own), &FLEET.parse().expect("a name"));
        for number in 0..servers {
            let (name, zone) = (member(number), zone(number));
            let json = format!(
                "{{\"id\": \"{name}\", \"host\": \"h{number}\", \"zone\": \"{zone}\", \"address\": \"{name}:11211\"}}"
            );
            decisions.set_member(&name, &json, Revision::ABSENT).expect("a register");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let mut group = SmallControllers {
            all: Vec::new(),
            register,
            decisions,
            written,
            seen_written: 0,
            agents_stay: false,
            runtime,
        };
        group.publish_policy(&policy(ROUTES));
        for number in 0..CONTROLLERS {
            let client = MortalRegister::new(group.register.client(), Arc::clone(&group.written));
            let outboxes = (0..CONTROLLERS).map(|_| Arc::default()).collect();
            let (controller, seats) = (None, Arc::default());
            let register = Arc::new(client);
            let seat = ControllerSeat {
                controller,
                seats,
                register,
                outboxes,
                starts_ms: Some(0),
                written: 0,
                is_cut: false,
                cut_since_ms: 0,
            };
            group.all.push(seat);
            group.start_due(number, 0);
        }
        group
    }

    /// A planted bug: a lost member's replacement brings routes to all.
    pub(super) fn bring_routes(&self) {
        self.all.iter().for_each(|seat| seat.register.bring_routes());
    }

    /// An operator gives the fleet another policy, which reaches the register whole or not at all.
    pub(super) fn publish_policy(&mut self, text: &str) -> bool {
        // Routes change, and nobody asks for another number of slots.
        self.publish_with(text, |input| {
            let content = fleet::plan(input).ok()?.content;
            let clusters = match &*input.current.clusters {
                [] => content.clusters,
                present => present.to_vec(),
            };
            Some(FleetContent { clusters, views: content.views })
        })
    }

    fn publish_with(
        &mut self,
        text: &str,
        planned: impl Fn(&FleetPlanInput<'_>) -> Option<FleetContent>,
    ) -> bool {
        let policy = FleetPolicy::parse(text).expect("a policy");
        let members = self.decisions.members().expect("a register");
        let members = members.iter().map(|entry| serde_json::from_slice(&entry.value).expect("a member"));
        let inventory = Inventory::new(members).expect("an inventory");
        let target = self.decisions.target().expect("a register");
        let before = target.and_then(|target| self.generation(target.number.0));
        let current = before.map_or_else(FleetContent::default, |before| before.content);
        let excluded = &Default::default();
        let input = FleetPlanInput { policy: &policy, inventory: &inventory, current: &current, excluded };
        let Some(content) = planned(&input) else { return false };
        let parent = target.map(|target| target.number);
        let number = GenerationNumber(parent.map_or(1, |parent| parent.0 + 1));
        let generation = Generation {
            number,
            parent,
            reason: "an operator".to_owned(),
            lower: None,
            origin: None,
            content,
        };
        let texts = fleet::texts(&generation.content).into_values().collect();
        let json = serde_json::to_vec(&generation).expect("names and texts");
        let (_, revision) = self.decisions.policy().expect("a register");
        self.decisions.set_policy(text, revision).expect("a register");
        let new = NewGeneration { number, json, texts, lower: None, replaced: Default::default() };
        let published = self.decisions.publish(target, &new);
        matches!(published, Ok(Publication::Done(_)))
    }

    /// The target, if something was written since the last call.
    pub(super) fn news(&mut self) -> Option<GenerationNumber> {
        let written = self.written.load(std::sync::atomic::Ordering::Relaxed);
        if std::mem::replace(&mut self.seen_written, written) == written {
            return None;
        }
        Some(self.target())
    }

    /// The target in the register.
    pub(super) fn target(&self) -> GenerationNumber {
        self.decisions.target().expect("a register").expect("a first generation").number
    }

    /// A generation of the register.
    pub(super) fn generation(&self, number: u64) -> Option<Generation> {
        let json = self.decisions.generation(GenerationNumber(number)).expect("a register")?;
        Some(serde_json::from_slice(&json).expect("a generation"))
    }

    /// Whether any controller works.
    pub(super) fn any_works(&self) -> bool {
        self.all.iter().any(|seat| seat.controller.is_some())
    }

    /// Kills a controller until that time.
    pub(super) fn kill(&mut self, number: usize, until_ms: u64) {
        (self.all[number].controller, self.all[number].starts_ms) = (None, Some(until_ms));
        // What it had for others, and its agents' seats, are gone with it.
        self.all[number].seats = Arc::default();
        self.all[number].outboxes.iter_mut().for_each(|outbox| *outbox = Arc::default());
    }

    /// Kills it after so many writes more.
    pub(super) fn kill_after(&mut self, number: usize, writes: u64) {
        self.all[number].register.dies_after(writes);
    }

    /// Cuts a controller's way to the register, or mends it.
    pub(super) fn set_register_away(&mut self, number: usize, is_away: bool, now_ms: u64) {
        let seat = &mut self.all[number];
        seat.register.set_away(is_away);
        if std::mem::replace(&mut seat.is_cut, is_away) != is_away {
            seat.cut_since_ms = now_ms;
        }
    }

    /// Whether a controller works and has or has not reached its register for so long.
    pub(super) fn is_cut_for(&self, number: usize, is_cut: bool, for_ms: u64, now_ms: u64) -> bool {
        let seat = &self.all[number];
        seat.controller.is_some() && seat.is_cut == is_cut && now_ms > seat.cut_since_ms + for_ms
    }

    /// A planted bug: it publishes nothing while a rollout is halted.
    pub(super) fn hold_while_halted(&mut self, number: usize, now_ms: u64) {
        let is_halted = self.status(now_ms).iter().any(|rollout| rollout.contains("halted"));
        let is_cut = self.all[number].is_cut;
        self.all[number].register.set_away(is_cut || is_halted);
    }

    /// An operator asks a controller that works.
    fn ask(&mut self, question: ControlQuestion, now_ms: u64) -> Option<serde_json::Value> {
        let seat = self.all.iter_mut().find(|seat| seat.controller.is_some() && !seat.is_cut)?;
        let (reply, mut answer) = tokio::sync::oneshot::channel();
        let message = ControllerMessage::Question(question, identity(0), reply);
        seat.controller.as_mut()?.on_message(message, clock(now_ms), unix_s(clock(now_ms)));
        serde_json::from_str(&answer.try_recv().ok()?.json).ok()
    }

    /// An operator has a member replaced, as `control replace` does it.
    pub(super) fn replace(&mut self, member: &MemberId, is_at_once: bool, now_ms: u64) {
        let (by, now) = (None, is_at_once);
        let change =
            ChangeQuestion::Requests(vec![ChangeRequest::Replace { member: member.clone(), by, now }]);
        self.change(change, now_ms);
    }

    fn change(&mut self, change: ChangeQuestion, now_ms: u64) {
        let plan = self.ask(ControlQuestion::Plan(change.clone()), now_ms);
        let plan = plan.and_then(|plan| Some(plan["plan"].as_str()?.to_owned()));
        if let Some(plan) = plan {
            self.ask(ControlQuestion::Apply { change, plan, why: "an operator".to_owned() }, now_ms);
        }
    }

    /// An operator gives the cluster so many slots, as `control scale` does it.
    pub(super) fn resize(&mut self, slots: usize, at_once: bool, now_ms: u64) {
        let cluster = "web".parse().expect("a name");
        let scale = ScaleQuestion { cluster, slots, warm_up_s: Some(WARM_UP_S), now: at_once };
        self.change(ChangeQuestion::Scale(scale), now_ms);
    }

    /// A planted bug: an operator who publishes all that the policy wants with another member.
    pub(super) fn replace_with_routes(&mut self, member: &MemberId) {
        let (text, _) = self.decisions.policy().expect("a register");
        self.publish_with(&text.expect("a policy"), |input| {
            let wish = Replacement { member: member.clone(), by: None };
            let slots = fleet::change_slots(input, &[wish]).plan.content;
            let FleetContent { views, .. } = fleet::plan(input).ok()?.content;
            Some(FleetContent { clusters: slots.clusters, views })
        });
    }

    /// A person halts the rollout, or lets it go on.
    pub(super) fn halt(&mut self, act: RolloutAct, now_ms: u64) {
        self.ask(ControlQuestion::Rollout { act, why: "an operator".to_owned() }, now_ms);
    }

    fn start_due(&mut self, number: usize, now_ms: u64) {
        let seat = &mut self.all[number];
        if seat.controller.is_some() || seat.starts_ms.is_some_and(|at| at > now_ms) {
            return;
        }
        seat.register.revive();
        let settings = ControllerSettings {
            fleet: FLEET.parse().expect("a name"),
            host: format!("c{number}").parse().expect("a name"),
            zone: zone(number).parse().expect("a name"),
            rollout: rollout(),
            health: thresholds(),
        };
        let register = Arc::clone(&seat.register);
        let decisions = FleetDecisions::new(register, &FLEET.parse().expect("a name"));
        let others = seat.outboxes.iter().enumerate().filter(|(other, _)| *other != number);
        let outboxes = others.map(|(_, outbox)| Arc::clone(outbox)).collect();
        // Without a register it does not begin, and is started again.
        let controller = Controller::new(
            decisions,
            Arc::clone(&seat.seats),
            settings,
            clock(now_ms),
            unix_s(clock(now_ms)),
        );
        seat.controller = controller.ok().map(|controller| controller.telling(outboxes));
        seat.starts_ms = Some(now_ms + RESTARTS_AFTER_MS);
    }

    /// A second of a controller: its probes, what it tells the others, and its own decisions.
    pub(super) fn tick(&mut self, number: usize, now_ms: u64, probes: Vec<ProbeResult>) {
        self.start_due(number, now_ms);
        let now = clock(now_ms);
        let seat = &mut self.all[number];
        let Some(controller) = &mut seat.controller else { return };
        if let Some(written) = seat.register.written().filter(|written| *written != seat.written) {
            seat.written = written;
            controller.on_message(ControllerMessage::Changed, now, unix_s(now));
        }
        for probe in probes {
            controller.on_message(ControllerMessage::Probe(probe), now, unix_s(now));
        }
        controller.tick(now, unix_s(now));
        self.die_if_due(number, now_ms);
        self.tell_others(number, now);
    }

    fn die_if_due(&mut self, number: usize, now_ms: u64) {
        if self.all[number].register.is_dead() {
            self.kill(number, now_ms + RESTARTS_AFTER_MS);
        }
    }

    fn tell_others(&mut self, number: usize, now: Now) {
        for other in (0..CONTROLLERS).filter(|other| *other != number) {
            let (name, place) = (format!("c{number}"), zone(number));
            let name = name.parse().expect("a name");
            let report = self.all[number].outboxes[other].take(&name, &place.parse().expect("a name"));
            let Some(controller) = &mut self.all[other].controller else { continue };
            let (reply, _) = tokio::sync::oneshot::channel();
            let question = ControlQuestion::Liveness(report);
            let message = ControllerMessage::Question(question, identity(number), reply);
            controller.on_message(message, now, unix_s(now));
        }
    }

    /// What the controllers say of the rollout.
    pub(super) fn status(&mut self, now_ms: u64) -> Vec<String> {
        let mut texts = Vec::new();
        for controller in self.all.iter_mut().filter_map(|seat| seat.controller.as_mut()) {
            let (reply, mut answer) = tokio::sync::oneshot::channel();
            let message = ControllerMessage::Question(ControlQuestion::Status, identity(0), reply);
            controller.on_message(message, clock(now_ms), unix_s(clock(now_ms)));
            let status = answer.try_recv().ok().and_then(|answer| serde_json::from_str(&answer.json).ok());
            texts.extend(status.map(|status: serde_json::Value| status["rollout"].to_string()));
        }
        texts
    }

    /// An agent's turn with the controller that it has chosen, or the next ones if that does not work. The orders, if they are others
    /// than it has seen, and count.
    pub(super) fn turn(
        &mut self,
        first: usize,
        choice: &mut ControllerChoice,
        report: &TurnReport,
        now_ms: u64,
    ) -> Option<TurnOrders> {
        for _ in 0..CONTROLLERS {
            let seat = &mut self.all[(first + choice.at()) % CONTROLLERS];
            let Some(controller) = seat.controller.as_mut() else {
                choice.failed();
                continue;
            };
            let message = ControllerMessage::Turn(report.clone());
            controller.on_message(message, clock(now_ms), unix_s(clock(now_ms)));
            let _entered = self.runtime.enter();
            let mut answer = std::pin::pin!(seat.seats.answer(report, Duration::from_secs(3600)));
            let Poll::Ready(orders) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                return None;
            };
            let orders = orders.ok()?;
            let is_elsewhere = orders.elsewhere && !self.agents_stay;
            return choice.answered(is_elsewhere).then_some(orders);
        }
        None
    }
}

fn identity(controller: usize) -> Requester {
    let identity: FleetIdentity =
        format!("evenkeel://{FLEET}/controller/c{controller}").parse().expect("an identity");
    Requester::Certified(identity)
}

fn clock(now_ms: u64) -> Now {
    Now::at_ms(now_ms + CLOCK_BEGIN_MS)
}
