//! Range queries of Prometheus: expressions for what Evenkeel's servers and routers export, and the answers.

use serde_json::Value;

use super::ServiceSeries;

/// Points that Prometheus gives for one series in one answer (11,000), with some air.
const POINTS_MAX: u64 = 10_000;

/// A figure and the expression for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceFigure {
    /// The name, with its unit at the end: `client_p99_s`, `wait_share`.
    pub name: String,
    /// In Prometheus' language, with a single series as the result.
    pub expression: String,
}

impl ServiceFigure {
    /// Parses `NAME=EXPRESSION`.
    pub fn parse(text: &str) -> Result<ServiceFigure, String> {
        let wrong = || format!("expected NAME=EXPRESSION such as client_p99_s=…, found `{text}`");
        let (name, expression) = text.split_once('=').ok_or_else(wrong)?;
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_right = is_name && !expression.trim().is_empty();
        is_right
            .then(|| ServiceFigure { name: name.to_owned(), expression: expression.to_owned() })
            .ok_or_else(wrong)
    }
}

/// What the three figures of a roll-out are in the metrics of `evenkeel route` and `evenkeel serve`: the time of a reply as a
/// router sees it, the time of a request in a server, and the share of wall clock in which a worker was ready to run and had
/// no CPU. `select` are matchers of labels, such as `job="cache"`; rates are over `step_s`, and five minutes at least.
pub fn usual_figures(select: &str, step_s: u64) -> Vec<ServiceFigure> {
    let window = format!("[{}s]", step_s.max(300));
    let quantile = |family: &str| {
        format!("histogram_quantile(0.99, sum by (le) (rate({family}_bucket{{{select}}}{window})))")
    };
    let comma = if select.is_empty() { "" } else { "," };
    let waits = format!("evenkeel_thread_wait_seconds_total{{thread=~\"worker.*\"{comma}{select}}}");
    let figure = |name: &str, expression| ServiceFigure { name: name.to_owned(), expression };
    vec![
        figure("client_p99_s", quantile("evenkeel_route_server_latency_seconds")),
        figure("server_p99_s", quantile("evenkeel_service_seconds")),
        figure("wait_share", format!("avg(rate({waits}{window}))")),
    ]
}

/// The paths of the requests for a figure from one second to another, in order.
pub fn paths(figure: &ServiceFigure, from_unix_s: u64, to_unix_s: u64, step_s: u64) -> Vec<String> {
    let step_s = step_s.max(1);
    let expression = escaped(&figure.expression);
    let begins = (from_unix_s..=to_unix_s).step_by((step_s * POINTS_MAX) as usize);
    let path = |begin: u64| {
        let end = (begin + step_s * (POINTS_MAX - 1)).min(to_unix_s);
        format!("/api/v1/query_range?query={expression}&start={begin}&end={end}&step={step_s}")
    };
    begins.map(path).collect()
}

/// Bytes that a URL does not take as they are.
fn escaped(text: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The series of a figure, from the answers to its requests. A figure in seconds is kept in microseconds. The error is a
/// clause for people.
pub fn parse_answers(figure: &ServiceFigure, answers: &[String]) -> Result<ServiceSeries, String> {
    let (name, factor) = match figure.name.strip_suffix("_s") {
        Some(what) => (format!("{what}_us"), 1e6),
        None => (figure.name.clone(), 1.0),
    };
    let mut points: Vec<(u64, f64)> = Vec::new();
    for answer in answers {
        points.extend(parse_answer(answer)?.into_iter().map(|(unix_s, value)| (unix_s, value * factor)));
    }
    points.sort_by_key(|(unix_s, _)| *unix_s);
    points.dedup_by_key(|(unix_s, _)| *unix_s);
    Ok(ServiceSeries { name, points })
}

fn parse_answer(answer: &str) -> Result<Vec<(u64, f64)>, String> {
    let json: Value =
        serde_json::from_str(answer).map_err(|error| format!("the answer is not JSON: {error}"))?;
    if json["status"] != "success" {
        let why = json["error"].as_str().unwrap_or("the answer has no `status` that is `success`");
        return Err(why.to_owned());
    }
    let (kind, result) = (&json["data"]["resultType"], &json["data"]["result"]);
    let result = result.as_array().filter(|_| kind == "matrix");
    match result.map(Vec::as_slice) {
        Some([]) => Ok(Vec::new()),
        Some([series]) => {
            let values = series["values"].as_array().ok_or("the answer has a series without `values`")?;
            values.iter().filter_map(|point| parse_point(point).transpose()).collect()
        }
        Some(many) => Err(format!(
            "expected one series, found {}: add them up (`sum(…)`) or take a mean (`avg(…)`)",
            many.len()
        )),
        None => Err("expected a `matrix`, the result of a range query".to_owned()),
    }
}

/// What is not a number was not measured: a quantile of no requests is `NaN`.
fn parse_point(point: &Value) -> Result<Option<(u64, f64)>, String> {
    let parts = point.as_array().filter(|parts| parts.len() == 2);
    let parsed = parts.and_then(|parts| Some((parts[0].as_f64()?, parts[1].as_str()?.parse::<f64>().ok()?)));
    let (unix_s, value) = parsed.ok_or_else(|| format!("expected [seconds, \"value\"], found {point}"))?;
    Ok((unix_s >= 0.0 && crate::record::is_credible(value)).then_some((unix_s as u64, value)))
}
