//! Failover: whether another child is asked after a reply, and which.
//!
//! A reply that is final for any reason is the answer, so that the error of the last child that was asked is reported.

#[cfg(test)]
mod tests;

use super::reply::FlightReply;
use super::steps::Decision;
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::plan::choices::Choices;
use crate::plan::{DeterministicOrder, FailoverOrder, FailoverSettings, NodeId, RoutePlan};

/// What the decision of a FailoverRoute depends on beside the reply.
pub(super) struct FailoverContext<'c> {
    pub(super) plan: &'c RoutePlan,
    pub(super) children: &'c [NodeId],
    pub(super) key: RoutedKey<'c>,
    pub(super) operation: Operation,
    pub(super) choices: &'c mut Choices,
}

/// How far a FailoverRoute is with a request.
#[derive(Default)]
pub(super) struct FailoverProgress {
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

impl FailoverProgress {
    /// `child` has replied.
    pub(super) fn decide<'a>(
        &mut self,
        settings: &FailoverSettings,
        child: u16,
        reply: FlightReply<'a>,
        mut context: FailoverContext<'_>,
    ) -> Decision<'a> {
        let is_first = self.others == 0;
        let outcome = reply.outcome;
        if let Some(state) = settings.state {
            let state = context.choices.failover(context.plan.state(state));
            state.note(child, outcome.is_error());
            if is_first {
                state.count_request();
            }
        }
        if !is_first && self.is_last(settings, context.children)
            || !settings.errors.applies(context.operation, outcome)
        {
            return Decision::Done(reply);
        }
        if is_first {
            self.begin(settings, &mut context);
        }
        if outcome.is_error() {
            let counted = &mut context.choices.counted;
            match is_unavailable(outcome) {
                true => counted.unavailable += 1,
                false => counted.failed_over += 1,
            }
        }
        // Nothing was sent: that has cost the server nothing.
        if is_unavailable(outcome) {
            self.note_domain(settings, child, &context);
        } else {
            if let Some(state) = settings.state
                && !context.choices.failover(context.plan.state(state)).allows()
            {
                return Decision::Done(reply);
            }
            self.tries += u32::from(!settings.excluded.contains(&outcome));
        }
        if self.tries >= settings.tries_max || self.is_last(settings, context.children) {
            return Decision::Done(reply);
        }
        let next = self.next(settings, &context);
        self.others += 1;
        Decision::Ask(next)
    }

    /// Whether another child than the first has been asked.
    pub(super) fn has_moved_on(&self) -> bool {
        self.others > 0
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
    fn begin(&mut self, settings: &FailoverSettings, context: &mut FailoverContext<'_>) {
        let normal = || context.plan.trace(context.children[0], context.operation, &context.key).index;
        let order = match &settings.order {
            FailoverOrder::InOrder => return,
            FailoverOrder::LeastFailures(asked_max) => {
                let state = settings.state.expect("it counts failures");
                let mut list = context.choices.failover(context.plan.state(state)).by_failures();
                list.truncate(asked_max - 1);
                OtherOrder::List(list)
            }
            FailoverOrder::Rendezvous(hash) => {
                let ranking = hash.ranking(context.key.routing()).expect("a Rendezvous function");
                let normal = normal().unwrap_or(0);
                let others = ranking.into_iter().filter(|child| *child != normal);
                OtherOrder::List(others.map(|child| child as u16 + 1).collect())
            }
            FailoverOrder::Deterministic(order) => {
                let mut is_used = vec![false; context.children.len()];
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
    fn note_domain(&mut self, settings: &FailoverSettings, child: u16, context: &FailoverContext<'_>) {
        if let FailoverOrder::Deterministic(order) = &settings.order
            && order.has_domains
            && let Some(OtherOrder::Hashed(hashed)) = self.order.as_deref_mut()
        {
            let domain = context.domain_of(usize::from(child));
            if domain != 0 {
                hashed.failed_domains.push(domain);
            }
        }
    }

    fn next(&mut self, settings: &FailoverSettings, context: &FailoverContext<'_>) -> u16 {
        match (self.order.as_deref_mut(), &settings.order) {
            (Some(OtherOrder::List(list)), _) => list[self.others],
            (Some(OtherOrder::Hashed(hashed)), FailoverOrder::Deterministic(order)) => {
                hashed.next(order, context) as u16
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
    fn next(&mut self, order: &DeterministicOrder, context: &FailoverContext<'_>) -> usize {
        for attempt in 0..=HASHES_MAX {
            self.salt += 1;
            let child = order.hash.select_with(context.key.routing(), self.salt.to_string().as_bytes());
            self.last = child;
            let counts = order.has_domains && attempt <= HASHES_BY_DOMAIN_MAX;
            let has_failed = counts && self.failed_domains.contains(&context.domain_of(child));
            if !self.is_used[child] && !has_failed {
                break;
            }
        }
        self.is_used[self.last] = true;
        self.last
    }
}

impl FailoverContext<'_> {
    fn domain_of(&self, child: usize) -> u32 {
        self.plan.failure_domain(self.children[child], self.operation, &self.key)
    }
}
