//! Items and commands of a run: from its workload, and from flags that override it.

use crate::types::arrivals::Arrivals;
use crate::types::description::Description;
use crate::types::mix::Mix;
use crate::types::popularity::Popularity;
use crate::types::profiles::PLAIN;
use crate::types::sizes::ItemSizes;
use crate::types::ttl::Ttls;
use std::str::FromStr;

/// Items and commands: from the workload, and from flags that override it.
#[derive(Clone, Debug)]
pub(crate) struct RequestedLoad {
    pub(crate) mix: Mix,
    pub(crate) key_size: ItemSizes,
    pub(crate) value_size: ItemSizes,
    pub(crate) ttl: Ttls,
    pub(crate) popularity: Popularity,
    pub(crate) arrivals: Arrivals,
}

impl RequestedLoad {
    /// Fills in the defaults, so that the result describes the run completely. `Err` names the flags that contradict
    /// each other.
    pub(crate) fn fill(run: &mut Description) -> Result<RequestedLoad, String> {
        let profile = match run.workload {
            None => &PLAIN,
            Some(workload) => workload.profile().ok_or("`list` shows the workloads, it is none")?,
        };
        let of_gets = match run.gets {
            Some(share) if !(0.0..=1.0).contains(&share) => {
                return Err(format!("--gets is a share between 0 and 1, not {share}"));
            }
            // Without the rounding error of floats, in their sixteenth digit.
            Some(share) => Some(format!("get={share},set={}", ((1.0 - share) * 1e12).round() / 1e12)),
            None => None,
        };
        Ok(RequestedLoad {
            mix: or(&mut run.mix, of_gets.as_deref().unwrap_or(profile.mix))?,
            key_size: or(&mut run.key_size, profile.key_size)?,
            value_size: or(&mut run.value_size, profile.value_size)?,
            ttl: or(&mut run.ttl, profile.ttl)?,
            popularity: or(&mut run.popularity, profile.popularity)?,
            arrivals: or(&mut run.arrivals, profile.arrivals)?,
        })
    }
}

/// The flag's value, otherwise the workload's.
fn or<T: Clone + FromStr<Err = String>>(given: &mut Option<T>, otherwise: &str) -> Result<T, String> {
    let value = given.take().map_or_else(|| otherwise.parse(), Ok)?;
    Ok(given.insert(value).clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::part::Part;
    use crate::types::profiles::{PROFILES, Workload, table};
    use crate::workload::plan::RunPlan;

    fn run(line: &str) -> Description {
        Description::of(line.split_ascii_whitespace()).expect(line)
    }

    #[test]
    fn every_workload_can_be_asked_for() {
        for profile in &PROFILES {
            let line = format!("--workload {} --rate 1", profile.name);
            let asked = RequestedLoad::fill(&mut run(&line)).expect(&line);
            let plan = RunPlan::new(&run(&line), Part::WHOLE).expect(&line);
            assert_eq!(plan.asked.key_size, asked.key_size);
            assert_eq!(plan.run.key_size.as_ref(), Some(&asked.key_size), "the run says what it is");
            assert_eq!(plan.run.arrivals, Some(asked.arrivals));
            assert_eq!(asked.popularity.to_string(), profile.popularity);
            assert_eq!(asked.arrivals == Arrivals::Poisson, profile.name != "etc");
            assert!(table().contains(&format!("{} ", profile.name)));
        }
    }

    #[test]
    fn flags_beside_it_override_a_workload() {
        let check = |line: &str, expected: [&str; 5]| {
            let RequestedLoad { mix, key_size, value_size, ttl, popularity, .. } =
                RequestedLoad::fill(&mut run(line)).expect(line);
            let found = [
                mix.shares(),
                key_size.to_string(),
                value_size.to_string(),
                ttl.to_string(),
                popularity.to_string(),
            ];
            assert_eq!(found, expected, "{line}");
        };
        check("", ["get=1", "14", "100", "0", "uniform"]);
        check("--gets 0.9", ["get=0.9,set=0.1", "14", "100", "0", "uniform"]);
        check("--workload etc", ["get=0.9677,set=0.0323", "fb_key", "fb_value", "0", "zipf:0.99"]);
        check("--workload twitter:c15 --ttl 5 --gets 1", ["get=1", "18", "102", "5", "zipf:0.02"]);
        check(
            "--popularity uniform --workload twitter:c18",
            ["get=0.96,set=0.04", "18", "37", "43200", "uniform"],
        );
        assert!(RequestedLoad::fill(&mut run("--workload list")).is_err());
        for bad in ["", "c9", "twitter", "ETC"] {
            assert!(bad.parse::<Workload>().is_err(), "{bad:?}");
        }
    }
}
