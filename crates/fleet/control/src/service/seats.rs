//! Seats of agents: the orders of each, and the turns that wait for other ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::{HostId, TextDigest};
use ring::digest::{SHA256, digest};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::service::turn::{TurnOrders, TurnReport};

/// Hosts of a fleet: 25,000, and some that have taken the place of others.
pub(crate) const SEATS_MAX: usize = 32_768;

/// Orders of all agents, and texts. The thread that decides puts them in; those that serve turns wait for them.
#[derive(Default)]
pub struct AgentSeats {
    state: Mutex<SeatsState>,
}

#[derive(Default)]
struct SeatsState {
    seats: HashMap<HostId, watch::Sender<Seat>>,
    texts: BTreeMap<TextDigest, Arc<str>>,
    cluster_files: BTreeMap<TextDigest, Arc<str>>,
    router_lists: BTreeMap<TextDigest, Arc<str>>,
    /// The controller hears of no decision.
    is_without_register: bool,
}

/// What a turn waits for.
#[derive(Clone, Default)]
struct Seat {
    orders: Arc<TurnOrders>,
    /// Turns that wait are answered when it changes.
    recalls: u64,
}

/// No seat is left: the fleet has more hosts than any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{SEATS_MAX} hosts have a seat, and there is none left")]
pub struct NoSeat;

impl AgentSeats {
    /// Replaces the texts that orders of routers name.
    pub fn set_texts(&self, texts: impl IntoIterator<Item = (TextDigest, Arc<str>)>) {
        self.lock().texts = texts.into_iter().collect();
    }

    /// Replaces the texts that orders of members name.
    pub fn set_cluster_files(&self, texts: impl IntoIterator<Item = (TextDigest, Arc<str>)>) {
        self.lock().cluster_files = texts.into_iter().collect();
    }

    /// Replaces the texts that orders about lists of routers name.
    pub fn set_router_lists(&self, texts: impl IntoIterator<Item = (TextDigest, Arc<str>)>) {
        self.lock().router_lists = texts.into_iter().collect();
    }

    /// Replaces an agent's orders; a turn that waits is answered if they differ. The version follows from the content, so that
    /// two controllers that decide the same give it the same one.
    ///
    /// # Errors
    /// At [`SEATS_MAX`].
    pub fn set_orders(&self, host: &HostId, orders: TurnOrders) -> Result<(), NoSeat> {
        let orders = Arc::new(with_version(orders));
        self.lock().seat(host)?.send_if_modified(|before| {
            let differs = before.orders.version != orders.version;
            if differs {
                before.orders = orders;
            }
            differs
        });
        Ok(())
    }

    /// Answers a turn that waits with the orders that there are: an agent that lives comes again at once.
    pub fn recall(&self, host: &HostId) {
        if let Some(seat) = self.lock().seats.get(host) {
            seat.send_modify(|seat| seat.recalls += 1);
        }
    }

    /// Says whether the controller does not reach its register. Turns that wait are answered then: another controller may know more.
    pub fn set_without_register(&self, is_without: bool) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.is_without_register, is_without) && is_without {
            state.seats.values().for_each(|seat| seat.send_modify(|seat| seat.recalls += 1));
        }
    }

    /// The orders that answer a turn: when they are not those that it has seen, when the agent is recalled, at once without a register
    /// unless the agent stays, at the latest after `wait`.
    ///
    /// # Errors
    /// At [`SEATS_MAX`].
    pub async fn answer(&self, report: &TurnReport, wait: Duration) -> Result<TurnOrders, NoSeat> {
        let (mut seat, is_sent_away) = {
            let mut state = self.lock();
            let is_sent_away = state.is_without_register && report.stays == Some(false);
            (state.seat(&report.host)?.subscribe(), is_sent_away)
        };
        let recalls = seat.borrow().recalls;
        // Version 0 are the orders of nobody: there is nothing to say yet.
        let is_over = |seat: &Seat| {
            let version = seat.orders.version;
            is_sent_away || version != 0 && version != report.seen || seat.recalls != recalls
        };
        // It ends with an error only if the seat is gone, and seats stay.
        let _ = timeout(wait, seat.wait_for(is_over)).await;
        let orders = Arc::clone(&seat.borrow().orders);
        let state = self.lock();
        let of_routers = orders.routers.iter().map(|order| (&state.texts, &order.digest));
        let of_members = orders.members.iter().filter_map(|order| order.cluster_file.as_ref());
        let of_lists = orders.lists.iter().map(|order| (&state.router_lists, &order.digest));
        let of_members = of_members.map(|digest| (&state.cluster_files, digest));
        let all = of_routers.chain(of_members).chain(of_lists);
        let missing = all.filter(|(_, digest)| !report.texts.contains(digest));
        let texts = missing.filter_map(|(texts, digest)| {
            let text = texts.get(digest)?;
            Some((digest.clone(), text.to_string()))
        });
        let elsewhere = state.is_without_register;
        Ok(TurnOrders { texts: texts.collect(), elsewhere, ..(*orders).clone() })
    }

    /// Frees the seat of a host that has left the fleet.
    pub fn remove(&self, host: &HostId) {
        self.lock().seats.remove(host);
    }

    fn lock(&self) -> MutexGuard<'_, SeatsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeatsState {
    fn seat(&mut self, host: &HostId) -> Result<&mut watch::Sender<Seat>, NoSeat> {
        if !self.seats.contains_key(host) {
            if self.seats.len() >= SEATS_MAX {
                return Err(NoSeat);
            }
            self.seats.insert(host.clone(), watch::Sender::default());
        }
        Ok(self.seats.get_mut(host).expect("it is there now"))
    }
}

fn with_version(orders: TurnOrders) -> TurnOrders {
    let orders = TurnOrders { version: 0, texts: Default::default(), elsewhere: false, ..orders };
    let json = serde_json::to_vec(&orders).expect("orders have names and numbers");
    let digest = digest(&SHA256, &json);
    let first = digest.as_ref().first_chunk().expect("a digest has 32 bytes");
    // 0 is the version of no orders.
    TurnOrders { version: u64::from_le_bytes(*first).max(1), ..orders }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::turn::{MemberOrder, RouterOrder};
    use fleet::GenerationNumber;
    use tokio::runtime::Runtime;

    /// A failure only.
    const MINUTE: Duration = Duration::from_secs(60);

    fn name(text: &str) -> HostId {
        text.parse().expect("a name")
    }

    /// A text's digest, of which one letter is enough here.
    fn digest_of(letter: &str) -> TextDigest {
        letter.repeat(32).parse().expect("32 digits")
    }

    fn report(seen: u64, texts: &[&str]) -> TurnReport {
        let texts = texts.iter().map(|text| digest_of(text)).collect();
        let zone = "a".parse().expect("a name");
        let (members, routers) = Default::default();
        let (host, stays) = (name("h1"), Some(false));
        TurnReport {
            host,
            zone,
            boot: 1,
            turn: 1,
            seen,
            wait_ms: None,
            stays,
            agent: None,
            tune: None,
            changes: None,
            standard: None,
            texts,
            members,
            routers,
        }
    }

    fn orders(generation: u64, digest: &str) -> TurnOrders {
        let router = "r1".parse().expect("a name");
        let order =
            RouterOrder { router, generation: GenerationNumber(generation), digest: digest_of(digest) };
        TurnOrders { routers: vec![order], ..TurnOrders::default() }
    }

    fn member_order(flushes: u64, file: Option<&str>) -> MemberOrder {
        let member = "m1".parse().expect("a name");
        MemberOrder { member, flushes, keep_empty: false, sweep: None, cluster_file: file.map(digest_of) }
    }

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    }

    fn ask(seats: &AgentSeats, report: &TurnReport, wait: Duration) -> TurnOrders {
        runtime().block_on(seats.answer(report, wait)).expect("a seat")
    }

    #[test]
    fn new_orders_are_answered_at_once_with_the_texts_that_are_missing() {
        let seats = AgentSeats::default();
        seats.set_texts([(digest_of("1"), "{}".into()), (digest_of("2"), "[]".into())]);
        seats.set_orders(&name("h1"), orders(1, "1")).expect("a seat");
        let first = ask(&seats, &report(0, &[]), MINUTE);
        assert_eq!(first.texts.iter().collect::<Vec<_>>(), [(&digest_of("1"), &"{}".to_owned())]);
        assert_eq!(ask(&seats, &report(0, &["1"]), MINUTE).texts.len(), 0);
        seats.set_orders(&name("h1"), orders(2, "2")).expect("a seat");
        let second = ask(&seats, &report(first.version, &["1"]), MINUTE);
        assert_eq!(second.routers[0].generation, GenerationNumber(2));
        assert!(second.texts.contains_key(&digest_of("2")) && !second.texts.contains_key(&digest_of("1")));
    }

    #[test]
    fn the_file_of_a_cluster_comes_with_its_order_if_it_is_missing() {
        let seats = AgentSeats::default();
        seats.set_cluster_files([(digest_of("3"), "1\na||1\n".into())]);
        // Texts of routers are replaced on their own.
        seats.set_texts([(digest_of("1"), "{}".into())]);
        let members = vec![member_order(0, Some("3"))];
        seats.set_orders(&name("h1"), TurnOrders { members, ..orders(1, "1") }).expect("a seat");
        assert_eq!(ask(&seats, &report(0, &[]), MINUTE).texts.len(), 2);
        let texts = ask(&seats, &report(0, &["1"]), MINUTE).texts;
        assert_eq!(texts.into_iter().collect::<Vec<_>>(), [(digest_of("3"), "1\na||1\n".to_owned())]);
        assert_eq!(ask(&seats, &report(0, &["1", "3"]), MINUTE).texts.len(), 0);
    }

    #[test]
    fn without_other_orders_a_turn_waits_for_its_time() {
        let seats = AgentSeats::default();
        assert_eq!(ask(&seats, &report(0, &[]), Duration::from_millis(1)).version, 0);
        seats.set_orders(&name("h1"), orders(1, "1")).expect("a seat");
        let seen = ask(&seats, &report(0, &[]), MINUTE).version;
        // The same orders again, and orders of another host, wake nobody.
        seats.set_orders(&name("h1"), orders(1, "1")).expect("a seat");
        seats.set_orders(&name("h2"), orders(9, "1")).expect("a seat");
        assert_eq!(ask(&seats, &report(seen, &[]), Duration::from_millis(1)).version, seen);
    }

    #[test]
    fn a_turn_that_waits_is_answered_when_orders_come() {
        let seats = Arc::new(AgentSeats::default());
        let other = Arc::clone(&seats);
        let found = runtime().block_on(async {
            // It runs when the turn below waits: there is one thread.
            let setting = tokio::spawn(async move { other.set_orders(&name("h1"), orders(1, "1")) });
            let found = seats.answer(&report(0, &[]), MINUTE).await.expect("a seat");
            setting.await.expect("it has run").expect("a seat");
            found
        });
        assert_eq!(found.routers[0].generation, GenerationNumber(1));
    }

    #[test]
    fn a_turn_that_waits_is_answered_when_its_agent_is_recalled_and_the_next_one_waits() {
        let seats = Arc::new(AgentSeats::default());
        seats.set_orders(&name("h1"), orders(1, "1")).expect("a seat");
        let seen = ask(&seats, &report(0, &[]), MINUTE).version;
        let other = Arc::clone(&seats);
        let found = runtime().block_on(async {
            let recalling = tokio::spawn(async move { other.recall(&name("h1")) });
            let found = seats.answer(&report(seen, &[]), MINUTE).await.expect("a seat");
            recalling.await.expect("it has run");
            found
        });
        assert_eq!(found.version, seen);
        // A recall is over with the turn that it has ended; of a host without a seat there is nobody to recall.
        seats.recall(&name("h2"));
        let next = runtime().block_on(async {
            timeout(Duration::from_millis(1), seats.answer(&report(seen, &[]), MINUTE)).await
        });
        assert!(next.is_err(), "it waits");
    }

    #[test]
    fn without_a_register_agents_are_sent_away_unless_they_have_asked_all_controllers() {
        let seats = Arc::new(AgentSeats::default());
        seats.set_orders(&name("h1"), orders(1, "1")).expect("a seat");
        let seen = ask(&seats, &report(0, &[]), MINUTE).version;
        let other = Arc::clone(&seats);
        // A turn that waits, and the next ones.
        let waiting = runtime().block_on(async {
            let losing = tokio::spawn(async move { other.set_without_register(true) });
            let found = seats.answer(&report(seen, &[]), MINUTE).await.expect("a seat");
            losing.await.expect("it has run");
            found
        });
        assert!(waiting.elsewhere && ask(&seats, &report(seen, &[]), MINUTE).elsewhere);
        let staying = TurnReport { stays: Some(true), ..report(seen, &[]) };
        let waits = runtime()
            .block_on(async { timeout(Duration::from_millis(1), seats.answer(&staying, MINUTE)).await });
        assert!(waits.is_err(), "it waits");
        let older = TurnReport { stays: None, ..staying.clone() };
        let waits = runtime()
            .block_on(async { timeout(Duration::from_millis(1), seats.answer(&older, MINUTE)).await });
        assert!(waits.is_err(), "one that goes nowhere else would ask again at once");
        assert!(ask(&seats, &staying, Duration::from_millis(1)).elsewhere);
        seats.set_without_register(false);
        let found = ask(&seats, &report(seen, &[]), Duration::from_millis(1));
        assert!(!found.elsewhere && found.version == seen, "it waits again");
    }

    #[test]
    fn two_controllers_that_decide_the_same_give_it_the_same_version() {
        let version = |orders: TurnOrders| with_version(orders).version;
        assert_eq!(version(orders(1, "1")), version(TurnOrders { version: 77, ..orders(1, "1") }));
        assert_ne!(version(orders(1, "1")), version(orders(2, "1")));
        let member = member_order(1, None);
        assert_ne!(version(orders(1, "1")), version(TurnOrders { members: vec![member], ..orders(1, "1") }));
    }

    #[test]
    fn seats_have_an_end_and_are_given_again() {
        let seats = AgentSeats::default();
        for number in 0..SEATS_MAX {
            seats.set_orders(&name(&format!("h{number}")), TurnOrders::default()).expect("a seat");
        }
        assert_eq!(seats.set_orders(&name("one-more"), TurnOrders::default()), Err(NoSeat));
        assert!(seats.set_orders(&name("h0"), orders(1, "1")).is_ok(), "those who have one keep it");
        seats.remove(&name("h0"));
        assert!(seats.set_orders(&name("one-more"), TurnOrders::default()).is_ok());
    }
}
