//! The dashboard of the control plane: what waits for a person, then controllers, agents and certificates.
//!
//! Controllers have no leader and tell the same of the fleet, so the largest figure of all of them counts, not the sum.

use super::table::PanelKind::{Figure, Lines, Stack, Table};
use super::table::{ALERTS, Bad, Dashboard, Panel, Query, Row};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    name: "fleet",
    title: "Evenkeel / Fleet",
    families: &["evenkeel_control_generation", "evenkeel_agent_turn_age_seconds"],
    has_pools: false,
    rows: &[
        Row { title: "Now", panels: &NOW },
        Row { title: "Members and routers", panels: &MEMBERS },
        Row { title: "Controllers", panels: &CONTROLLERS },
        Row { title: "Agents", panels: &AGENTS },
    ],
};

const NOW: [Panel; 7] = [
    ALERTS,
    Panel::new(
        "Controllers without their register",
        Figure,
        "none",
        "They answer questions and change nothing: nothing that is lost is replaced.",
        &[Query::new("sum(evenkeel_control_register_away{SCOPE})", "controllers")],
    )
    .bad(Bad::From(1.0)),
    Panel::new(
        "Rollout halted",
        Figure,
        "none",
        "1: no further router gets the generation that is on its way. `evenkeel control status` says why.",
        &[Query::new("max(evenkeel_control_rollout_state{SCOPE, state=\"halted\"})", "halted")],
    )
    .bad(Bad::From(1.0)),
    Panel::new(
        "Members lost",
        Figure,
        "none",
        "Members with a slot that do not serve and are not replaced yet.",
        &[Query::new("max(evenkeel_control_members{SCOPE, state=\"lost\"})", "members")],
    )
    .bad(Bad::From(1.0)),
    Panel::new(
        "Spares",
        Figure,
        "none",
        "Members that can take a slot. With none, nothing that is lost is replaced.",
        &[Query::new("max(evenkeel_control_members{SCOPE, state=\"spare\"})", "members")],
    )
    .bad(Bad::Below(1.0)),
    Panel::new(
        "Frozen scopes",
        Figure,
        "none",
        "Clusters, zones or the fleet in which nothing is changed, by a person or by the guard.",
        &[Query::new("max(evenkeel_control_frozen_scopes{SCOPE})", "scopes")],
    )
    .bad(Bad::From(1.0)),
    Panel::new(
        "First certificate to end",
        Figure,
        "s",
        "Agents renew theirs after two thirds of its life.",
        &[Query::new(
            "min({__name__=~\"evenkeel_control_certificate_end_seconds|evenkeel_agent_certificate_end_seconds\", SCOPE}) - time()",
            "left",
        )],
    )
    .bad(Bad::Below(604_800.0)),
];

const MEMBERS: [Panel; 3] = [
    Panel::new(
        "Members by state",
        Stack,
        "none",
        "Members that become suspect together share something: a switch, a rack, a deploy, or an observer.",
        &[Query::new("max by (state) (evenkeel_control_members{SCOPE})", "{{state}}")],
    ),
    Panel::new(
        "Routers by state",
        Stack,
        "none",
        "How far the generation in force is. refusing: the text, or the agent cannot go on.",
        &[Query::new("max by (state) (evenkeel_control_routers{SCOPE})", "{{state}}")],
    ),
    Panel::new(
        "Rollout",
        Stack,
        "none",
        "The state of what is on its way.",
        &[Query::new("max by (state) (evenkeel_control_rollout_state{SCOPE})", "{{state}}")],
    ),
];

const CONTROLLERS: [Panel; 6] = [
    Panel::new(
        "Generation",
        Lines,
        "none",
        "As each controller knows it. One that stays behind does not reach its register.",
        &[Query::new("evenkeel_control_generation{SCOPE}", "{{instance}}")],
    ),
    Panel::new(
        "Decisions",
        Lines,
        "none",
        "Within ten minutes, by kind and result.",
        &[Query::new(
            "sum by (kind, result) (increase(evenkeel_control_decisions_total{SCOPE}[10m]))",
            "{{kind}} {{result}}",
        )
        .empty("nothing was decided since the controllers were started")],
    ),
    Panel::new(
        "Members and hosts in quarantine",
        Lines,
        "none",
        "They take no slot until `evenkeel control thaw member/ID` or `host/ID`.",
        &[Query::new("max(evenkeel_control_quarantined{SCOPE})", "in quarantine")],
    ),
    Panel::new(
        "Age of figures",
        Lines,
        "s",
        "They are counted every 2 s. A controller whose figures grow old does not decide: its thread is held up.",
        &[Query::new("evenkeel_control_figures_age_seconds{SCOPE}", "{{instance}}")],
    )
    .bad(Bad::From(30.0)),
    Panel::new(
        "Refused, and not written down",
        Lines,
        "none",
        "Within ten minutes: requests without a certificate or a right, and acts that the audit log has not taken.",
        &[
            Query::new("sum(increase(evenkeel_control_requests_refused_total{SCOPE}[10m]))", "refused"),
            Query::new("sum(increase(evenkeel_control_audit_failures_total{SCOPE}[10m]))", "not in the audit log"),
        ],
    ),
    Panel::new(
        "Certificates",
        Lines,
        "s",
        "Time until the certificate of a controller ends.",
        &[Query::new("evenkeel_control_certificate_end_seconds{SCOPE} - time()", "{{instance}}")],
    )
    .bad(Bad::Below(604_800.0)),
];

const AGENTS: [Panel; 6] = [
    Panel::new(
        "Agents by state",
        Stack,
        "none",
        "As controllers hear them.",
        &[Query::new("max by (state) (evenkeel_control_agents{SCOPE})", "{{state}}")],
    ),
    Panel::new(
        "Oldest turns",
        Lines,
        "s",
        "Time since a controller has answered an agent, and since the last turn of the agent that is silent for longest. Turns last up to 20 s.",
        &[
            Query::new("topk(10, evenkeel_agent_turn_age_seconds{SCOPE})", "{{instance}}"),
            Query::new("max(evenkeel_control_oldest_turn_seconds{SCOPE})", "oldest, as controllers see it"),
        ],
    )
    .bad(Bad::From(60.0)),
    Panel::new(
        "Turns",
        Lines,
        "ops",
        "Those that controllers took, and those that agents had answered or not.",
        &[
            Query::new("sum(rate(evenkeel_control_turns_total{SCOPE}[RATE]))", "taken"),
            Query::new("sum by (result) (rate(evenkeel_agent_turns_total{SCOPE}[RATE]))", "{{result}}"),
        ],
    ),
    Panel::new(
        "Orders",
        Lines,
        "none",
        "Orders for servers and routers that agents carried out or began, within ten minutes.",
        &[Query::new("sum by (instance) (increase(evenkeel_agent_orders_total{SCOPE}[10m]))", "{{instance}}")],
    ),
    Panel::new(
        "Certificates that end first",
        Lines,
        "s",
        "Time until the certificate of an agent ends.",
        &[Query::new("bottomk(10, evenkeel_agent_certificate_end_seconds{SCOPE} - time())", "{{instance}}")],
    )
    .bad(Bad::Below(604_800.0)),
    Panel::new(
        "Processes that do not answer",
        Table,
        "none",
        "Controllers and agents whose last scrape has failed.",
        &[Query::new("up{SCOPE} == 0", "{{job}} {{instance}}").empty("all of them answer")],
    ),
];
