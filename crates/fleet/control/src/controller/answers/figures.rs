//! The document of figures: points of servers and routers, and service levels of views and pools.

use std::fmt::Write;

use admin::api::ApiReply;
use fleet::figures::{FigurePoint, LevelRow, MemberPoints, RouterRates, ServerRates};
use fleet::{FleetMember, HostId, ZoneName};
use serde::Serialize;
use stdx::clock::Now;
use stdx::escape;

use super::replies::refusal;
use crate::controller::observing::agents::Agents;
use crate::controller::register_mirror::FleetView;
use crate::service::questions::FiguresQuestion;
use crate::service::turn::RouterReport;

/// Points of an answer to a question for more than the last ones: those of 128 members for half an hour, 5 MB of JSON.
const POINTS_MAX: usize = 120 * 128;

/// Where figures come from, and the moment.
pub(crate) struct FiguresSource<'c> {
    pub(crate) controller: &'c HostId,
    pub(crate) view: &'c FleetView,
    pub(crate) agents: &'c Agents,
    pub(crate) now: Now,
    pub(crate) unix_s: i64,
}

#[derive(Serialize)]
struct FiguresDocument<'c> {
    unix_s: i64,
    /// The host of the controller that answers: pages at an address of one host are reached from there.
    controller: &'c HostId,
    servers: Vec<ServerRow<'c>>,
    routers: Vec<RouterRow<'c>>,
    levels: Vec<LevelFields<'c>>,
    levels_left_out: u64,
    text: String,
}

#[derive(Serialize)]
struct ServerRow<'c> {
    id: &'c str,
    host: &'c HostId,
    zone: &'c ZoneName,
    cluster: Option<&'c str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<&'c str>,
    points: Vec<ServerPoint>,
}

#[derive(Serialize)]
struct ServerPoint {
    at_unix: i64,
    age_s: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hit_ratio: Option<f64>,
    #[serde(flatten)]
    rates: ServerRates,
}

#[derive(Serialize)]
struct RouterRow<'c> {
    id: &'c str,
    host: &'c HostId,
    zone: &'c ZoneName,
    view: &'c str,
    loaded: Option<&'c fleet::TextDigest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<&'c str>,
    points: Vec<RouterPoint>,
}

#[derive(Serialize)]
struct RouterPoint {
    at_unix: i64,
    age_s: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    availability: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hit_ratio: Option<f64>,
    #[serde(flatten)]
    rates: RouterRates,
}

/// A service level, for programs.
#[derive(Serialize)]
pub(crate) struct LevelFields<'c> {
    view: &'c str,
    pool: Option<&'c str>,
    requests_per_s: Option<f64>,
    availability_5min: Option<f64>,
    availability_1h: Option<f64>,
    availability_24h: Option<f64>,
    failovers_5min: Option<f64>,
    failovers_1h: Option<f64>,
    failovers_24h: Option<f64>,
}

/// The answer to a question.
pub(crate) fn figures(source: &FiguresSource<'_>, question: &FiguresQuestion) -> ApiReply {
    let members = || source.view.inventory().members().filter(|member| source.is_asked(question, member));
    let named = || {
        let all = source.agents.iter().flat_map(|(host, record)| {
            record.report().routers.iter().map(move |router| (host, &record.report().zone, router))
        });
        all.filter(|(host, _, router)| question.names_router(host, router))
    };
    if let Some(found) = source.too_many(question, members(), named().map(|(.., router)| router)) {
        let expected = format!("expected {POINTS_MAX} points at most, found {found}");
        return refusal(422, &format!("{expected}\n  hint: ask for a member, a host or a later time"));
    }
    let servers: Vec<ServerRow<'_>> =
        members().filter_map(|member| source.server(question, member)).collect();
    let routers = named().filter_map(|(host, zone, router)| source.router(question, host, zone, router));
    let routers: Vec<RouterRow<'_>> = routers.collect();
    if servers.is_empty()
        && routers.is_empty()
        && let Some(why) = source.why_none(question)
    {
        return refusal(404, &why);
    }
    let book = source.agents.figures().book();
    // Levels are those of the fleet.
    let levels: Vec<LevelFields<'_>> = match question.is_about_all() {
        true => book.levels(source.now).map(LevelFields::of).collect(),
        false => Vec::new(),
    };
    let text = text(&servers, &routers, &levels);
    let levels_left_out = book.levels_left_out();
    let (unix_s, controller) = (source.unix_s, source.controller);
    let document = FiguresDocument { unix_s, controller, servers, routers, levels, levels_left_out, text };
    match serde_json::to_string(&document) {
        Ok(json) => ApiReply::new(200, json),
        Err(error) => refusal(500, &format!("write figures: {error}")),
    }
}

impl FiguresQuestion {
    fn is_about_all(&self) -> bool {
        self.member.is_none() && self.host.is_none() && self.cluster.is_none() && !self.is_of_routers
    }

    fn names_router(&self, host: &HostId, router: &RouterReport) -> bool {
        // Routers have no cluster.
        self.cluster.is_none()
            && self.host.as_ref().is_none_or(|asked| asked == host)
            && self.member.as_ref().is_none_or(|asked| asked.as_str() == router.router.as_str())
    }
}

impl<'c> FiguresSource<'c> {
    fn is_asked(&self, question: &FiguresQuestion, member: &FleetMember) -> bool {
        let is_of = |asked: &fleet::ClusterName| {
            self.view.slot_of(&member.id).is_some_and(|(cluster, _)| cluster.name == *asked)
        };
        !question.is_of_routers
            && question.member.as_ref().is_none_or(|asked| *asked == member.id)
            && question.host.as_ref().is_none_or(|asked| *asked == member.host)
            && question.cluster.as_ref().is_none_or(is_of)
    }

    fn server(&self, question: &FiguresQuestion, member: &'c FleetMember) -> Option<ServerRow<'c>> {
        let points = self.agents.figures().book().server(&member.id)?;
        let point = |point: &FigurePoint| {
            let (rates, age_s) = (point.server(), self.age_s(point));
            ServerPoint { at_unix: self.unix_s - age_s, age_s, hit_ratio: rates.hit_ratio(), rates }
        };
        let cluster = self.view.slot_of(&member.id).map(|(cluster, _)| cluster.name.as_str());
        let points = self.asked(question, points).map(point).collect();
        let said = self.agents.get(&member.host).map(|record| &record.report().members);
        let said = said.and_then(|members| members.iter().find(|said| said.member == member.id));
        let page = said.and_then(|said| said.page.as_deref());
        let id = member.id.as_str();
        Some(ServerRow { id, host: &member.host, zone: &member.zone, cluster, page, points })
    }

    fn router(
        &self,
        question: &FiguresQuestion,
        host: &'c HostId,
        zone: &'c ZoneName,
        router: &'c RouterReport,
    ) -> Option<RouterRow<'c>> {
        let points = self.agents.figures().book().router(&router.router)?;
        let point = |point: &FigurePoint| {
            let (rates, age_s) = (point.router(), self.age_s(point));
            let (availability, hit_ratio) = (rates.availability(), rates.hit_ratio());
            RouterPoint { at_unix: self.unix_s - age_s, age_s, availability, hit_ratio, rates }
        };
        let loaded = router.loaded.as_ref();
        let points = self.asked(question, points).map(point).collect();
        let (id, view) = (router.router.as_str(), router.view.as_str());
        Some(RouterRow { id, host, zone, view, loaded, page: router.page.as_deref(), points })
    }

    /// How many points are asked for, if they are too many. They are counted before any is written: those of a large fleet are millions.
    fn too_many<'p>(
        &'p self,
        question: &FiguresQuestion,
        members: impl Iterator<Item = &'p FleetMember>,
        routers: impl Iterator<Item = &'p RouterReport>,
    ) -> Option<usize> {
        question.since_unix?;
        let book = self.agents.figures().book();
        let of_servers = members.filter_map(|member| book.server(&member.id));
        let of_routers = routers.filter_map(|router| book.router(&router.router));
        let found = of_servers.chain(of_routers).map(|points| self.asked(question, points).count()).sum();
        (found > POINTS_MAX).then_some(found)
    }

    /// Points since the time that is asked for; without one, the last.
    fn asked<'p>(
        &self,
        question: &FiguresQuestion,
        points: &'p MemberPoints,
    ) -> impl Iterator<Item = &'p FigurePoint> {
        let last = question.since_unix.is_none().then(|| points.latest());
        let max_age_s = question.since_unix.map_or(-1, |since| self.unix_s.saturating_sub(since));
        let now_s = self.now.ms() / 1000;
        let is_asked =
            move |point: &&FigurePoint| now_s.saturating_sub(point.at_s().into()).cast_signed() <= max_age_s;
        last.into_iter().chain(points.iter().filter(is_asked))
    }

    fn age_s(&self, point: &FigurePoint) -> i64 {
        (self.now.ms() / 1000).saturating_sub(point.at_s().into()).cast_signed()
    }

    /// Why there is nothing of what is named; none if it is there and has nothing to show.
    fn why_none(&self, question: &FiguresQuestion) -> Option<String> {
        const LISTED: &str = "hint: `control status` lists them";
        let inventory = self.view.inventory();
        if let Some(member) = &question.member {
            let is_router = self.agents.routers().any(|router| router.router.as_str() == member.as_str());
            return Some(match inventory.get(member).is_some() || is_router {
                true => format!(
                    "nothing was heard of {member} yet: an agent tells figures with its turn, every 15 s"
                ),
                false => format!("there is no server or router {member}\n  {LISTED}"),
            });
        }
        if let Some(host) = &question.host {
            let is_known =
                inventory.members().any(|member| member.host == *host) || self.agents.get(host).is_some();
            return (!is_known).then(|| format!("there is no host {host}"));
        }
        let cluster = question.cluster.as_ref()?;
        let is_known = self.view.current().is_some_and(|current| current.content.cluster(cluster).is_some());
        (!is_known).then(|| format!("there is no cluster {cluster}\n  {LISTED}"))
    }
}

impl<'c> LevelFields<'c> {
    pub(crate) fn of(row: LevelRow<'c>) -> LevelFields<'c> {
        LevelFields {
            view: row.view.as_str(),
            pool: row.pool,
            requests_per_s: row.requests_per_s.map(rounded),
            availability_5min: row.availability_5min,
            availability_1h: row.availability_1h,
            availability_24h: row.availability_24h,
            failovers_5min: row.failovers_5min,
            failovers_1h: row.failovers_1h,
            failovers_24h: row.failovers_24h,
        }
    }
}

/// Thousandths of a request are no figure.
fn rounded(rate: f64) -> f64 {
    (rate * 1000.0).round() / 1000.0
}

/// What is not known.
const UNKNOWN: &str = "–";

fn number(value: Option<f64>) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(value) if value > 0.0 && value < 10.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.0}"),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or(UNKNOWN.to_owned(), |share| format!("{:.2} %", share * 100.0))
}

/// Of availability, the last digits matter.
fn availability(share: Option<f64>) -> String {
    share.map_or(UNKNOWN.to_owned(), |share| format!("{:.4} %", share * 100.0))
}

fn text(servers: &[ServerRow<'_>], routers: &[RouterRow<'_>], levels: &[LevelFields<'_>]) -> String {
    let mut text = String::new();
    let written = write_levels(&mut text, levels)
        .and_then(|()| write_routers(&mut text, routers))
        .and_then(|()| write_servers(&mut text, servers));
    written.expect("writing to memory does not fail");
    if text.is_empty() {
        text.push_str("no figures yet: agents tell them with their turns, every 15 s\n");
    }
    text
}

fn write_levels(text: &mut String, levels: &[LevelFields<'_>]) -> std::fmt::Result {
    if levels.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "{:<16} {:<20} {:>11} {:>11} {:>11} {:>11}",
        "VIEW", "POOL", "reqs/s", "5 min", "1 h", "24 h"
    )?;
    levels.iter().try_for_each(|level| {
        let pool = level.pool.map_or("all requests".into(), escape::line);
        let [now, hour, day] =
            [level.availability_5min, level.availability_1h, level.availability_24h].map(availability);
        let rate = number(level.requests_per_s);
        writeln!(text, "{:<16} {pool:<20} {rate:>11} {now:>11} {hour:>11} {day:>11}", level.view)
    })
}

fn write_routers(text: &mut String, routers: &[RouterRow<'_>]) -> std::fmt::Result {
    if routers.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "{:<20} {:>6} {:>11} {:>9} {:>9} {:>5} {:>10} {:>7} {:>8}",
        "ROUTER", "AGE", "reqs/s", "hits", "p99 < µs", "TKO", "errors/s", "CPU", "clients"
    )?;
    for row in routers {
        for RouterPoint { age_s, hit_ratio, rates, .. } in &row.points {
            writeln!(
                text,
                "{:<20} {:>6} {:>11} {:>9} {:>9} {:>5} {:>10} {:>7} {:>8}",
                row.id,
                format!("{age_s} s"),
                number(rates.requests_per_s),
                percent(*hit_ratio),
                number(rates.reply_p99_us),
                number(rates.unavailable_servers),
                number(rates.errors_per_s),
                number(rates.cpus),
                number(rates.clients),
            )?;
        }
    }
    Ok(())
}

fn write_servers(text: &mut String, servers: &[ServerRow<'_>]) -> std::fmt::Result {
    if servers.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "{:<20} {:>6} {:>11} {:>9} {:>9} {:>7} {:>9} {:>8} {:>9}",
        "SERVER", "AGE", "reqs/s", "hits", "p99 < µs", "CPU", "memory", "clients", "evict/s"
    )?;
    for row in servers {
        for ServerPoint { age_s, hit_ratio, rates, .. } in &row.points {
            writeln!(
                text,
                "{:<20} {:>6} {:>11} {:>9} {:>9} {:>7} {:>9} {:>8} {:>9}",
                row.id,
                format!("{age_s} s"),
                number(rates.requests_per_s),
                percent(*hit_ratio),
                number(rates.service_p99_us),
                number(rates.cpus),
                percent(rates.memory_share()),
                number(rates.connections),
                number(rates.evictions_per_s),
            )?;
        }
    }
    Ok(())
}
