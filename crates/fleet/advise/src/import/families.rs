//! Families of shapes that are asked for: `r5,r6i=large+xlarge`.

use std::collections::BTreeSet;

use crate::catalogue::entry::ShapeEntry;

/// Most families in one request.
const FAMILIES_MAX: usize = 1_000;

/// Families with the sizes of them that are taken; all families if there is none.
pub(crate) struct Families(Vec<(String, Option<Vec<String>>)>);

/// Why families cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FamiliesError {
    /// No list of families.
    #[error("--families: expected FAMILY or FAMILY=SIZE+SIZE, separated by commas, found {0:?}")]
    Form(String),
    /// A list without end.
    #[error("--families: expected at most {FAMILIES_MAX} families, found {0}")]
    TooMany(usize),
    /// One family with two lists of sizes.
    #[error("--families: {0} is there twice")]
    Twice(String),
    /// A family that no file has.
    #[error("--families: no file has the family {family}{}", meant(nearest))]
    NoFamily {
        /// The family.
        family: String,
        /// One that there is.
        nearest: Option<String>,
    },
    /// A size that no shape of the family has.
    #[error("--families: the family {family} has no size {size}{}", meant(nearest))]
    NoSize {
        /// The family.
        family: String,
        /// The size.
        size: String,
        /// One that there is.
        nearest: Option<String>,
    },
}

fn meant(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!("\n  hint: did you mean `{nearest}`?")).unwrap_or_default()
}

impl Families {
    pub(crate) fn parse(text: &str) -> Result<Families, FamiliesError> {
        let mut families: Vec<(String, Option<Vec<String>>)> = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (family, sizes) = match part.split_once('=') {
                Some((family, sizes)) => (family, Some(sizes.split('+').map(str::to_owned).collect())),
                None => (part, None),
            };
            let is_empty = |sizes: &Vec<String>| sizes.iter().any(String::is_empty);
            if family.is_empty() || sizes.as_ref().is_some_and(is_empty) {
                return Err(FamiliesError::Form(part.chars().take(40).collect()));
            }
            if families.iter().any(|(other, _)| other == family) {
                return Err(FamiliesError::Twice(family.to_owned()));
            }
            families.push((family.to_owned(), sizes));
            if families.len() > FAMILIES_MAX {
                return Err(FamiliesError::TooMany(text.split(',').count()));
            }
        }
        Ok(Families(families))
    }

    /// Whether a shape is asked for.
    pub(crate) fn take(&self, shape: &ShapeEntry) -> bool {
        let family = shape.family.as_deref().unwrap_or_default();
        self.0.is_empty()
            || self.0.iter().any(|(name, sizes)| {
                let has_size = |sizes: &Vec<String>| sizes.iter().any(|size| size == size_of(shape));
                name == family && sizes.as_ref().is_none_or(has_size)
            })
    }

    /// Whether a note about a shape, with whose name it begins, is about a family that is asked for.
    pub(crate) fn concerns(&self, note: &str) -> bool {
        let of_family = |family: &str| {
            note.strip_prefix(family).is_some_and(|rest| rest.starts_with(['.', '-', '_', ':']))
        };
        self.0.is_empty() || self.0.iter().any(|(family, _)| of_family(family))
    }

    /// Refuses a family or a size that no file has: it would be missing in the catalogue without a word.
    pub(crate) fn check_all_found(
        &self,
        taken: &[ShapeEntry],
        all: &BTreeSet<String>,
    ) -> Result<(), FamiliesError> {
        for (family, sizes) in &self.0 {
            if !all.contains(family) {
                let nearest = flags::nearest(family, all.iter().map(String::as_str)).map(str::to_owned);
                return Err(FamiliesError::NoFamily { family: family.clone(), nearest });
            }
            let there: Vec<&str> =
                taken.iter().filter(|shape| shape.family.as_ref() == Some(family)).map(size_of).collect();
            if let Some(size) = sizes.iter().flatten().find(|size| !there.contains(&size.as_str())) {
                let nearest = flags::nearest(size, there.iter().copied()).map(str::to_owned);
                return Err(FamiliesError::NoSize { family: family.clone(), size: size.clone(), nearest });
            }
        }
        Ok(())
    }

    /// Families in the order in which they were asked for, small shapes of each first.
    pub(crate) fn sort(&self, shapes: &mut [ShapeEntry]) {
        let place = |shape: &ShapeEntry| {
            let is_it = |(family, _): &(String, _)| shape.family.as_ref() == Some(family);
            (self.0.iter().position(is_it), shape.cloud.clone(), shape.family.clone(), shape.vcpus)
        };
        shapes.sort_by(|one, other| {
            let memory =
                || one.memory_gib.partial_cmp(&other.memory_gib).unwrap_or(std::cmp::Ordering::Equal);
            place(one).cmp(&place(other)).then_with(memory).then_with(|| one.name.cmp(&other.name))
        });
    }
}

/// The part of a name behind its family: `xlarge` of `r5.xlarge`, `8` of `n2-highmem-8`.
fn size_of(shape: &ShapeEntry) -> &str {
    let rest = shape.family.as_ref().and_then(|family| shape.name.strip_prefix(family.as_str()));
    rest.unwrap_or(&shape.name).trim_start_matches(['.', '-', '_'])
}
