//! Exact probabilities, and the agreement of estimate, interval and p.

use super::*;

/// Nearly normal: the sum of twelve uniform numbers.
fn normal(prng: &mut Prng) -> f64 {
    (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0
}

fn normals(count: usize, prng: &mut Prng) -> Vec<f64> {
    (0..count).map(|_| normal(prng)).collect()
}

#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12, "{found}, expected {expected}");
}

/// p by enumerating all signs of differences without ties: the share that is at least as one-sided.
fn enumerated_pairs(differences: &[f64]) -> f64 {
    let one_side = |signs: u32| {
        let sign = |place: usize| if signs >> place & 1 == 1 { -1.0 } else { 1.0 };
        let flipped: Vec<f64> = differences.iter().enumerate().map(|(place, it)| it * sign(place)).collect();
        let averages = flipped.iter().enumerate().flat_map(|(i, a)| flipped[i..].iter().map(move |b| a + b));
        let (below, above): (Vec<f64>, Vec<f64>) = averages.partition(|sum| *sum < 0.0);
        below.len().min(above.len())
    };
    let (ways, reached) = (1u32 << differences.len(), one_side(0));
    f64::from((0..ways).filter(|signs| one_side(*signs) <= reached).count() as u32) / f64::from(ways)
}

/// p by enumerating all ways to choose the new values.
fn enumerated_groups(old: &[f64], new: &[f64]) -> f64 {
    let all = [old, new].concat();
    let one_side = |chosen: u32| {
        let (new, old): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(|place| chosen >> place & 1 == 1);
        let above = new.iter().flat_map(|new| old.iter().filter(|old| all[**old] < all[*new])).count();
        above.min(new.len() * old.len() - above)
    };
    let chosen = ((1u32 << new.len()) - 1) << old.len();
    let ways = (0u32..1 << all.len()).filter(|it| it.count_ones() as usize == new.len());
    let reached = one_side(chosen);
    ways.clone().filter(|chosen| one_side(*chosen) <= reached).count() as f64 / ways.count() as f64
}

#[test]
fn p_is_the_share_of_all_arrangements() {
    let mut prng = Prng::new(3);
    for round in 0..40 {
        let differences: Vec<f64> = (0..3 + round % 6).map(|_| normal(&mut prng) + 0.8).collect();
        let shift = Shift::of_pairs(&differences, 1).expect("pairs");
        close(shift.p, enumerated_pairs(&differences));
        let (old, new) = (normals(2 + round % 3, &mut prng), normals(3 + round % 4, &mut prng));
        close(Shift::of_groups(&old, &new, 1).expect("groups").p, enumerated_groups(&old, &new));
    }
}

#[test]
fn a_complete_separation_is_significant_in_several_comparisons() {
    // Two of the 252 ways to exchange five values with five are as extreme, in six comparisons.
    let shift = Shift::of_groups(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0], 6).expect("groups");
    close(shift.p, 12.0 / 252.0);
    assert_eq!((shift.low, shift.middle, shift.high), (1.0, 5.0, 9.0));
    // The same of pairs: two of 2^10 ways, in 25 comparisons.
    let shift = Shift::of_pairs(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0], 25).expect("pairs");
    close(shift.p, 50.0 / 1024.0);
    assert_eq!((shift.low, shift.middle, shift.high), (1.0, 5.5, 10.0));
}

#[test]
fn few_values_have_no_interval() {
    let shift = Shift::of_pairs(&[1.0; 5], 1).expect("pairs");
    assert!(!shift.is_bounded() && shift.p == 2.0 / 32.0 && shift.middle == 1.0, "{shift:?}");
    assert!(Shift::of_pairs(&[1.0; 6], 1).expect("pairs").is_bounded());
    assert_eq!(Shift::of_pairs(&[7.0], 1).map(|it| (it.middle, it.p)), Some((7.0, 1.0)));
    assert_eq!((Shift::of_pairs(&[], 1), Shift::of_groups(&[], &[1.0], 1)), (None, None));
    assert_eq!(Shift::of_groups(&[1.0], &[], 1), None);
}

#[test]
fn ties_favour_no_side() {
    assert_eq!(
        Shift::of_pairs(&[0.0; 9], 1).map(|it| (it.low, it.middle, it.high, it.p)),
        Some((0.0, 0.0, 0.0, 1.0))
    );
    assert_eq!(
        Shift::of_groups(&[5.0; 9], &[5.0; 8], 1).map(|it| (it.low, it.high, it.p)),
        Some((0.0, 0.0, 1.0))
    );
    // Eight of ten are larger, two are equal: as if the two were smaller by the least.
    let mut differences = [2.0; 10];
    differences[..2].fill(0.0);
    close(
        Shift::of_pairs(&differences, 1).expect("pairs").p,
        enumerated_pairs(&[-0.1, -0.2, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
    );
}

/// Random values, with ties or without.
fn made(prng: &mut Prng) -> Vec<f64> {
    let (count, center) = (1 + prng.below(14) as usize, 1.5 * normal(prng));
    let steps = if prng.below(2) == 0 { 2.0 } else { 1e6 };
    (0..count).map(|_| ((normal(prng) + center) * steps).round() / steps).collect()
}

#[test]
fn the_interval_excludes_no_change_exactly_when_p_says_so() {
    let mut prng = Prng::new(11);
    let (mut shown, mut bounded) = (0, 0);
    for _ in 0..4_000 {
        let (one, other) = (made(&mut prng), made(&mut prng));
        let comparisons = 1 + prng.below(12) as usize;
        let negated: Vec<f64> = one.iter().map(|difference| -difference).collect();
        let both = [
            (Shift::of_pairs(&one, comparisons), Shift::of_pairs(&negated, comparisons)),
            (Shift::of_groups(&one, &other, comparisons), Shift::of_groups(&other, &one, comparisons)),
        ];
        for (shift, mirrored) in both {
            let (shift, mirrored) = (shift.expect("values"), mirrored.expect("values"));
            let excludes = shift.low > 0.0 || shift.high < 0.0;
            assert_eq!(excludes, shift.p <= ALPHA, "{shift:?} of {one:?}, {other:?}");
            assert!(shift.low <= shift.middle && shift.middle <= shift.high, "{shift:?}");
            assert!(shift.p >= shift.p_min && shift.is_bounded() == (shift.p_min <= ALPHA), "{shift:?}");
            let Shift { low, middle, high, p, p_min } = mirrored;
            assert_eq!(Shift { low: -high, middle: -middle, high: -low, p, p_min }, shift);
            shown += usize::from(excludes);
            bounded += usize::from(shift.is_bounded());
        }
    }
    assert!(shown > 1_000 && bounded > shown + 1_000, "{shown} shown, {bounded} bounded");
}

#[test]
fn a_sampled_p_is_near_the_exact_one() {
    for (counted, drawn) in
        [(counted_signs(40), drawn_signs(40)), (counted_exchanges(12, 15), drawn_exchanges(12, 15))]
    {
        for count in (0..900).step_by(5) {
            let (exact, found) = (counted.chance(count), drawn.chance(count));
            let error = (exact * (1.0 - exact) / DRAWS as f64).sqrt();
            assert!((found - exact).abs() < 5.0 * error + 2.0 / DRAWS as f64, "{count}: {found} of {exact}");
        }
    }
}

#[test]
fn many_values_are_accepted() {
    let mut prng = Prng::new(4);
    let differences: Vec<f64> =
        normals(COUNTED_PAIRS_MAX + 50, &mut prng).iter().map(|it| it + 0.5).collect();
    let shift = Shift::of_pairs(&differences, 3).expect("pairs");
    assert!(shift.p < 0.001 && shift.p > 0.0 && shift.low > 0.2 && shift.high < 0.8, "{shift:?}");
    let (old, new) = (normals(60, &mut prng), normals(70, &mut prng));
    let shift = Shift::of_groups(&old, &new, 1).expect("groups");
    assert!(shift.low < 0.0 && shift.high > 0.0 && shift.p > ALPHA, "{shift:?}");
}

#[test]
fn the_coverage_of_the_interval_is_near_its_confidence() {
    let mut prng = Prng::new(7);
    let rounds = 2_000;
    let held = |shifts: &mut dyn FnMut() -> Option<Shift>| {
        let holds = |shift: Shift| shift.low <= 1.0 && 1.0 <= shift.high;
        (0..rounds).filter(|_| shifts().is_some_and(holds)).count()
    };
    let pairs = held(&mut || {
        let differences: Vec<f64> = normals(10, &mut prng).iter().map(|it| it + 1.0).collect();
        Shift::of_pairs(&differences, 1)
    });
    let groups = held(&mut || {
        let new: Vec<f64> = normals(7, &mut prng).iter().map(|it| it + 1.0).collect();
        Shift::of_groups(&normals(8, &mut prng), &new, 1)
    });
    // 95 % of 2,000 are 1,900, and three standard deviations 30; being exact costs up to 2 % of coverage more.
    for held in [pairs, groups] {
        assert!((1_870..=1_970).contains(&held), "{held} of {rounds}");
    }
}
