//! The page about the policy: its example, its keys and its limits.

use fleet::{
    CLUSTERS_MAX, FleetContent, FleetMember, FleetPlanInput, FleetPolicy, GUTTER_EXPTIME_S_MAX, Inventory,
    MEMBERS_MAX, POLICY_LEN_MAX, SLOTS_MAX, VIEWS_MAX, WARM_UP_EXPTIME_S_MAX, plan, texts,
};

const PAGE: &str = include_str!("../../../../docs/control/policy.md");

/// The only block of a language.
#[track_caller]
fn block(language: &str) -> &'static str {
    let opening = format!("```{language}\n");
    let mut parts = PAGE.split(&opening).skip(1);
    let (block, _) = parts.next().and_then(|part| part.split_once("```\n")).expect("a block");
    assert!(parts.next().is_none(), "one block of {language}");
    block
}

fn members() -> Inventory {
    let member = |(number, zone, class): (usize, &str, Option<&str>)| FleetMember {
        id: format!("m{number}").parse().expect("a name"),
        host: format!("h{number}").parse().expect("a name"),
        zone: zone.parse().expect("a name"),
        class: class.map(str::to_owned),
        address: format!("10.0.0.{number}:11211"),
        is_held: false,
    };
    let large = Some("r5.large");
    let list =
        [(1, "a", large), (2, "b", large), (3, "a", large), (4, "c", large), (5, "a", None), (6, "b", None)];
    Inventory::new(list.map(member)).expect("an inventory")
}

#[test]
fn the_example_becomes_the_text_that_the_page_shows() {
    let policy = FleetPolicy::parse(block("toml")).expect("a policy");
    let (inventory, current, excluded) = (members(), FleetContent::default(), fleet::Excluded::new());
    let input =
        FleetPlanInput { policy: &policy, inventory: &inventory, current: &current, excluded: &excluded };
    let content = plan(&input).expect("a plan").content;
    let texts = texts(&content);
    let text = |view: &str| &texts[&view.parse().expect("a name")];
    assert_eq!(text("batch"), block("json"));
    assert!(text("front").contains("// Keys of a dead server"), "{}", text("front"));
    assert!(text("front").contains("\"web\": {\"type\":\"FailoverWithExptimeRoute\""), "{}", text("front"));
}

/// The keys of a table of the policy, from its refusal of another one.
#[track_caller]
fn keys(table: &str) -> Vec<String> {
    let text = format!("fleet = \"f\"\n{table}\nno_such_key = 1\n");
    let error = FleetPolicy::parse(&text).expect_err("it is refused").to_string();
    let (_, accepted) = error.split_once("expected").expect("what is accepted");
    accepted.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_page_has_a_row_for_every_key() {
    let parts = [
        "",
        "[[cluster]]",
        "[[view]]",
        "[[cluster]]\n[cluster.gutter]",
        "[[cluster]]\n[cluster.warm_up]",
        "[[shadow]]",
        "[[tuning]]",
    ];
    let all = parts.map(keys).concat();
    assert_eq!(all.len(), 32, "{all:?}");
    for key in all {
        let rows = [format!("\n| `{key}` |"), format!("\n| `[[{key}]]` |"), format!("\n| `[{key}]` |")];
        assert!(rows.iter().any(|row| PAGE.contains(row)), "{key}");
    }
}

#[test]
fn the_page_has_the_limits() {
    let thousands = |count: usize| format!("{},{:03}", count / 1000, count % 1000);
    let millions =
        |count: usize| format!("{},{:03},{:03}", count / 1_000_000, count / 1000 % 1000, count % 1000);
    for row in [
        format!("| a policy | {} MiB |", POLICY_LEN_MAX >> 20),
        format!("| clusters | {CLUSTERS_MAX} |"),
        format!("| slots of a cluster | 1 to {} |", thousands(SLOTS_MAX)),
        format!("| views | {VIEWS_MAX} |"),
        format!("| `exptime_s` of a gutter | 1 to {} s |", thousands(GUTTER_EXPTIME_S_MAX as usize)),
        format!("| `exptime_s` of a warm-up | 1 to {} s |", millions(WARM_UP_EXPTIME_S_MAX as usize)),
        format!("| members of a fleet | {} |", thousands(MEMBERS_MAX)),
    ] {
        assert!(PAGE.contains(&row), "{row}");
    }
}
