//! The answer as JSON. Figures that are not known are null, and never 0.

use fleet::advise::{Advice, ChangedAnswer, ShapeAdvice, UnknownConsequence, to_measure};
use serde_json::{Value, json};

use super::{AdviceQuestion, place};

/// One document, with a line end.
pub fn json(advice: &Advice, asked: &AdviceQuestion<'_>) -> String {
    let document = json!({
        "format": 1,
        "workload": asked.inputs.workload.name,
        "region": asked.region,
        "inputs": inputs(asked),
        "best": advice.best.iter().map(shape).collect::<Vec<Value>>(),
        "curve": advice.curve.iter().map(|point| json!({
            "bytes": point.kept.bytes,
            "hit_ratio": point.kept.hit_ratio,
            "shape": point.shape,
            "hosts": point.hosts,
            "usd_per_hour": point.usd_per_hour,
            "backend_usd_per_hour": point.backend_usd_per_hour,
        })).collect::<Vec<Value>>(),
        "effects": advice.effects.iter().map(|effect| json!({
            "figure": effect.name,
            "value": effect.value,
            "source": effect.basis.as_str(),
            "a_fifth_less": changed(effect.less.as_ref()),
            "a_fifth_more": changed(effect.more.as_ref()),
            "changes_family": effect.changes_family,
            "hosts_factor_in_range": effect.range_change.exp(),
            "measure": effect.measure,
        })).collect::<Vec<Value>>(),
        "measure_first": to_measure(&advice.effects).map(|effect| effect.name),
        "left_out": advice.left_out.iter().map(|left| json!({
            "why": left.why,
            "count": left.count,
            "example": left.example,
        })).collect::<Vec<Value>>(),
    });
    format!("{document:#}\n")
}

fn inputs(asked: &AdviceQuestion<'_>) -> Value {
    let mut inputs = asked.inputs.clone();
    let figures = inputs.figures();
    let figure = |input: &fleet::advise::NamedInput<'_>| {
        let figure = &*input.figure;
        json!({
            "figure": input.name,
            "value": figure.value,
            "low": figure.low,
            "high": figure.high,
            "source": figure.basis.as_str(),
            "from": figure.source,
        })
    };
    figures.iter().map(figure).collect()
}

fn shape(advice: &ShapeAdvice) -> Value {
    json!({
        "shape": advice.shape.name,
        "cloud": advice.shape.cloud,
        "family": advice.shape.family,
        "hosts": advice.fit.hosts,
        "hosts_low": advice.hosts_range.0,
        "hosts_high": advice.hosts_range.1,
        "usd_per_hour": advice.usd_per_hour,
        "usd_per_month": advice.usd_per_month(),
        "price_date": advice.price.date,
        "backend_usd_per_hour": advice.backend_usd_per_hour,
        "items_in": place(advice.fit.place),
        "items": advice.kept.items,
        "hit_ratio": advice.kept.hit_ratio,
        "cpu_ceiling": advice.fit.cpu_ceiling,
        "binds": advice.fit.uses.first().filter(|used| used.hosts.is_some()).map(|used| used.resource.as_str()),
        "resources": advice.fit.uses.iter().map(|used| json!({
            "resource": used.resource.as_str(),
            "need": used.need,
            "host_has": used.limit,
            "hosts": used.hosts,
        })).collect::<Vec<Value>>(),
        "unknown": advice.fit.unknown.iter().map(|unknown| {
            let (needs, taken) = match unknown.consequence {
                UnknownConsequence::Needs(least) => (Some(least), None),
                UnknownConsequence::Taken(value) => (None, Some(value)),
                UnknownConsequence::DoneWithout => (None, None),
            };
            json!({ "what": unknown.what, "host_needs": needs, "taken": taken, "measure": unknown.measure })
        }).collect::<Vec<Value>>(),
    })
}

fn changed(answer: Option<&ChangedAnswer>) -> Value {
    answer.map_or(
        Value::Null,
        |answer| json!({ "shape": answer.shape, "hosts": answer.hosts, "usd_per_hour": answer.usd_per_hour }),
    )
}
