//! A dashboard as the JSON that Grafana imports (schema version 39, Grafana 11).
//!
//! Data source, jobs, instances and pools are variables, so that the file fits any installation without an edit.

use serde_json::{Map, Value, json};

use super::table::{Bad, Dashboard, Feature, Panel, PanelKind, Query};

/// Grafana's pages have so many columns.
const COLUMNS: u64 = 24;

/// A dashboard's text.
pub(super) fn json(dashboard: &Dashboard) -> String {
    let mut panels = Vec::new();
    let mut shelf = Shelf::default();
    for row in dashboard.rows {
        let place = shelf.line();
        panels.push(json!({
            "id": panels.len() + 1, "type": "row", "title": row.title, "collapsed": false, "panels": [], "gridPos": place,
        }));
        for panel in row.panels {
            let place = shelf.place(panel);
            panels.push(panel_json(panel, panels.len() + 1, place));
        }
    }
    let page = json!({
        "uid": format!("evenkeel-{}", dashboard.name), "id": null, "title": dashboard.title, "tags": ["evenkeel"],
        "schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1,
        "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser",
        "annotations": {"list": []}, "templating": {"list": variables(dashboard)}, "panels": panels,
        "links": [{
            "type": "dashboards", "tags": ["evenkeel"], "title": "Evenkeel", "asDropdown": true,
            "includeVars": false, "keepTime": true, "targetBlank": false, "icon": "external link", "url": "", "tooltip": "",
        }],
    });
    format!("{page:#}\n")
}

/// Where the next panel goes.
#[derive(Default)]
struct Shelf {
    x: u64,
    y: u64,
    /// Below everything so far.
    end: u64,
    /// Right of the last panel that reaches down to `end`: small panels go on there.
    beside: u64,
}

impl Shelf {
    /// A row's heading.
    fn line(&mut self) -> Value {
        let place = json!({"x": 0, "y": self.end, "w": COLUMNS, "h": 1});
        *self = Shelf { x: 0, y: self.end + 1, end: self.end + 1, beside: 0 };
        place
    }

    fn place(&mut self, panel: &Panel) -> Value {
        let (width, height) = size(panel.kind);
        if self.x + width > COLUMNS {
            let has_room = self.beside > 0 && self.y + 2 * height <= self.end;
            (self.x, self.y) = if has_room { (self.beside, self.y + height) } else { (0, self.end) };
        }
        let place = json!({"x": self.x, "y": self.y, "w": width, "h": height});
        self.x += width;
        if self.y + height >= self.end && panel.kind != PanelKind::Figure {
            self.beside = self.x % COLUMNS;
        }
        self.end = self.end.max(self.y + height);
        place
    }
}

/// Width and height.
fn size(kind: PanelKind) -> (u64, u64) {
    match kind {
        PanelKind::Figure => (4, 4),
        PanelKind::Table => (12, 8),
        PanelKind::Lines | PanelKind::Stack | PanelKind::Heat => (8, 8),
    }
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn variables(dashboard: &Dashboard) -> Vec<Value> {
    let names = dashboard.families.join("|");
    let jobs = format!("label_values({{__name__=~\"{names}\"}}, job)");
    let instances = format!("label_values({{__name__=~\"{names}\", job=~\"$job\"}}, instance)");
    let mut variables = vec![
        json!({
            "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
            "options": [], "hide": 0, "includeAll": false, "multi": false, "refresh": 1, "regex": "",
        }),
        variable("job", "Job", &jobs, None),
        variable("instance", "Instance", &instances, ANY),
    ];
    if dashboard.has_pools {
        let pools = "label_values(evenkeel_route_pool_servers{job=~\"$job\"}, pool)";
        variables.push(variable("pool", "Pool", pools, ANY));
    }
    variables
}

/// The value of "All" where the jobs say already whose series they are: shorter than a list of all instances.
const ANY: Option<&str> = Some(".+");

/// A variable with the values of a label, of which all are chosen at first. Without a value for "All", Grafana lists them, so that
/// `up` of other people's jobs is left out.
fn variable(name: &str, label: &str, query: &str, all: Option<&str>) -> Value {
    let mut variable = json!({
        "name": name, "label": label, "type": "query", "datasource": source(),
        "query": {"query": query, "refId": name}, "includeAll": true, "multi": true,
        "current": {"selected": true, "text": ["All"], "value": ["$__all"]}, "options": [], "hide": 0,
        "refresh": 2, "regex": "", "sort": 1,
    });
    if let Some(all) = all {
        variable["allValue"] = json!(all);
    }
    variable
}

fn panel_json(panel: &Panel, id: usize, place: Value) -> Value {
    let targets: Vec<Value> = panel
        .queries
        .iter()
        .zip('A'..='Z')
        .map(|(query, letter)| target(panel.kind, query, letter))
        .collect();
    let (kind, options) = drawn(panel);
    let mut json = json!({
        "id": id, "type": kind, "title": panel.title, "description": description(panel), "gridPos": place,
        "datasource": source(), "targets": targets, "options": options,
        "fieldConfig": {"defaults": defaults(panel), "overrides": []},
    });
    if panel.kind == PanelKind::Table {
        // Where a series is there at all only if something is wrong, its value says nothing.
        let hides_value = panel.queries.iter().all(|query| query.empty.is_some());
        let hidden = json!({"Time": true, "Value": hides_value, "__name__": true, "alertstate": true});
        json["transformations"] = json!([{"id": "organize", "options": {"excludeByName": hidden}}]);
    }
    json
}

/// What it shows; and why it may be empty, so that nobody takes an empty panel for a fault at night.
fn description(panel: &Panel) -> String {
    let mut text = panel.says.to_owned();
    let mut needed: Vec<Feature> = panel.queries.iter().flat_map(Query::features).collect();
    needed.dedup();
    for feature in needed {
        text += &format!(" Needs {}.", feature.words());
    }
    for reason in panel.queries.iter().filter_map(|query| query.empty) {
        text += &format!(" Empty if {reason}.");
    }
    text
}

fn target(kind: PanelKind, query: &Query, letter: char) -> Value {
    let is_instant = matches!(kind, PanelKind::Figure | PanelKind::Table);
    let format = match kind {
        PanelKind::Heat => "heatmap",
        PanelKind::Table => "table",
        PanelKind::Lines | PanelKind::Stack | PanelKind::Figure => "time_series",
    };
    json!({
        "refId": letter.to_string(), "datasource": source(), "expr": query.expression(), "legendFormat": query.legend,
        "format": format, "instant": is_instant, "range": !is_instant,
    })
}

/// Grafana's name of the picture, and its options.
fn drawn(panel: &Panel) -> (&'static str, Value) {
    match panel.kind {
        PanelKind::Lines | PanelKind::Stack => (
            "timeseries",
            json!({
                "legend": {"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": ["lastNotNull", "max"]},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }),
        ),
        PanelKind::Heat => (
            "heatmap",
            json!({
                "calculate": false, "cellGap": 1, "cellValues": {}, "filterValues": {"le": 1e-9}, "showValue": "never",
                "color": {
                    "mode": "scheme", "scheme": "Oranges", "scale": "exponential", "exponent": 0.5, "steps": 64,
                    "fill": "dark-orange", "reverse": false,
                },
                "yAxis": {"unit": panel.unit, "axisPlacement": "left", "reverse": false}, "rowsFrame": {"layout": "auto"},
                "legend": {"show": true}, "exemplars": {"color": "red"}, "tooltip": {"mode": "single", "yHistogram": true},
            }),
        ),
        PanelKind::Figure => (
            "stat",
            json!({
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false}, "orientation": "auto",
                "colorMode": if panel.bad == Bad::None { "value" } else { "background" }, "graphMode": "none",
                "justifyMode": "auto", "textMode": "auto",
            }),
        ),
        PanelKind::Table => ("table", json!({"showHeader": true, "cellHeight": "sm"})),
    }
}

fn defaults(panel: &Panel) -> Value {
    let mut defaults = Map::new();
    defaults.insert("unit".to_owned(), json!(panel.unit));
    defaults.insert("thresholds".to_owned(), json!({"mode": "absolute", "steps": steps(panel.bad)}));
    match panel.kind {
        PanelKind::Lines | PanelKind::Stack => {
            let stacking = if panel.kind == PanelKind::Stack { "normal" } else { "none" };
            let limits = if panel.bad == Bad::None { "off" } else { "dashed" };
            let custom = json!({
                "drawStyle": "line", "lineWidth": 1, "showPoints": "never", "spanNulls": false,
                "fillOpacity": if panel.kind == PanelKind::Stack { 40 } else { 0 },
                "stacking": {"mode": stacking, "group": "A"}, "thresholdsStyle": {"mode": limits},
            });
            defaults.insert("custom".to_owned(), custom);
            defaults.insert("color".to_owned(), json!({"mode": "palette-classic"}));
            defaults.insert("min".to_owned(), json!(0));
        }
        PanelKind::Figure => drop(defaults.insert("color".to_owned(), json!({"mode": "thresholds"}))),
        PanelKind::Heat | PanelKind::Table => {}
    }
    Value::Object(defaults)
}

/// Colours from the lowest value on; the first has no bound.
fn steps(bad: Bad) -> Value {
    match bad {
        Bad::None => json!([{"color": "text", "value": null}]),
        Bad::From(value) => json!([{"color": "green", "value": null}, {"color": "red", "value": value}]),
        Bad::Below(value) => json!([{"color": "red", "value": null}, {"color": "green", "value": value}]),
    }
}
