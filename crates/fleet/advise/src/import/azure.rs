//! Sizes of Azure as Kubernetes' autoscaler ships them: CPUs and memory, no prices.

use super::go::{GoKind, GoValue, map_of};
use super::source::{FoundShapes, SourceError, text};
use crate::catalogue::FigureSource;
use crate::catalogue::entry::ShapeEntry;

/// The key of the source.
const KEY: &str = "autoscaler-azure";

/// Shapes of a file.
pub(crate) fn read(bytes: &[u8], version: &str) -> Result<FoundShapes, SourceError> {
    let table = map_of(text(bytes)?, "InstanceTypes")?;
    let mut found = FoundShapes { source: Some((KEY.into(), source(version))), ..FoundShapes::default() };
    for (name, size) in table.entries()? {
        match shape(name, size)? {
            Ok(shape) => found.shapes.push(shape),
            Err(why) => found.notes.push(format!("{}: left out, {why}", family(name))),
        }
    }
    found.notes.sort();
    found.notes.dedup();
    Ok(found)
}

fn source(version: &str) -> FigureSource {
    FigureSource {
        what: "k8s.io/autoscaler/cluster-autoscaler".into(),
        version: Some(version.into()),
        file: Some("cloudprovider/azure/azure_instance_types.go".into()),
        licence: Some("Apache-2.0".into()),
        url: None,
        note: Some(
            "threads of a core are those of the series: 2 of D, E, F and L with hyperthreads, 1 of Arm"
                .into(),
        ),
    }
}

/// A shape; or why it cannot be one, which is no error of the file.
fn shape(name: &str, size: &GoValue) -> Result<Result<ShapeEntry, String>, SourceError> {
    let mut figures = [("VCPU", None), ("MemoryMb", None), ("GPU", None)];
    // Older tables do not have it; a name does.
    let mut is_arm = is_arm(name);
    for (key, value) in size.entries()? {
        match (key.as_str(), &value.kind) {
            ("InstanceType" | "SkuFamily", GoKind::Text(_)) => {}
            ("Architecture", GoKind::Text(architecture)) => {
                is_arm = match architecture.as_str() {
                    "amd64" => false,
                    "arm64" => true,
                    _ => return Err(value.unexpected("\"amd64\" or \"arm64\"")),
                };
            }
            (key, _) => match figures.iter_mut().find(|(known, _)| *known == key) {
                Some((_, figure)) => *figure = Some(value.number()?),
                None => {
                    let expected = "InstanceType, SkuFamily, VCPU, MemoryMb, GPU or Architecture";
                    let found = format!("`{key}`");
                    return Err(SourceError::Line { line: value.line, expected: expected.into(), found });
                }
            },
        }
    }
    let [vcpus, memory_mib, gpus] = figures.map(|(_, figure)| figure);
    // Older tables have 0 where the size was not known.
    let (Some(vcpus), Some(memory_mib)) = (vcpus.filter(|n| *n > 0.0), memory_mib.filter(|n| *n > 0.0))
    else {
        return Ok(Err("the table does not know CPUs or memory of all its sizes".into()));
    };
    if gpus.is_some_and(|gpus| gpus > 0.0) {
        return Ok(Err("it has GPUs".into()));
    }
    if vcpus.fract() != 0.0 || vcpus > 10_000.0 {
        return Err(SourceError::Line {
            line: size.line,
            expected: "VCPU as a whole number up to 10000".into(),
            found: vcpus.to_string(),
        });
    }
    let vcpus = vcpus as u32;
    let threads_per_core = if is_arm { Some(1) } else { has_hyperthreads(&family(name)).then_some(2) };
    let Some(threads_per_core) = threads_per_core.filter(|threads| vcpus.is_multiple_of(*threads)) else {
        return Ok(Err("the table does not say whether its CPUs are threads of one core".into()));
    };
    Ok(Ok(ShapeEntry {
        name: name.into(),
        cloud: Some("azure".into()),
        family: Some(family(name)),
        source: Some(KEY.into()),
        architecture: Some(if is_arm { "arm64" } else { "x86_64" }.into()),
        vcpus: Some(vcpus),
        threads_per_core: Some(threads_per_core),
        memory_gib: Some(memory_mib / 1024.0),
        ..ShapeEntry::default()
    }))
}

/// `Standard_Eds_v5` of `Standard_E8ds_v5`, also of `Standard_E8-4ds_v5` with fewer CPUs.
fn family(name: &str) -> String {
    let (tier, size) = name.split_once('_').unwrap_or(("", name));
    let letters = size.find(|letter: char| letter.is_ascii_digit()).unwrap_or(size.len());
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '-';
    format!("{tier}_{}{}", &size[..letters], size[letters..].trim_start_matches(is_number))
}

/// Series of which Azure documents that two CPUs are the threads of one core. The table does not say it, older series and some of the
/// newest have a core for each CPU.
fn has_hyperthreads(family: &str) -> bool {
    let Some((letters, version)) = family.strip_prefix("Standard_").and_then(|series| series.split_once('_'))
    else {
        return false;
    };
    match letters.as_bytes().first() {
        Some(b'D' | b'E') if !letters.starts_with("DC") && !letters.starts_with("EC") => {
            matches!(version, "v3" | "v4" | "v5")
        }
        Some(b'F') => letters == "Fs" && version == "v2",
        Some(b'L') => matches!(version, "v2" | "v3"),
        _ => false,
    }
}

/// A `p` among the letters behind the number, in Azure's naming: `Standard_E8pds_v5`.
fn is_arm(name: &str) -> bool {
    let size = name.split('_').nth(1).unwrap_or_default();
    let digits = size.find(|letter: char| letter.is_ascii_digit()).unwrap_or(size.len());
    size[digits..].contains('p')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(sizes: &str) -> String {
        format!("package azure\nvar InstanceTypes = map[string]*InstanceType{{\n{sizes}\n}}\n")
    }

    fn size(name: &str, vcpus: &str, memory: &str) -> String {
        format!("\"{name}\": {{InstanceType: \"{name}\", VCPU: {vcpus}, MemoryMb: {memory}, GPU: 0}},\n")
    }

    #[track_caller]
    fn check(sizes: &str, expected: &str) {
        let shown = match read(table(sizes).as_bytes(), "1") {
            Ok(found) => {
                let shapes = found.shapes.iter().map(|shape| {
                    format!(
                        "{} {} {} {:?} {:?} {:?}",
                        shape.name,
                        shape.family.as_deref().unwrap_or_default(),
                        shape.architecture.as_deref().unwrap_or_default(),
                        shape.vcpus,
                        shape.threads_per_core,
                        shape.memory_gib
                    )
                });
                shapes.chain(found.notes.iter().cloned()).collect::<Vec<_>>().join("\n")
            }
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn sizes_become_shapes_of_their_series() {
        check(
            &size("Standard_E8ds_v5", "8", "65536"),
            "Standard_E8ds_v5 Standard_Eds_v5 x86_64 Some(8) Some(2) Some(64.0)",
        );
        check(&size("Standard_E8-4ds_v5", "8", "65536"), " Standard_Eds_v5 ");
        check(
            "\"Standard_L8s_v3\": {SkuFamily: \"l\", VCPU: 8, MemoryMb: 65536, Architecture: \"amd64\"},",
            "Standard_L8s_v3 Standard_Ls_v3 x86_64 Some(8) Some(2) Some(64.0)",
        );
        check(
            "\"Standard_E8x_v5\": {VCPU: 8, MemoryMb: 65536, Architecture: \"arm64\"},",
            " arm64 Some(8) Some(1) ",
        );
        let unknown = "left out, the table does not say whether its CPUs are threads of one core";
        check(&size("Standard_A8_v2", "8", "16384"), &format!("Standard_A_v2: {unknown}"));
        check(&size("Standard_DC8s_v3", "8", "65536"), unknown);
        check(&size("Standard_E7_v5", "7", "65536"), unknown);
        check(&size("Standard_E8pds_v5", "8", "65536"), " Standard_Epds_v5 arm64 Some(8) Some(1) ");
    }

    #[test]
    fn a_size_that_the_table_does_not_know_is_left_out_and_told() {
        let why = "left out, the table does not know CPUs or memory";
        check(&size("Standard_F72s_v2", "0", "0"), &format!("Standard_Fs_v2: {why}"));
        check(&size("Standard_F72s_v2", "72", "0"), why);
        check("\"Standard_F4\": {VCPU: 4},", why);
        check("\"Standard_N4\": {VCPU: 4, MemoryMb: 1024, GPU: 1},", "left out, it has GPUs");
    }

    #[test]
    fn fields_that_are_not_known_are_refused_with_their_line() {
        check(
            "\"S_F4\": {VCPU: 4,\nCost: 4},",
            "line 4: expected InstanceType, SkuFamily, VCPU, MemoryMb, GPU or Architecture, found `Cost`",
        );
        check(&size("S_F4", "\"4\"", "1"), "line 3: expected a number, found \"4\"");
        check(&size("S_F4", "4.5", "1"), "expected VCPU as a whole number up to 10000, found 4.5");
        check("\"S_F4\": {Architecture: \"vax\"},", "line 3: expected \"amd64\" or \"arm64\", found \"vax\"");
        check("\"S_F4\": 4,", "line 3: expected a literal in braces, found 4");
    }
}
