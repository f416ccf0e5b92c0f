//! FailoverRoute: whether another child is asked after a reply, and which.
//!
//! A reply that is final for any reason is the answer, so that the error of the last child that was asked is reported.
//! Source: mcrouter/routes/FailoverRoute.h and FailoverPolicy.h.

use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue, Object};
use crate::flight::leg::Marks;
use crate::flight::reply::FlightReply;
use crate::message::operation::{Operation, OperationClass};
use crate::message::outcome::Outcome;
use crate::plan::NodeId;
use crate::plan::hash::HashDescription;
use crate::plan::hash::Selector;
use crate::routes::form::{AddRoute, Compile, Fields, RouteDefinition, RouteForm, numbers, texts};
use crate::routes::route::{Decision, FirstStep, Opening, Route, Scene};
use crate::shared::route_state::StateId;
use crate::shared::route_state::{FailoverLimit, StateSpec};

/// One after the other, until one is not an error.
#[derive(Clone, Debug)]
pub(crate) struct Failover(pub(crate) Box<FailoverSettings>);

/// How a FailoverRoute asks its children, of which the first is the normal one.
#[derive(Clone, Debug)]
pub(crate) struct FailoverSettings {
    /// After which outcomes another child is asked.
    pub(crate) errors: FailoverErrors,
    /// In which order the others are asked.
    pub(crate) order: FailoverOrder,
    /// Errors after which no other child is asked. Those of servers that are unavailable (TKO) do not count.
    pub(crate) tries_max: u32,
    /// Errors that do not count.
    pub(crate) excluded: Box<[Outcome]>,
    /// Keys with a hash stop are sent to the other children with `:failover=1` behind them.
    pub(crate) has_tag: bool,
    /// What is remembered between requests: tokens, or failures of children.
    pub(crate) state: Option<StateId>,
}

/// The order in which the children of a FailoverRoute are asked.
#[derive(Clone, Debug)]
pub(crate) enum FailoverOrder {
    /// That of the configuration.
    InOrder,
    /// The one with the fewest failures in a row first; so many children at most.
    LeastFailures(usize),
    /// By hashes of the key with a number behind it.
    Deterministic(Box<DeterministicOrder>),
    /// By a Rendezvous hash of all children but the first.
    Rendezvous(Box<Selector>),
}

/// Parameters of a `DeterministicOrderPolicy`.
#[derive(Clone, Debug)]
pub(crate) struct DeterministicOrder {
    /// Over all children, the first included.
    pub(crate) hash: Selector,
    /// Children that are asked at most, the first included.
    pub(crate) asked_max: usize,
    /// Children of a failure domain with an unavailable server are passed over.
    pub(crate) has_domains: bool,
    /// The server that the normal child chose may be asked again.
    pub(crate) ignores_normal: bool,
}

/// The outcomes after which another child is asked, for each class of operations; `None` for mcrouter's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailoverErrors {
    /// `gets`
    pub(crate) gets: Option<Box<[Outcome]>>,
    /// `updates`
    pub(crate) updates: Option<Box<[Outcome]>>,
    /// `deletes`
    pub(crate) deletes: Option<Box<[Outcome]>>,
}

/// How far a FailoverRoute is with a request.
#[derive(Default)]
pub(crate) struct FailoverProgress {
    /// Errors that count.
    tries: u32,
    /// Children that have been asked beside the first.
    others: usize,
    /// Unless they are asked in order.
    order: Option<Box<OtherOrder>>,
}

/// Children to ask, of an order that depends on the request.
enum OtherOrder {
    /// All of them.
    List(Vec<u16>),
    /// The next is found when it is asked.
    Hashed(Hashed),
}

/// State of a deterministic order.
struct Hashed {
    /// The number behind the key.
    salt: u32,
    is_used: Vec<bool>,
    failed_domains: Vec<u32>,
    last: usize,
}

/// Hashes until a child is taken that was asked before: mcrouter's number.
const HASHES_MAX: u32 = 100;

/// Hashes until failure domains no longer count, so that not all children are passed over.
const HASHES_BY_DOMAIN_MAX: u32 = 75;

/// mcrouter's number behind the key of the normal child, which is hashed without it.
const FIRST_SALT: u32 = 1;

impl Route for Failover {
    type Progress = FailoverProgress;

    fn name(&self) -> Option<&'static str> {
        Some("failover")
    }

    fn begin(&self, _: &mut Opening<'_>) -> FirstStep<FailoverProgress> {
        FirstStep::Ask(FailoverProgress::default(), 0, None)
    }

    fn replied<'a>(
        &self,
        progress: &mut FailoverProgress,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        progress.decide(&self.0, scene, reply)
    }

    /// Nearly all requests: a child has answered well.
    #[inline]
    fn is_final(&self, operation: Operation, outcome: Outcome) -> bool {
        self.0.state.is_none() && !self.0.errors.applies(operation, outcome)
    }

    #[inline]
    fn is_first_enough(&self, operation: Operation) -> bool {
        let has_plain_errors =
            || self.0.errors.gets.as_ref().is_none_or(|list| list.iter().all(|outcome| outcome.is_error()));
        let is_get = matches!(operation, Operation::Get | Operation::Gets);
        is_get && self.0.state.is_none() && has_plain_errors()
    }

    /// Every child that is asked after another one gets the tag, also the first one, to which a hash may lead again.
    fn marks(&self, _: u16, marks: Marks) -> Marks {
        Marks { is_tagged: marks.is_tagged || self.0.has_tag, ..marks }
    }

    const IS_FAILOVER: bool = true;
}

impl FailoverSettings {
    /// All children in order, without a limit.
    pub(crate) fn in_order(errors: FailoverErrors) -> FailoverSettings {
        FailoverSettings {
            errors,
            order: FailoverOrder::InOrder,
            tries_max: u32::MAX,
            excluded: Box::default(),
            has_tag: false,
            state: None,
        }
    }
}

impl FailoverErrors {
    /// Whether another child is asked.
    fn applies(&self, operation: Operation, outcome: Outcome) -> bool {
        let list = match operation.class() {
            OperationClass::Get => &self.gets,
            OperationClass::Update => &self.updates,
            OperationClass::Delete => &self.deletes,
            // mcrouter has no list for these.
            OperationClass::Arithmetic | OperationClass::Touch => &None,
        };
        match list {
            Some(list) => list.contains(&outcome),
            None => outcome.is_failover_error(),
        }
    }
}

impl FailoverProgress {
    /// A child has replied.
    fn decide<'a>(
        &mut self,
        settings: &FailoverSettings,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        let is_first = self.others == 0;
        let outcome = reply.outcome;
        if let Some(state) = settings.state {
            let state = scene.state(state);
            let state = scene.choices.failover(state);
            state.note(scene.child, outcome.is_error());
            if is_first {
                state.count_request();
            }
        }
        if !is_first && self.is_last(settings, scene.children)
            || !settings.errors.applies(scene.message.operation, outcome)
        {
            return Decision::Done(reply);
        }
        if is_first {
            self.begin(settings, scene);
        }
        if outcome.is_error() {
            let counted = &mut scene.choices.counted;
            match is_unavailable(outcome) {
                true => counted.unavailable += 1,
                false => counted.failed_over += 1,
            }
        }
        // Nothing was sent: that has cost the server nothing.
        if is_unavailable(outcome) {
            self.note_domain(settings, scene);
        } else {
            if let Some(state) = settings.state
                && !scene.choices.failover(scene.state(state)).allows()
            {
                return Decision::Done(reply);
            }
            self.tries += u32::from(!settings.excluded.contains(&outcome));
        }
        if self.tries >= settings.tries_max || self.is_last(settings, scene.children) {
            return Decision::Done(reply);
        }
        let next = self.next(settings, scene);
        self.others += 1;
        Decision::Ask(next)
    }

    /// Whether no child is left.
    fn is_last(&self, settings: &FailoverSettings, children: &[NodeId]) -> bool {
        let others_max = match (&settings.order, self.order.as_deref()) {
            (FailoverOrder::Deterministic(order), _) => order.asked_max - 1,
            (_, Some(OtherOrder::List(list))) => list.len(),
            _ => children.len() - 1,
        };
        self.others == others_max
    }

    /// The first failure of a request: the order of the other children.
    fn begin(&mut self, settings: &FailoverSettings, scene: &mut Scene<'_>) {
        let key = &scene.message.key;
        let normal = || scene.plan.last_choice(scene.children[0], scene.message.operation, key);
        let order = match &settings.order {
            FailoverOrder::InOrder => return,
            FailoverOrder::LeastFailures(asked_max) => {
                let state = settings.state.expect("it counts failures");
                let mut list = scene.choices.failover(scene.state(state)).by_failures();
                list.truncate(asked_max - 1);
                OtherOrder::List(list)
            }
            FailoverOrder::Rendezvous(hash) => {
                let ranking = hash.ranking(key.routing()).expect("a Rendezvous function");
                let normal = normal().unwrap_or(0);
                let others = ranking.into_iter().filter(|child| *child != normal);
                OtherOrder::List(others.map(|child| child as u16 + 1).collect())
            }
            FailoverOrder::Deterministic(order) => {
                let mut is_used = vec![false; scene.children.len()];
                is_used[0] = true;
                if !order.ignores_normal
                    && let Some(used) = normal().and_then(|normal| is_used.get_mut(normal + 1))
                {
                    *used = true;
                }
                OtherOrder::Hashed(Hashed { salt: FIRST_SALT, is_used, failed_domains: Vec::new(), last: 0 })
            }
        };
        self.order = Some(Box::new(order));
    }

    /// Notes the failure domain of a server that is unavailable.
    fn note_domain(&mut self, settings: &FailoverSettings, scene: &Scene<'_>) {
        if let FailoverOrder::Deterministic(order) = &settings.order
            && order.has_domains
            && let Some(OtherOrder::Hashed(hashed)) = self.order.as_deref_mut()
        {
            let domain = domain_of(scene, usize::from(scene.child));
            if domain != 0 {
                hashed.failed_domains.push(domain);
            }
        }
    }

    fn next(&mut self, settings: &FailoverSettings, scene: &Scene<'_>) -> u16 {
        match (self.order.as_deref_mut(), &settings.order) {
            (Some(OtherOrder::List(list)), _) => list[self.others],
            (Some(OtherOrder::Hashed(hashed)), FailoverOrder::Deterministic(order)) => {
                hashed.next(order, scene) as u16
            }
            _ => self.others as u16 + 1,
        }
    }
}

/// Whether a server is unavailable, or becomes so by this failure.
fn is_unavailable(outcome: Outcome) -> bool {
    use Outcome::{ConnectError, ConnectTimeout, Shutdown, Unavailable};
    matches!(outcome, Unavailable | ConnectError | ConnectTimeout | Shutdown)
}

impl Hashed {
    /// The first child of the next hashes that has not been asked; after too many of them, any.
    fn next(&mut self, order: &DeterministicOrder, scene: &Scene<'_>) -> usize {
        for attempt in 0..=HASHES_MAX {
            self.salt += 1;
            let child = order.hash.select_with(scene.message.key.routing(), self.salt.to_string().as_bytes());
            self.last = child;
            let counts = order.has_domains && attempt <= HASHES_BY_DOMAIN_MAX;
            let has_failed = counts && self.failed_domains.contains(&domain_of(scene, child));
            if !self.is_used[child] && !has_failed {
                break;
            }
        }
        self.is_used[self.last] = true;
        self.last
    }
}

fn domain_of(scene: &Scene<'_>, child: usize) -> u32 {
    scene.plan.failure_domain(scene.children[child], scene.message.operation, &scene.message.key)
}

/// Failovers that the rate does not limit, unless the configuration says how many: mcrouter's number.
const BURST: f64 = 1000.0;

const POLICIES: [&str; 4] =
    ["FailoverInOrderPolicy", "LeastFailuresPolicy", "DeterministicOrderPolicy", "RendezvousPolicy"];

const FAILOVER_LIMIT: Fields = ("a failover_limit", &["burst", "rate"]);

const FAILOVER_ERRORS: Fields = ("failover_errors", &["deletes", "gets", "updates"]);

const FAILOVER_POLICY: Fields = (
    "a failover_policy",
    &[
        "enable_failure_domains",
        "exclude_errors",
        "hash",
        "ignore_normal_reply_index",
        "max_error_tries",
        "max_tries",
        "tags",
        "type",
        "weights",
    ],
);

impl<C: AddRoute<Failover>> RouteForm<C> for Failover {
    const FORM: Fields = (
        "FailoverRoute",
        &[
            "children",
            "enable_lease_pairing",
            "failover_errors",
            "failover_limit",
            "failover_policy",
            "failover_tag",
            "hash",
            "tags",
            "weights",
        ],
    );

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let children = compiler.children(definition)?;
        over(compiler, children, definition)
    }
}

/// A FailoverRoute over these children, with the parameters of an object.
pub(super) fn over(
    compiler: &mut impl AddRoute<Failover>,
    children: Vec<NodeId>,
    definition: RouteDefinition<'_>,
) -> Result<Vec<NodeId>, ConfigError> {
    if children.len() < 2 {
        return compiler.few(children, definition.json());
    }
    let settings = match definition.object()? {
        Some(object) => settings(compiler, &object, children.len())?,
        None => FailoverSettings::in_order(FailoverErrors::default()),
    };
    Ok(vec![compiler.add_route(Failover(Box::new(settings)), children, definition.json())?])
}

/// The parameters of a FailoverRoute over so many children.
pub(super) fn settings(
    compiler: &mut impl Compile,
    object: &Object<'_>,
    children: usize,
) -> Result<FailoverSettings, ConfigError> {
    if let Some(json) = object.get("enable_lease_pairing")
        && json.bool("`enable_lease_pairing`")?
    {
        return Err(json.error("`enable_lease_pairing` is not supported: clients cannot send lease commands"));
    }
    for (name, fields) in [("failover_limit", FAILOVER_LIMIT), ("failover_errors", FAILOVER_ERRORS)] {
        if let Some(part) = object.get(name).and_then(|json| json.object("a part of a failover").ok()) {
            compiler.note_unknown(&part, fields);
        }
    }
    let mut settings = FailoverSettings {
        has_tag: object.bool("failover_tag")?.unwrap_or(false),
        ..FailoverSettings::in_order(failover_errors(object.get("failover_errors"))?)
    };
    if let Some(json) = object.get("failover_policy") {
        policy(compiler, &mut settings, object, json, children)?;
    }
    let limit = object.get("failover_limit").map(failover_limit).transpose()?;
    let counts = matches!(settings.order, FailoverOrder::LeastFailures(_));
    if limit.is_some() || counts {
        let counted = if counts { children } else { 0 };
        settings.state = Some(compiler.add_state(StateSpec::Failover { limit, counted }));
    }
    Ok(settings)
}

fn policy(
    compiler: &mut impl Compile,
    settings: &mut FailoverSettings,
    route: &Object<'_>,
    json: &Json,
    children: usize,
) -> Result<(), ConfigError> {
    let policy = json.object("`failover_policy`")?;
    compiler.note_unknown(&policy, FAILOVER_POLICY);
    let kind = policy.require("type")?;
    settings.order = match kind.string("`type` of a failover_policy")? {
        "FailoverInOrderPolicy" => {
            settings.tries_max =
                tries(compiler, &policy, "max_tries", children)?.unwrap_or(usize::MAX) as u32;
            settings.excluded = excluded(&policy)?;
            FailoverOrder::InOrder
        }
        "LeastFailuresPolicy" => {
            policy.require("max_tries")?;
            FailoverOrder::LeastFailures(tries(compiler, &policy, "max_tries", children)?.unwrap_or(children))
        }
        "DeterministicOrderPolicy" => {
            policy.require("max_tries")?;
            policy.require("max_error_tries")?;
            let asked_max = tries(compiler, &policy, "max_tries", children)?.unwrap_or(children);
            let tries = tries(compiler, &policy, "max_error_tries", asked_max)?.unwrap_or(asked_max);
            settings.tries_max = tries as u32;
            settings.excluded = excluded(&policy)?;
            FailoverOrder::Deterministic(Box::new(DeterministicOrder {
                hash: deterministic_hash(route, &policy, json, children)?,
                asked_max,
                has_domains: policy.bool("enable_failure_domains")?.unwrap_or(false),
                ignores_normal: policy.bool("ignore_normal_reply_index")?.unwrap_or(false),
            }))
        }
        "RendezvousPolicy" => {
            FailoverOrder::Rendezvous(Box::new(rendezvous(route, &policy, json, children)?))
        }
        found => {
            let message = format!("expected one of {}, found policy `{found}`", POLICIES.join(", "));
            return Err(kind.error(message));
        }
    };
    Ok(())
}

/// A number of tries, at most `max`: a larger one is lowered, with a line, as in mcrouter.
fn tries(
    compiler: &mut impl Compile,
    policy: &Object<'_>,
    name: &str,
    max: usize,
) -> Result<Option<usize>, ConfigError> {
    let Some(tries) = policy.integer(name, 1..=i64::from(u32::MAX))? else { return Ok(None) };
    let tries = tries as usize;
    if tries > max {
        compiler.note(format!(
            "`{name}` of a failover_policy is {tries}: taken as {max}, of which there are no more"
        ));
    }
    Ok(Some(tries.min(max)))
}

fn excluded(policy: &Object<'_>) -> Result<Box<[Outcome]>, ConfigError> {
    Ok(policy
        .get("exclude_errors")
        .map(|json| outcomes(json, "`exclude_errors`"))
        .transpose()?
        .unwrap_or_default())
}

/// `failover_limit`. Numbers out of their range are moved into it, as in mcrouter.
fn failover_limit(json: &Json) -> Result<FailoverLimit, ConfigError> {
    const ANY: std::ops::RangeInclusive<f64> = f64::MIN..=f64::INFINITY;
    let object = json.object("`failover_limit`")?;
    let rate = object.require("rate")?.number("`rate` of a failover_limit", ANY)?.clamp(0.0, 1.0);
    let burst =
        object.get("burst").map(|burst| burst.number("`burst` of a failover_limit", ANY)).transpose()?;
    Ok(FailoverLimit { rate, burst: burst.unwrap_or(BURST).max(1.0) })
}

/// The hash of a DeterministicOrderPolicy: `hash` of the route, else of the policy, else Ch3.
fn deterministic_hash(
    route: &Object<'_>,
    policy: &Object<'_>,
    json: &Json,
    children: usize,
) -> Result<Selector, ConfigError> {
    let place = route.get("hash").or_else(|| policy.get("hash"));
    let hash = place.map(|hash| hash.object("`hash` of a DeterministicOrderPolicy")).transpose()?;
    let function = match hash.and_then(|hash| hash.get("hash_func")) {
        None => "Ch3",
        Some(json) => match json.string("`hash_func`")? {
            known @ ("Ch3" | "WeightedCh3") => known,
            found => return Err(json.error(format!("expected Ch3 or WeightedCh3, found `{found}`"))),
        },
    };
    let weights = hash.unwrap_or(*policy).get("weights").map(numbers).transpose()?;
    let description =
        HashDescription { function, salt: "", count: children, weights: weights.as_deref(), tags: None };
    Selector::new(&description).map_err(|error| place.unwrap_or(json).error(error.to_string()))
}

/// The hash of a RendezvousPolicy, over all children but the first.
fn rendezvous(
    route: &Object<'_>,
    policy: &Object<'_>,
    json: &Json,
    children: usize,
) -> Result<Selector, ConfigError> {
    let function = match route.get("hash").and_then(Json::as_str) {
        Some("WeightedRendezvous") => "WeightedRendezvous",
        _ => "Rendezvous",
    };
    let tags = route.get("tags").or_else(|| policy.get("tags")).map(texts).transpose()?;
    let weights = policy.get("weights").map(numbers).transpose()?;
    let description = HashDescription {
        function,
        salt: "",
        count: children - 1,
        weights: weights.as_deref(),
        tags: tags.as_deref(),
    };
    Selector::new(&description).map_err(|error| json.error(error.to_string()))
}

/// `failover_errors`: a list for all operations, or an object of lists.
fn failover_errors(json: Option<&Json>) -> Result<FailoverErrors, ConfigError> {
    let Some(json) = json else { return Ok(FailoverErrors::default()) };
    if let JsonValue::Array(_) = json.value {
        let list = outcomes(json, "`failover_errors`")?;
        let all = || Some(list.clone());
        return Ok(FailoverErrors { gets: all(), updates: all(), deletes: all() });
    }
    let object = json.object("`failover_errors`")?;
    let list = |name| object.get(name).map(|list| outcomes(list, "a list of `failover_errors`")).transpose();
    Ok(FailoverErrors { gets: list("gets")?, updates: list("updates")?, deletes: list("deletes")? })
}

/// A list of errors.
fn outcomes(json: &Json, what: &str) -> Result<Box<[Outcome]>, ConfigError> {
    let outcome = |json: &Json| {
        let name = json.string("the name of an error")?;
        Outcome::by_name(name).ok_or_else(|| json.wrong("the name of an outcome, such as timeout or tko"))
    };
    json.array(what)?.iter().map(outcome).collect()
}
