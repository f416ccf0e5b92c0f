//! Points of figures: what is known of a server or router at one moment, in 32 bytes.

use serde::{Deserialize, Serialize};

use super::code::FigureCode;

/// Points that are kept of each server and router: half an hour of turns, which are 15 s apart.
pub const POINTS_KEPT: usize = 120;

/// Figures of a point.
const FIGURES: usize = 14;

/// The figures of one moment. 25,000 members with 120 of them have 96 MB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigurePoint {
    /// Seconds by the controller's clock.
    at_s: u32,
    codes: [FigureCode; FIGURES],
}

const _: () = assert!(size_of::<FigurePoint>() == 32);

impl FigurePoint {
    /// What is known of a server.
    pub fn of_server(at_s: u32, rates: &ServerRates) -> FigurePoint {
        FigurePoint { at_s, codes: rates.values().map(FigureCode::of) }
    }

    /// What is known of a router.
    pub fn of_router(at_s: u32, rates: &RouterRates) -> FigurePoint {
        FigurePoint { at_s, codes: rates.values().map(FigureCode::of) }
    }

    /// When it was so, in seconds by the controller's clock.
    pub fn at_s(&self) -> u32 {
        self.at_s
    }

    /// The figures, if it is a server's.
    pub fn server(&self) -> ServerRates {
        ServerRates::from_values(self.codes.map(FigureCode::number))
    }

    /// The figures, if it is a router's.
    pub fn router(&self) -> RouterRates {
        RouterRates::from_values(self.codes.map(FigureCode::number))
    }
}

/// A kind of figures: fields that a point keeps in this order.
macro_rules! rates {
    ($(#[$documentation:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident,)* }) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $(
                $(#[$of_field])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<f64>,
            )*
        }

        impl $name {
            fn values(&self) -> [Option<f64>; FIGURES] {
                [$(self.$field),*]
            }

            fn from_values([$($field),*]: [Option<f64>; FIGURES]) -> $name {
                $name { $($field),* }
            }
        }
    };
}

rates! {
    /// Figures of a server since the turn before; what is not known is none.
    ServerRates {
        /// Keys that were asked for, and other commands.
        requests_per_s,
        /// Gets that found their item.
        hits_per_s,
        /// Gets that did not.
        misses_per_s,
        /// From clients.
        received_bytes_per_s,
        /// To clients.
        sent_bytes_per_s,
        /// Items that made room for others.
        evictions_per_s,
        /// Of items, with what they need besides.
        memory_used_bytes,
        /// What it may have.
        memory_limit_bytes,
        /// Of clients, now.
        connections,
        /// Now.
        items,
        /// Time that 99 % of the input waited less for its worker.
        wait_p99_us,
        /// Time that 99 % of the gets took less, once it was their turn.
        service_p99_us,
        /// CPUs that the process used.
        cpus,
        /// Share of the time in which its workers were ready and had no CPU.
        scheduling_wait_share,
    }
}

rates! {
    /// Figures of a router since the turn before; what is not known is none.
    RouterRates {
        /// Requests of clients that were answered.
        requests_per_s,
        /// Those of them that were answered with an error.
        errors_per_s,
        /// Requests to servers that were not answered in time.
        timeouts_per_s,
        /// Gets that found their item.
        hits_per_s,
        /// Gets that did not.
        misses_per_s,
        /// From clients and servers.
        received_bytes_per_s,
        /// To clients and servers.
        sent_bytes_per_s,
        /// Requests that another server was asked for, because one did not answer.
        failovers_per_s,
        /// Servers that are not asked because they do not answer (TKO), now.
        unavailable_servers,
        /// Connections of clients, now.
        clients,
        /// Time that 99 % of the replies of servers took less.
        reply_p99_us,
        /// CPUs that the process used.
        cpus,
        /// Requests whose reply was compared with a shadow's.
        shadow_compared_per_s,
        /// Those of them whose replies differed.
        shadow_differed_per_s,
    }
}

impl ServerRates {
    /// Gets that found their item, of all gets; none without any.
    pub fn hit_ratio(&self) -> Option<f64> {
        ratio(self.hits_per_s, self.misses_per_s)
    }

    /// How much of its memory is used.
    pub fn memory_share(&self) -> Option<f64> {
        Some(self.memory_used_bytes? / self.memory_limit_bytes.filter(|limit| *limit > 0.0)?)
    }
}

impl RouterRates {
    /// Gets that found their item, of all gets; none without any.
    pub fn hit_ratio(&self) -> Option<f64> {
        ratio(self.hits_per_s, self.misses_per_s)
    }

    /// Requests that were answered without an error, of all; none without any.
    pub fn availability(&self) -> Option<f64> {
        let requests = self.requests_per_s.filter(|requests| *requests > 0.0)?;
        Some((1.0 - self.errors_per_s? / requests).max(0.0))
    }
}

fn ratio(hits: Option<f64>, misses: Option<f64>) -> Option<f64> {
    let (hits, all) = (hits?, hits? + misses?);
    (all > 0.0).then(|| hits / all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

    /// Figures of which some are unknown, some zero, and others of any size.
    fn random(prng: &mut Prng) -> [Option<f64>; FIGURES] {
        [(); FIGURES].map(|()| match prng.below(4) {
            0 => None,
            1 => Some(0.0),
            _ => Some((prng.unit() * 59.9 - 9.9).exp2()),
        })
    }

    #[test]
    fn random_points_come_back_with_the_same_gaps() {
        let mut prng = Prng::new(7);
        for round in 0..20_000 {
            let values = random(&mut prng);
            let point = FigurePoint::of_server(round, &ServerRates::from_values(values));
            let same = FigurePoint::of_router(round, &RouterRates::from_values(values));
            assert_eq!(point, same, "both kinds have one layout");
            assert_eq!(point.at_s(), round);
            for (before, after) in values.into_iter().zip(point.server().values()) {
                let is_near = |before: f64, after: f64| (before - after).abs() <= 0.000_68 * before;
                assert!(before.zip(after).map_or(before == after, |(one, other)| is_near(one, other)));
            }
            assert_eq!(FigurePoint::of_server(round, &point.server()), point, "nothing is lost twice");
        }
    }

    #[test]
    fn what_is_unknown_is_left_out_in_json() {
        let rates = ServerRates { requests_per_s: Some(0.0), items: Some(7.0), ..ServerRates::default() };
        let json = serde_json::to_string(&FigurePoint::of_server(1, &rates).server()).expect("JSON");
        assert_eq!(json, r#"{"requests_per_s":0.0,"items":7.0}"#);
    }

    #[test]
    fn ratios_of_nothing_are_unknown() {
        let none = ServerRates { hits_per_s: Some(0.0), misses_per_s: Some(0.0), ..ServerRates::default() };
        assert_eq!((none.hit_ratio(), none.memory_share()), (None, None));
        let half = ServerRates { hits_per_s: Some(1.0), misses_per_s: Some(1.0), ..none };
        assert_eq!(half.hit_ratio(), Some(0.5));
        assert_eq!(ServerRates { misses_per_s: None, ..half }.hit_ratio(), None, "one of both is no ratio");
        let router =
            RouterRates { requests_per_s: Some(1000.0), errors_per_s: Some(1.0), ..RouterRates::default() };
        assert_eq!(router.availability(), Some(0.999));
        assert_eq!(RouterRates { errors_per_s: None, ..router }.availability(), None);
    }
}
