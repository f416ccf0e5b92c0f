//! The answer: the best shapes, what binds, the next one, and how sure that is.

use super::demand::ItemsPlace;
use super::fit::{ShapeFit, Unfit, fit};
use super::sensitivity::{InputEffect, effects, range_of};
use super::{AdviceInputs, HostShape, MONTH_HOURS, ShapePrice, WorkloadError};

/// Shapes of an answer: the best one, and what the next ones cost.
pub const SHAPES_SHOWN: usize = 3;

/// Hosts of one shape, and what they cost.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeAdvice {
    /// Of which shape.
    pub shape: HostShape,
    /// How many, and why.
    pub fit: ShapeFit,
    /// The price that was used.
    pub price: ShapePrice,
    /// Of all of them.
    pub usd_per_hour: f64,
    /// Of the misses that the backend answers, if their cost is known.
    pub backend_usd_per_hour: Option<f64>,
    /// The fewest and the most hosts within the ranges of all inputs.
    pub hosts_range: (u32, u32),
    /// Items that are kept, and the share of hits that they have: another than asked for where the miss curve and the backend's cost
    /// decide.
    pub kept: KeptItems,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeptItems {
    /// Items.
    pub items: f64,
    /// Bytes of their keys and values.
    pub bytes: f64,
    /// The share of keys asked for that are found.
    pub hit_ratio: f64,
}

/// One point of the miss curve with its costs, for the best shape.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveCost {
    /// What is kept.
    pub kept: KeptItems,
    /// By the cheapest shape for it.
    pub shape: String,
    /// How many.
    pub hosts: u32,
    /// Of the hosts.
    pub usd_per_hour: f64,
    /// Of the misses, if their cost is known.
    pub backend_usd_per_hour: Option<f64>,
}

/// Shapes that are not in the answer, by reason.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// In words.
    pub why: String,
    /// How many.
    pub count: usize,
    /// One of them.
    pub example: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The best shapes of different families, the cheapest first. Empty if none can carry the workload.
    pub best: Vec<ShapeAdvice>,
    /// What each input does to the answer, the largest effect first.
    pub effects: Vec<InputEffect>,
    /// The miss curve, if there is one.
    pub curve: Vec<CurveCost>,
    /// Shapes that cannot be chosen.
    pub left_out: Vec<LeftOut>,
}

/// Chooses shapes for a workload.
///
/// # Errors
/// If a figure of the workload is beyond its limit.
pub fn advise(inputs: &AdviceInputs, shapes: &[HostShape], region: &str) -> Result<Advice, WorkloadError> {
    inputs.workload.check()?;
    let candidates = candidates(inputs, shapes, region);
    let mut best = cheapest_of_families(candidates.fitting);
    for advice in &mut best {
        advice.hosts_range = range_of(inputs, advice);
    }
    let effects = best.first().map_or_else(Vec::new, |first| effects(inputs, shapes, region, first));
    Ok(Advice { effects, curve: curve(inputs, shapes, region), left_out: candidates.left_out, best })
}

/// The cheapest shape alone.
pub(super) fn cheapest(inputs: &AdviceInputs, shapes: &[HostShape], region: &str) -> Option<ShapeAdvice> {
    candidates(inputs, shapes, region).fitting.into_iter().next()
}

/// One shape with all that may be kept: the cheapest of them.
pub(super) fn for_shape(
    inputs: &AdviceInputs,
    shape: &HostShape,
    price: &ShapePrice,
) -> Result<ShapeAdvice, Unfit> {
    let mut found: Result<ShapeAdvice, Unfit> = Err(Unfit::NoDisks);
    for inputs in kept_choices(inputs) {
        for place in [ItemsPlace::Memory, ItemsPlace::Flash] {
            let fitted = fit(shape, &inputs, place).map(|fit| priced(&inputs, shape, price, fit));
            // What keeps memory from it is the reason that counts, where flash is out of the question.
            found = match (found, fitted) {
                (Ok(one), Ok(other)) => Ok(if cost(&other) < cost(&one) { other } else { one }),
                (Ok(one), Err(_)) => Ok(one),
                (Err(_), Ok(other)) => Ok(other),
                (Err(Unfit::NoDisks), Err(why)) | (Err(why), Err(_)) => Err(why),
            };
        }
    }
    found
}

/// All that is paid.
pub(super) fn cost(advice: &ShapeAdvice) -> f64 {
    advice.usd_per_hour + advice.backend_usd_per_hour.unwrap_or(0.0)
}

struct Candidates {
    fitting: Vec<ShapeAdvice>,
    left_out: Vec<LeftOut>,
}

fn candidates(inputs: &AdviceInputs, shapes: &[HostShape], region: &str) -> Candidates {
    let (mut fitting, mut left_out) = (Vec::new(), Vec::<LeftOut>::new());
    let mut leave_out =
        |why: String, shape: &HostShape| match left_out.iter_mut().find(|left| left.why == why) {
            Some(left) => left.count += 1,
            None => left_out.push(LeftOut { why, count: 1, example: shape.name.clone() }),
        };
    for shape in shapes {
        let Some(price) = shape.price(region) else {
            leave_out(format!("no price in {region}"), shape);
            continue;
        };
        match for_shape(inputs, shape, price) {
            Ok(advice) => fitting.push(advice),
            Err(why) => leave_out(in_words(why), shape),
        }
    }
    fitting.sort_by(|one, other| {
        // Of equal costs fewer hosts, then by name.
        let key = |advice: &ShapeAdvice| (cost(advice) * 1e6).round();
        key(one)
            .total_cmp(&key(other))
            .then(one.fit.hosts.cmp(&other.fit.hosts))
            .then(one.shape.name.cmp(&other.shape.name))
    });
    Candidates { fitting, left_out }
}

fn in_words(why: Unfit) -> String {
    match why {
        Unfit::Nothing(resource) => format!("nothing left of its {} for this workload", resource.as_str()),
        Unfit::TooMany => format!("more than {} hosts", super::HOSTS_MAX),
        Unfit::NoDisks => "no local disks".to_owned(),
        Unfit::Connections => "more connections than each host can have".to_owned(),
    }
}

/// The first of each family: other sizes of it cost the same but for rounding.
fn cheapest_of_families(fitting: Vec<ShapeAdvice>) -> Vec<ShapeAdvice> {
    let mut best: Vec<ShapeAdvice> = Vec::new();
    for advice in fitting {
        let is_new = best.iter().all(|other| {
            (&other.shape.cloud, &other.shape.family) != (&advice.shape.cloud, &advice.shape.family)
        });
        if is_new && best.len() < SHAPES_SHOWN {
            best.push(advice);
        }
    }
    best
}

fn priced(inputs: &AdviceInputs, shape: &HostShape, price: &ShapePrice, fit: ShapeFit) -> ShapeAdvice {
    let workload = &inputs.workload;
    let hosts = fit.hosts;
    ShapeAdvice {
        usd_per_hour: f64::from(hosts) * price.usd_per_hour,
        backend_usd_per_hour: workload.backend_usd_per_million.as_ref().map(|usd| {
            let misses = workload.keys_read() * (1.0 - workload.hit_ratio.value);
            misses * 3600.0 / 1e6 * usd.value
        }),
        shape: shape.clone(),
        price: price.clone(),
        hosts_range: (hosts, hosts),
        kept: kept(inputs),
        fit,
    }
}

fn kept(inputs: &AdviceInputs) -> KeptItems {
    let workload = &inputs.workload;
    let bytes = workload.items.value * (workload.key_bytes.value + workload.value_bytes.value);
    KeptItems { items: workload.items.value, bytes, hit_ratio: workload.hit_ratio.value }
}

/// What may be kept: what is asked for, or with a miss curve and a cost of misses each point of the curve.
fn kept_choices(inputs: &AdviceInputs) -> Vec<AdviceInputs> {
    let workload = &inputs.workload;
    if workload.miss_curve.is_empty() || workload.backend_usd_per_million.is_none() {
        return vec![inputs.clone()];
    }
    workload.miss_curve.iter().map(|point| at_point(inputs, *point)).collect()
}

fn at_point(inputs: &AdviceInputs, (bytes, hit_ratio): (f64, f64)) -> AdviceInputs {
    let mut inputs = inputs.clone();
    let workload = &mut inputs.workload;
    workload.items.value = bytes / (workload.key_bytes.value + workload.value_bytes.value);
    workload.hit_ratio.value = hit_ratio;
    workload.miss_curve.clear();
    inputs
}

/// Each point of the curve, whichever is chosen.
fn curve(inputs: &AdviceInputs, shapes: &[HostShape], region: &str) -> Vec<CurveCost> {
    let points = inputs.workload.miss_curve.iter();
    let costs = points.filter_map(|point| {
        let inputs = at_point(inputs, *point);
        let found = cheapest(&inputs, shapes, region)?;
        Some(CurveCost {
            kept: found.kept,
            shape: found.shape.name.clone(),
            hosts: found.fit.hosts,
            usd_per_hour: found.usd_per_hour,
            backend_usd_per_hour: found.backend_usd_per_hour,
        })
    });
    costs.collect()
}

impl ShapeAdvice {
    /// Of all hosts, in a month of 730 hours.
    pub fn usd_per_month(&self) -> f64 {
        self.usd_per_hour * MONTH_HOURS
    }
}
