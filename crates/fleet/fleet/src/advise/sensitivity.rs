//! Sensitivity: what the answer would be with one input changed, and within the ranges of all.

use super::answer::{ShapeAdvice, cheapest, for_shape};
use super::inputs::NamedInput;
use super::{AdviceInputs, FigureBasis, HostShape};

/// Each input is made larger and smaller by this share.
pub const CHANGE: f64 = 0.2;

/// The answer with one input changed.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedAnswer {
    /// The cheapest shape.
    pub shape: String,
    /// Its family.
    pub family: String,
    /// How many.
    pub hosts: u32,
    /// What they cost.
    pub usd_per_hour: f64,
}

/// What one input does to the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct InputEffect {
    /// As files spell it.
    pub name: &'static str,
    /// Its value and where that is from.
    pub value: f64,
    /// Its basis.
    pub basis: FigureBasis,
    /// With a fifth less; `None` if nothing carries the workload then.
    pub less: Option<ChangedAnswer>,
    /// With a fifth more.
    pub more: Option<ChangedAnswer>,
    /// Whether one of them has another family.
    pub changes_family: bool,
    /// The larger change of the cost, as a share: 0.2 is a fifth more or less.
    pub cost_change: f64,
    /// The change of the number of hosts between the ends of its range, as a share.
    pub range_change: f64,
    /// How to know it better.
    pub measure: &'static str,
}

/// Effects of all inputs that have any, the largest first.
pub(super) fn effects(
    inputs: &AdviceInputs,
    shapes: &[HostShape],
    region: &str,
    first: &ShapeAdvice,
) -> Vec<InputEffect> {
    let answer = |inputs: &AdviceInputs| {
        cheapest(inputs, shapes, region).map(|found| ChangedAnswer {
            shape: found.shape.name.clone(),
            family: found.shape.family.clone(),
            hosts: found.fit.hosts,
            usd_per_hour: found.usd_per_hour + found.backend_usd_per_hour.unwrap_or(0.0),
        })
    };
    let usual = answer(inputs);
    let count = inputs.clone().figures().len();
    let mut effects = Vec::with_capacity(count);
    for index in 0..count {
        let [less, more] = [1.0 - CHANGE, 1.0 + CHANGE].map(|factor| {
            answer(&changed(inputs, index, |input| {
                (input.figure.value * factor).clamp(input.least, input.most)
            }))
        });
        let of = |answer: &Option<ChangedAnswer>| match (answer, &usual) {
            (Some(answer), Some(usual)) => (answer.usd_per_hour / usual.usd_per_hour - 1.0).abs(),
            _ => f64::INFINITY,
        };
        let differs = |answer: &Option<ChangedAnswer>| {
            answer.as_ref().is_none_or(|answer| answer.family != first.shape.family)
        };
        let (below, above) = ends(inputs, index, first);
        let mut copy = inputs.clone();
        let input = copy.figures().swap_remove(index);
        let effect = InputEffect {
            name: input.name,
            value: input.figure.value,
            basis: input.figure.basis,
            measure: input.measure,
            changes_family: differs(&less) || differs(&more),
            cost_change: of(&less).max(of(&more)),
            range_change: below.abs().max(above.abs()),
            less,
            more,
        };
        if effect.cost_change > 0.0 || effect.range_change > 0.0 || effect.changes_family {
            effects.push(effect);
        }
    }
    effects.sort_by(|one, other| {
        let key = |effect: &InputEffect| (effect.changes_family, effect.cost_change);
        let ((one_changes, one_cost), (other_changes, other_cost)) = (key(one), key(other));
        other_changes.cmp(&one_changes).then(other_cost.total_cmp(&one_cost)).then(one.name.cmp(other.name))
    });
    effects
}

/// The inputs with one of them set to another value.
fn changed(inputs: &AdviceInputs, index: usize, value: impl Fn(&NamedInput<'_>) -> f64) -> AdviceInputs {
    let mut inputs = inputs.clone();
    let input = inputs.figures().swap_remove(index);
    let value = value(&input);
    input.figure.value = value;
    inputs
}

/// How the hosts of one shape change with an input at the ends of its range, as logarithms.
fn ends(inputs: &AdviceInputs, index: usize, of: &ShapeAdvice) -> (f64, f64) {
    let hosts = |value: fn(&NamedInput<'_>) -> f64| {
        let changed = for_shape(&changed(inputs, index, value), &of.shape, &of.price);
        // What no number of hosts carries takes more than a cluster can have.
        let hosts = changed.map_or(f64::from(super::HOSTS_MAX), |found| found.fit.hosts_exact);
        (hosts / of.fit.hosts_exact).ln()
    };
    let (low, high) = (hosts(|input| input.figure.low), hosts(|input| input.figure.high));
    (low.min(high).min(0.0), low.max(high).max(0.0))
}

/// The fewest and the most hosts within the ranges of all inputs. Errors of inputs are independent of each other, so what they do to the
/// logarithm of the count adds up as squares: all of them at their worst end at once would say nothing.
pub(super) fn range_of(inputs: &AdviceInputs, of: &ShapeAdvice) -> (u32, u32) {
    let count = inputs.clone().figures().len();
    let ends: Vec<(f64, f64)> = (0..count).map(|index| ends(inputs, index, of)).collect();
    let fewer = ends.iter().map(|(low, _)| low * low).sum::<f64>().sqrt();
    let more = ends.iter().map(|(_, high)| high * high).sum::<f64>().sqrt();
    let zones = f64::from(inputs.workload.zones);
    let whole = |hosts: f64| (((hosts / zones).ceil().max(1.0) * zones) as u32).min(super::HOSTS_MAX);
    (whole(of.fit.hosts_exact * (-fewer).exp()), whole(of.fit.hosts_exact * more.exp()))
}

/// The input that is worth measuring first: of those that are assumed, the one whose range moves the count most.
pub fn to_measure(effects: &[InputEffect]) -> Option<&InputEffect> {
    let assumed =
        effects.iter().filter(|effect| effect.basis == FigureBasis::Assumed && effect.range_change > 0.0);
    assumed.max_by(|one, other| one.range_change.total_cmp(&other.range_change))
}
