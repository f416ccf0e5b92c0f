//! Changes of which most hosts are lost: they halt, and those that are left go back.

use super::*;

impl ChangingFleet {
    /// Hosts that have the change, by their places.
    fn changed_places(&self) -> Vec<usize> {
        let all = self.hosts.iter().enumerate();
        all.filter(|(_, word)| matches!(word, HostWord::Changed { .. })).map(|(at, _)| at).collect()
    }
}

#[test]
fn hosts_that_are_left_go_back_although_most_are_lost() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    fleet.begin();
    while fleet.changed() < 12 {
        fleet.turns(1);
    }
    let changed = fleet.changed_places();
    let lost: Vec<usize> = (0..24).filter(|at| !changed[..4].contains(at)).take(14).collect();
    lost.iter().for_each(|at| fleet.stage.agents[*at].is_gone = true);
    assert_eq!(fleet.steer(1, ChangeSteer::Undo).0, 200);
    fleet.turns(40);
    let kept: Vec<usize> = fleet.changed_places().into_iter().filter(|at| !lost.contains(at)).collect();
    let status = fleet.status(1);
    assert_eq!((&kept[..], &status["state"]), (&[][..], &json!("undoing")), "{}", status["text"]);
    // Those that are lost are not forgotten.
    lost.iter().for_each(|at| fleet.stage.agents[*at].is_gone = false);
    fleet.until(1, &["undone"]);
    assert_eq!(fleet.changed(), 0);
}

#[test]
fn a_change_halts_that_silences_all_who_have_it_although_they_are_most() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    fleet.begin();
    while fleet.changed() <= 12 {
        fleet.turns(1);
    }
    let changed = fleet.changed_places();
    assert!(changed.len() <= 18, "{changed:?}");
    changed.iter().for_each(|at| fleet.stage.agents[*at].is_gone = true);
    fleet.turns(8);
    let status = fleet.status(1);
    assert_eq!(status["state"], "undoing", "{}", status["text"]);
}
