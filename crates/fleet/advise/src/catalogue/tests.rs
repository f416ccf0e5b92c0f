//! Catalogues that are read, put over each other and written, and what is refused.

use std::collections::BTreeMap;

use fleet::advise::{CpuArchitecture, HostShape, LocalDiskKind, LocalDisks, ShapePrice};
use stdx::prng::Prng;

use super::*;

const SMALL: &str = r#"
[sources.page]
what = "a page"

[[shape]]
name = "x9.large"
cloud = "aws"
family = "x9"
source = "page"
architecture = "x86_64"
vcpus = 2
threads_per_core = 2
clock_ghz = 3.1
memory_gib = 16
baseline_gbit = 0.75
disks = { count = 2, gb = 475, kind = "nvme" }
prices = [{ region = "r-1", date = "2026-07-20", usd_per_hour = 0.5 }]
"#;

fn small() -> Catalogue {
    Catalogue::parse(SMALL).expect("a catalogue")
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = Catalogue::parse(text).expect_err("it is refused").to_string();
    assert!(error.contains(expected), "{error}");
}

/// With one line of it replaced.
#[track_caller]
fn refused_with(old: &str, new: &str, expected: &str) {
    assert!(SMALL.contains(old), "{old}");
    refused(&SMALL.replace(old, new), expected);
}

#[test]
fn the_built_in_catalogue_is_read_and_written_as_it_is() {
    let built_in = Catalogue::built_in();
    assert_eq!(built_in.to_toml(), include_str!("../../catalogue.toml"));
    for shape in built_in.shapes() {
        let name = &shape.shape.name;
        assert!(!shape.shape.prices.is_empty(), "{name} has no price, so it can never be chosen");
        for origin in shape.origins.values() {
            assert!(built_in.source(origin).is_some(), "{name}: {origin} is no published source");
        }
    }
    let clouds: std::collections::BTreeSet<&str> =
        built_in.shapes().map(|shape| shape.shape.cloud.as_str()).collect();
    assert!(
        clouds.len() >= 2 && built_in.shapes().len() >= 100,
        "{clouds:?}, {} shapes",
        built_in.shapes().len()
    );
}

/// As printed in the reports and by the vendor: a change of a reader must not move them.
#[test]
fn shapes_of_the_2022_report_are_there_with_their_figures() {
    let built_in = Catalogue::built_in();
    let shown = |name: &str| {
        let shape = &built_in.shape(name).expect(name).shape;
        let disks = shape.disks.as_ref().map_or(0.0, |disks| f64::from(disks.count) * disks.gb);
        format!(
            "{} CPUs, {} GiB, {} GB of disk, {:?} Gbit/s",
            shape.vcpus, shape.memory_gib, disks, shape.baseline_gbit
        )
    };
    assert_eq!(shown("r5.2xlarge"), "8 CPUs, 64 GiB, 0 GB of disk, Some(2.5) Gbit/s");
    assert_eq!(shown("c5.2xlarge"), "8 CPUs, 16 GiB, 0 GB of disk, Some(2.5) Gbit/s");
    assert_eq!(shown("r5d.2xlarge"), "8 CPUs, 64 GiB, 300 GB of disk, Some(2.5) Gbit/s");
    assert_eq!(shown("i3.2xlarge"), "8 CPUs, 61 GiB, 1900 GB of disk, Some(2.5) Gbit/s");
    assert_eq!(shown("i3en.2xlarge"), "8 CPUs, 64 GiB, 5000 GB of disk, Some(8.4) Gbit/s");
}

#[test]
fn what_no_source_has_is_unknown_for_every_shape() {
    for shape in Catalogue::built_in().shapes() {
        let unknown: Vec<ShapeFigure> = shape.unknown().collect();
        for figure in [ShapeFigure::PacketsPerS, ShapeFigure::DiskReadIops, ShapeFigure::Connections] {
            assert!(unknown.contains(&figure), "{}: {}", shape.shape.name, figure.as_str());
        }
    }
}

/// The page's own words are tried, and it has a row for every figure.
#[test]
fn the_pages_file_is_accepted_and_its_keys_are_all_keys() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/advise/catalogue.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let own =
        page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a file in the page");
    let mut catalogue = Catalogue::built_in();
    let changes = catalogue.put(own).expect("it is accepted");
    assert!(own.starts_with("# own.toml") && changes.len() == 2 && changes[1].is_new, "{changes:?}");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for figure in ShapeFigure::ALL {
        let key = format!("`{}`", figure.as_str());
        assert!(rows.iter().any(|row| row.contains(&key)), "the page has no row for {key}");
    }
}

#[test]
fn absent_figures_are_unknown_and_not_zero() {
    let catalogue = small();
    let shape = &catalogue.shape("x9.large").expect("it is there").shape;
    assert_eq!((shape.packets_per_s, shape.burst_gbit, shape.connections), (None, None, None));
    assert_eq!(shape.disks, Some(LocalDisks { count: 2, gb: 475.0, kind: LocalDiskKind::Nvme }));
    let without = SMALL.replace("disks = { count = 2, gb = 475, kind = \"nvme\" }\n", "");
    assert_eq!(Catalogue::parse(&without).expect("a catalogue").shapes[0].shape.disks, None);
}

#[test]
fn a_users_file_replaces_what_it_names_and_keeps_the_rest() {
    let mut catalogue = small();
    let own = r#"
[[shape]]
name = "x9.large"
measured = "lab, 2026-12-01"
packets_per_s = 1.2e6
baseline_gbit = 0.7
prices = [{ region = "r-2", date = "2026-12-01", usd_per_hour = 0.4 }]

[[shape]]
name = "blade"
cloud = "own"
family = "blade"
measured = "our rack, 2026-12-01"
architecture = "arm64"
vcpus = 64
threads_per_core = 1
memory_gib = 256
origins = { vcpus = "page" }
"#;
    let changes: Vec<String> =
        catalogue.put(own).expect("it is accepted").iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "x9.large takes baseline_gbit, packets_per_s, the price in r-2 and keeps its other figures",
            "blade is new",
        ]
    );
    let large = catalogue.shape("x9.large").expect("it is there");
    assert_eq!((large.shape.packets_per_s, large.shape.baseline_gbit), (Some(1.2e6), Some(0.7)));
    assert_eq!((large.shape.vcpus, large.shape.prices.len()), (2, 2));
    assert_eq!(large.origin(ShapeFigure::PacketsPerS), Some("measured: lab, 2026-12-01"));
    assert_eq!(large.origin(ShapeFigure::Vcpus), Some("page"));
    assert_eq!(
        (large.price_origin("r-1"), large.price_origin("r-2")),
        (Some("page"), Some("measured: lab, 2026-12-01"))
    );
    let blade = catalogue.shape("blade").expect("it is there");
    assert_eq!(
        (blade.shape.architecture, blade.origin(ShapeFigure::Vcpus)),
        (CpuArchitecture::Arm, Some("page"))
    );
    assert_eq!(Catalogue::parse(&catalogue.to_toml()), Ok(catalogue));
}

#[test]
fn a_price_of_a_region_that_is_there_is_replaced() {
    let mut catalogue = small();
    let own = "[[shape]]\nname = \"x9.large\"\nmeasured = \"our contract\"\n\
        prices = [{ region = \"r-1\", date = \"2026-12-01\", usd_per_hour = 0.3 }]\n";
    catalogue.put(own).expect("it is accepted");
    let prices = &catalogue.shapes[0].shape.prices;
    assert_eq!(prices.len(), 1);
    assert_eq!((prices[0].usd_per_hour, prices[0].date.as_str()), (0.3, "2026-12-01"));
}

#[test]
fn after_an_error_the_catalogue_is_as_before() {
    let mut catalogue = small();
    let own = "[[shape]]\nname = \"x9.large\"\nmeasured = \"lab\"\nclock_ghz = 3\n\
        [[shape]]\nname = \"x9.larger\"\nmeasured = \"lab\"\nclock_ghz = 3\n";
    let error = catalogue.put(own).expect_err("the second shape is new, and has nothing").to_string();
    assert!(
        error.contains("the shape x9.larger: has no cloud\n  hint: a shape that the catalogue does not have"),
        "{error}"
    );
    assert_eq!(catalogue, small());
}

#[test]
fn a_misspelt_key_is_told_with_its_line_and_the_nearest_one() {
    refused_with("clock_ghz", "clock_gzh", "line 13");
    refused_with("clock_ghz", "clock_gzh", "did you mean `clock_ghz`?");
    refused_with("count = 2", "cuont = 2", "did you mean `count`?");
    refused_with("[sources.page]", "[source.page]", "did you mean `sources`?");
    refused_with("source = \"page\"", "source = \"pgae\"", "did you mean \"page\"?");
    let origins = "vcpus = 2\norigins = { vcpu = \"page\" }";
    refused_with(
        "vcpus = 2",
        origins,
        "expected a figure in `origins`, found \"vcpu\"\n  hint: did you mean `vcpus`?",
    );
}

#[test]
fn figures_that_no_host_has_are_refused() {
    refused_with(
        "memory_gib = 16",
        "memory_gib = 0",
        "the shape x9.large: expected memory_gib from 0.25 to 500000, found 0",
    );
    refused_with("memory_gib = 16", "memory_gib = -1", "found -1");
    refused_with("memory_gib = 16", "memory_gib = nan", "found NaN");
    refused_with("memory_gib = 16", "memory_gib = inf", "found inf");
    refused_with("memory_gib = 16\n", "", "has no memory_gib");
    refused_with("vcpus = 2\n", "", "has no vcpus");
    refused_with("vcpus = 2", "vcpus = 0", "expected vcpus from 1 to 10000, found 0");
    refused_with("vcpus = 2", "vcpus = 3", "expected vcpus as a multiple of threads_per_core, found 3 and 2");
    refused_with(
        "threads_per_core = 2",
        "threads_per_core = 0",
        "expected threads_per_core from 1 to 8, found 0",
    );
    refused_with("vcpus = 2", "vcpus = -2", "line 11");
    refused_with("vcpus = 2", "vcpus = 99999999999999999999", "line 11");
    refused_with("clock_ghz = 3.1", "clock_ghz = 3100", "expected clock_ghz from 0.1 to 20, found 3100");
    refused_with(
        "clock_ghz = 3.1",
        "burst_gbit = 0.5",
        "expected burst_gbit of at least baseline_gbit, found 0.5 and 0.75",
    );
    refused_with(
        "usd_per_hour = 0.5",
        "usd_per_hour = 0",
        "expected usd_per_hour from 0.0001 to 100000, found 0",
    );
    refused_with(
        "2026-07-20",
        "20.7.2026",
        "expected the date of a price as 2026-11-30, found \"20.7.2026\"",
    );
    refused_with("2026-07-20", "2026-02-30", "expected the date of a price");
    refused_with("x86_64", "i386", "expected architecture = \"x86_64\" or \"arm64\", found \"i386\"");
    refused_with("nvme", "tape", "expected disks.kind = \"nvme\", \"ssd\" or \"hdd\", found \"tape\"");
    refused_with(", gb = 475", "", "expected disks with count, gb (of each) and kind");
    refused_with("count = 2", "count = 0", "has the size or kind of local disks, and count = 0");
    let iops = "disk_read_iops = 1000\ndisks = { count = 0 }";
    refused_with(
        "disks = { count = 2, gb = 475, kind = \"nvme\" }",
        iops,
        "has disk_read_iops and no local disks",
    );
    refused_with(
        "}]",
        "}, { region = \"r-1\", date = \"2026-07-20\", usd_per_hour = 0.5 }]",
        "has two prices in r-1",
    );
}

#[test]
fn names_and_sources_are_checked() {
    refused(
        &(SMALL.to_owned() + SMALL.split_once("\n\n").expect("two parts").1),
        "the shape x9.large is there twice",
    );
    refused_with("name = \"x9.large\"", "name = \"\"", "expected 1 to 64 letters");
    refused_with("name = \"x9.large\"", "name = \"x 9\"", "found \"x 9\"");
    refused_with("name = \"x9.large\"", "name = \"\\u001b[31m\"", "found \"\\u{1b}[31m\"");
    refused_with(
        "source = \"page\"\n",
        "",
        "expected `source = \"KEY\"` or `measured = \"by what, and when\"`, found neither",
    );
    refused_with(
        "source = \"page\"",
        "source = \"page\"\nmeasured = \"lab\"",
        "has both `source` and `measured`",
    );
    refused_with("source = \"page\"", "measured = \" \"", "expected by what and when it was measured");
    refused_with("what = \"a page\"", "what = \"\"", "the source page: expected `what`");
    let error =
        small().put("[sources.page]\nwhat = \"another page\"\n").expect_err("two meanings").to_string();
    assert!(error.contains("the source page is there already with other words"), "{error}");
    let error =
        small().put("[[shape]]\nname = \"x9.large\"\nmeasured = \"lab\"\n").expect_err("nothing").to_string();
    assert!(error.contains("names no figure"), "{error}");
    let other = "[[shape]]\nname = \"x9.large\"\nmeasured = \"lab\"\ncloud = \"own\"\nvcpus = 4\n";
    let error = small().put(other).expect_err("another cloud").to_string();
    assert!(error.contains("is of the cloud aws in the catalogue below, found own"), "{error}");
}

#[test]
fn hostile_files_end_with_an_error() {
    refused(&" ".repeat(CATALOGUE_LEN_MAX + 1), "at most 16777216 are accepted");
    refused(&format!("x = \"{}\"", "y".repeat(10_000_000)), "understand the catalogue");
    refused("\0", "understand the catalogue");
    refused(&format!("x = {}", "[".repeat(1_000_000)), "understand the catalogue");
    let many: String = (0..=SHAPES_MAX)
        .map(|n| {
            format!("[[shape]]\nname=\"x{n}\"\ncloud=\"c\"\nfamily=\"f\"\nmeasured=\"m\"\narchitecture=\"arm64\"\n\
                vcpus=1\nthreads_per_core=1\nmemory_gib=1\n")
        })
        .collect();
    refused(&many, "the catalogue has 20001 shapes, and at most 20000 are accepted");
}

/// A million shapes are refused before any of them is looked at.
#[test]
fn a_million_shapes_are_refused() {
    refused(&"[[shape]]\nname=\"\"\n".repeat(870_000), "shapes, and at most 20000 are accepted");
}

#[test]
fn any_catalogue_is_read_as_it_was_written() {
    let mut random = Prng::new(7);
    for _ in 0..200 {
        let catalogue = any(&mut random);
        let text = catalogue.to_toml();
        assert_eq!(Catalogue::parse(&text).as_ref(), Ok(&catalogue), "{text}");
    }
}

/// A catalogue of random shapes, with texts that TOML has to quote.
fn any(random: &mut Prng) -> Catalogue {
    let words = ["page", "a \"quoted\" \\ one", "two\nlines", "ä – ≤", "'''", "\"\"\""];
    let mut sources = BTreeMap::new();
    for key in ["a", "b.c", "d-1"] {
        let word = |random: &mut Prng| words[random.below(words.len() as u64) as usize].to_owned();
        let what = word(random);
        let note = maybe(random, word);
        sources.insert(key.to_owned(), FigureSource { what, note, ..FigureSource::default() });
    }
    let shapes = (0..random.below(6)).map(|n| any_shape(random, n)).collect();
    Catalogue { sources, shapes }
}

fn any_shape(random: &mut Prng, n: u64) -> CatalogueShape {
    let threads_per_core = 1 + random.below(2) as u32;
    let baseline_gbit = maybe(random, |random| figure(random, 0.01, 100.0));
    let disks = maybe(random, |random| match random.below(2) {
        0 => LocalDisks { count: 0, gb: 0.0, kind: LocalDiskKind::Nvme },
        _ => LocalDisks { count: 8, gb: figure(random, 1.0, 1e5), kind: LocalDiskKind::Hdd },
    });
    let has_disks = disks.as_ref().is_some_and(|disks| disks.count > 0);
    let shape = HostShape {
        name: format!("x{n}"),
        cloud: "c".into(),
        family: "f".into(),
        architecture: if random.below(2) == 0 { CpuArchitecture::X86 } else { CpuArchitecture::Arm },
        vcpus: threads_per_core * (1 + random.below(64) as u32),
        threads_per_core,
        clock_ghz: maybe(random, |random| figure(random, 0.5, 10.0)),
        memory_gib: figure(random, 0.5, 1e4),
        baseline_gbit,
        burst_gbit: maybe(random, |random| figure(random, 100.0, 200.0)),
        disks,
        packets_per_s: maybe(random, |random| figure(random, 1.0, 1e9)),
        disk_read_iops: maybe(random, |random| figure(random, 1.0, 1e9)).filter(|_| has_disks),
        disk_write_iops: maybe(random, |random| figure(random, 1.0, 1e9)).filter(|_| has_disks),
        disk_bytes_per_s: maybe(random, |random| figure(random, 1e6, 1e12)).filter(|_| has_disks),
        disk_read_p99_us: maybe(random, |random| figure(random, 1.0, 1e5)).filter(|_| has_disks),
        connections: maybe(random, |random| 1 + random.below(1 << 39)),
        prices: (0..random.below(3))
            .map(|n| ShapePrice {
                region: format!("r-{n}"),
                date: "2026-07-20".into(),
                usd_per_hour: figure(random, 0.001, 100.0),
            })
            .collect(),
    };
    let origin = |random: &mut Prng| {
        ["a", "b.c", "d-1", "measured: lab, \"2026\"", "measured: ä"][random.below(5) as usize].to_owned()
    };
    let price_origins = shape.prices.iter().map(|_| origin(random)).collect();
    let known = ShapeFigure::ALL.into_iter().filter(|of| match of {
        ShapeFigure::Architecture
        | ShapeFigure::Vcpus
        | ShapeFigure::ThreadsPerCore
        | ShapeFigure::MemoryGib => true,
        ShapeFigure::ClockGhz => shape.clock_ghz.is_some(),
        ShapeFigure::BaselineGbit => shape.baseline_gbit.is_some(),
        ShapeFigure::BurstGbit => shape.burst_gbit.is_some(),
        ShapeFigure::Disks => shape.disks.is_some(),
        ShapeFigure::PacketsPerS => shape.packets_per_s.is_some(),
        ShapeFigure::DiskReadIops => shape.disk_read_iops.is_some(),
        ShapeFigure::DiskWriteIops => shape.disk_write_iops.is_some(),
        ShapeFigure::DiskBytesPerS => shape.disk_bytes_per_s.is_some(),
        ShapeFigure::DiskReadP99Us => shape.disk_read_p99_us.is_some(),
        ShapeFigure::Connections => shape.connections.is_some(),
    });
    let origins = known.map(|figure| (figure, origin(random))).collect();
    CatalogueShape { origins, price_origins, shape }
}

fn maybe<T>(random: &mut Prng, make: impl Fn(&mut Prng) -> T) -> Option<T> {
    (random.below(2) == 0).then(|| make(random))
}

/// With as many digits as a double has, or few.
fn figure(random: &mut Prng, least: f64, most: f64) -> f64 {
    let share = random.below(1 << 30) as f64 / (1_u64 << 30) as f64;
    let exact = least + (most - least) * share;
    if random.below(2) == 0 { exact } else { exact.ceil().min(most) }
}
