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
        Row { title: "Requests, as agents tell them", panels: &REQUESTS },
        Row { title: "Hosts: standards, changes, checks", panels: &HOSTS },
        Row { title: "Controllers", panels: &CONTROLLERS },
        Row { title: "Agents", panels: &AGENTS },
    ],
};

const NOW: [Panel; 9] = [
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
        "Changes of hosts halted",
        Figure,
        "none",
        "No further host gets them until a person resumes or undoes them. `evenkeel control tune status` says why.",
        &[Query::new("max(evenkeel_control_host_changes{SCOPE, state=\"halted\"})", "halted")],
    )
    .bad(Bad::From(1.0)),
    Panel::new(
        "Hosts whose standard waits for a person",
        Figure,
        "none",
        "They stay as they are: `evenkeel control status` names the first of them, and why.",
        &[Query::new("max(evenkeel_control_standard_waiting_hosts{SCOPE})", "hosts")],
    )
    .bad(Bad::From(1.0)),
    Panel::new(
        "First certificate to end",
        Figure,
        "s",
        "Agents renew theirs, and those of servers and routers beside them, after two thirds of their life.",
        &[Query::new(
            "min({__name__=~\"evenkeel_control_certificate_end_seconds|evenkeel_agent_certificate_end_seconds|evenkeel_agent_beside_certificate_end_seconds\", SCOPE}) - time()",
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

/// Why a fleet has none of these figures.
const NO_FIGURES: &str = "no agent reads a page of figures of a server or router";

const REQUESTS: [Panel; 9] = [
    Panel::new(
        "Availability of views over an hour",
        Lines,
        "percentunit",
        "Share of clients' requests to the routers of a view that were answered without an error.",
        &[Query::new("min by (view) (evenkeel_control_view_availability{SCOPE})", "{{view}}").empty(NO_FIGURES)],
    )
    .bad(Bad::Below(0.999)),
    Panel::new(
        "Requests and errors by view",
        Lines,
        "ops",
        "Requests of clients to the routers of a view, and errors that clients got.",
        &[
            Query::new("max by (view) (rate(evenkeel_control_view_requests_total{SCOPE}[RATE]))", "{{view}}")
                .empty(NO_FIGURES),
            Query::new("max by (view) (rate(evenkeel_control_view_errors_total{SCOPE}[RATE]))", "{{view}} errors")
                .empty(NO_FIGURES),
        ],
    ),
    Panel::new(
        "Errors by pool",
        Lines,
        "percentunit",
        "Requests of a view's routers to the servers of a pool that were not answered well, and those of them that were not answered in time.",
        &[
            Query::new(
                "max by (view, pool) (rate(evenkeel_control_pool_errors_total{SCOPE}[RATE]) / rate(evenkeel_control_pool_requests_total{SCOPE}[RATE]))",
                "{{view}} {{pool}}",
            )
            .empty(NO_FIGURES),
            Query::new(
                "max by (view, pool) (rate(evenkeel_control_pool_timeouts_total{SCOPE}[RATE]) / rate(evenkeel_control_pool_requests_total{SCOPE}[RATE]))",
                "{{view}} {{pool}} late",
            )
            .empty(NO_FIGURES),
        ],
    ),
    Panel::new(
        "Requests by cluster",
        Lines,
        "ops",
        "Requests to members with a slot of the cluster.",
        &[Query::new("max by (cluster) (rate(evenkeel_control_cluster_requests_total{SCOPE}[RATE]))", "{{cluster}}")
            .empty(NO_FIGURES)],
    ),
    Panel::new(
        "Hit ratio by cluster",
        Lines,
        "percentunit",
        "Gets that found their item. It falls when slots change their members, and comes back as they fill.",
        &[Query::new(
            "max by (cluster) (rate(evenkeel_control_cluster_hits_total{SCOPE}[RATE]) / (rate(evenkeel_control_cluster_hits_total{SCOPE}[RATE]) + rate(evenkeel_control_cluster_misses_total{SCOPE}[RATE])))",
            "{{cluster}}",
        )
        .empty(NO_FIGURES)],
    ),
    Panel::new(
        "Replies that differ from a shadow's",
        Lines,
        "percentunit",
        "Of those that the routers of a view have compared. `evenkeel control shadow report` has them by cluster.",
        &[Query::new(
            "max by (view) (rate(evenkeel_control_shadow_differed_total{SCOPE}[RATE]) / rate(evenkeel_control_shadow_compared_total{SCOPE}[RATE]))",
            "{{view}}",
        )
        .empty("no cluster has a shadow")],
    ),
    Panel::new(
        "Servers and routers that tell figures",
        Lines,
        "none",
        "Fewer than there are: their agents have no `metrics` for them, or the page cannot be read.",
        &[Query::new("max by (kind) (evenkeel_control_figures_members{SCOPE})", "{{kind}}s")],
    ),
    Panel::new(
        "Pages that agents read",
        Lines,
        "ops",
        "Readings of the pages of figures of servers and routers. failed: the page was not whole, or not understood.",
        &[Query::new("sum by (result) (rate(evenkeel_agent_page_reads_total{SCOPE}[RATE]))", "{{result}}")],
    ),
    Panel::new(
        "Views and pools that are not counted",
        Lines,
        "none",
        "Within ten minutes: there are more than a controller keeps.",
        &[Query::new("max(increase(evenkeel_control_figures_left_out_total{SCOPE}[10m]))", "not counted")],
    )
    .bad(Bad::From(1.0)),
];

const HOSTS: [Panel; 6] = [
    Panel::new(
        "Hosts by their standard",
        Stack,
        "none",
        "drifted: something has changed a setting. stepped_aside, refused: look at `evenkeel control status`. Hosts without a standard are not counted.",
        &[Query::new("max by (state) (evenkeel_control_standard_hosts{SCOPE})", "{{state}}")],
    ),
    Panel::new(
        "Changes of hosts",
        Stack,
        "none",
        "Tunings and upgrades on their way. waiting: it is not known that an objective or a gate is fulfilled.",
        &[Query::new("max by (state) (evenkeel_control_host_changes{SCOPE})", "{{state}}")],
    ),
    Panel::new(
        "Hosts of these changes",
        Stack,
        "none",
        "left_out grows: more hosts than expected are silent, frozen or in trouble.",
        &[Query::new("max by (state) (evenkeel_control_host_change_hosts{SCOPE})", "{{state}}")],
    ),
    Panel::new(
        "Checks of hosts",
        Stack,
        "none",
        "Hosts whose tuner has said what limits them (given), and why others have not.",
        &[Query::new("max by (answer) (evenkeel_control_tune_hosts{SCOPE})", "{{answer}}")],
    ),
    Panel::new(
        "Findings of most hosts",
        Table,
        "none",
        "Hosts on which the tuner has found this. `evenkeel control tune check` names them.",
        &[Query::new(
            "topk(15, max by (rule, severity) (evenkeel_control_tune_findings{SCOPE}))",
            "{{rule}} {{severity}}",
        )
        .empty("nothing was found, or agents may not look")],
    ),
    Panel::new(
        "Oldest check of a host",
        Lines,
        "s",
        "Agents look once an hour. One that grows older belongs to a host whose agent is away or may not look any more.",
        &[Query::new("max(evenkeel_control_tune_oldest_check_seconds{SCOPE})", "oldest")
            .empty("no host was checked yet")],
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

const AGENTS: [Panel; 8] = [
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
        "Certificates of servers and routers that end first",
        Lines,
        "s",
        "Time until one ends that an agent renews for the server or router beside it.",
        &[Query::new(
            "bottomk(10, evenkeel_agent_beside_certificate_end_seconds{SCOPE} - time())",
            "{{role}} {{id}} of {{instance}}",
        )],
    )
    .bad(Bad::Below(604_800.0)),
    Panel::new(
        "Certificates that are not there",
        Table,
        "none",
        "Of servers and routers whose agent has to see to it.",
        &[Query::new("evenkeel_agent_beside_certificates_missing{SCOPE} > 0", "{{instance}}").empty("each has its own")],
    ),
    Panel::new(
        "Processes that do not answer",
        Table,
        "none",
        "Controllers and agents whose last scrape has failed.",
        &[Query::new("up{SCOPE} == 0", "{{job}} {{instance}}").empty("all of them answer")],
    ),
];
