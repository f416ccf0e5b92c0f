//! Routes that need the replies of their children: one file for each, and the table of all of them.

pub(crate) mod copies;
pub(crate) mod limits;
pub(crate) mod requests;
pub(crate) mod route;
pub(crate) mod substitutes;

use crate::flight::leg::Marks;
use crate::flight::reply::FlightReply;
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::{RoutedRequest, StoredRequest};
use crate::plan::NodeId;
use crate::plan::choices::Choices;
use crate::routes::route::{Crossing, Decision, FirstStep, Opening, Paths, Route, Scene};

/// Makes the types of all routes, and lets each of their methods be that of the route. What a row lacks does not compile.
macro_rules! routes {
    ($($variant:ident($($path:ident)::+),)+) => {
        /// A route that needs the replies of its children.
        #[derive(Clone, Debug)]
        pub(crate) enum CompoundKind {
            $(
                #[allow(missing_docs)]
                $variant($($path)::+),
            )+
        }

        /// What a route knows of a request while it waits.
        pub(crate) enum RouteProgress {
            $($variant(<$($path)::+ as Route>::Progress),)+
        }

        $(
            impl From<$($path)::+> for CompoundKind {
                fn from(route: $($path)::+) -> CompoundKind {
                    CompoundKind::$variant(route)
                }
            }
        )+

        impl CompoundKind {
            pub(crate) fn name(&self) -> Option<&'static str> {
                match self {
                    $(CompoundKind::$variant(route) => route.name(),)+
                }
            }

            pub(crate) fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<RouteProgress> {
                match self {
                    $(CompoundKind::$variant(route) => route.begin(opening).map(RouteProgress::$variant),)+
                }
            }

            pub(crate) fn replied<'a>(
                &self,
                progress: &mut RouteProgress,
                scene: &mut Scene<'_>,
                reply: FlightReply<'a>,
            ) -> Decision<'a> {
                match self {
                    $(CompoundKind::$variant(route) => match progress {
                        RouteProgress::$variant(progress) => route.replied(progress, scene, reply),
                        _ => of_another(),
                    },)+
                }
            }

            pub(crate) fn replied_late(
                &self,
                progress: &mut RouteProgress,
                scene: &mut Scene<'_>,
                reply: &FlightReply<'_>,
            ) {
                match self {
                    $(CompoundKind::$variant(route) => match progress {
                        RouteProgress::$variant(progress) => route.replied_late(progress, scene, reply),
                        _ => of_another(),
                    },)+
                }
            }

            #[inline]
            pub(crate) fn is_final(&self, operation: Operation, outcome: Outcome) -> bool {
                match self {
                    $(CompoundKind::$variant(route) => route.is_final(operation, outcome),)+
                }
            }

            #[inline]
            pub(crate) fn is_first_enough(&self, operation: Operation) -> bool {
                match self {
                    $(CompoundKind::$variant(route) => route.is_first_enough(operation),)+
                }
            }

            #[inline]
            pub(crate) fn crossing(
                &self,
                children: &[NodeId],
                key: &RoutedKey<'_>,
                choices: &mut Choices,
                plan: &dyn Paths,
            ) -> Crossing {
                match self {
                    $(CompoundKind::$variant(route) => route.crossing(children, key, choices, plan),)+
                }
            }

            pub(crate) fn request(
                &self,
                message: &RoutedRequest<'_>,
                progress: Option<&RouteProgress>,
                child: u16,
            ) -> Option<StoredRequest> {
                match self {
                    $(CompoundKind::$variant(route) => match progress {
                        None => route.request(message, None, child),
                        Some(RouteProgress::$variant(progress)) => {
                            route.request(message, Some(progress), child)
                        }
                        Some(_) => of_another(),
                    },)+
                }
            }

            pub(crate) fn marks(&self, child: u16, marks: Marks) -> Marks {
                match self {
                    $(CompoundKind::$variant(route) => route.marks(child, marks),)+
                }
            }

            pub(crate) fn is_failover(&self) -> bool {
                match self {
                    $(CompoundKind::$variant(_) => <$($path)::+ as Route>::IS_FAILOVER,)+
                }
            }

            pub(crate) fn only_reads(&self, child: u16) -> bool {
                match self {
                    $(CompoundKind::$variant(route) => route.only_reads(child),)+
                }
            }

            pub(crate) fn reached(
                &self,
                children: &[NodeId],
                key: &RoutedKey<'_>,
                plan: &dyn Paths,
            ) -> Vec<NodeId> {
                match self {
                    $(CompoundKind::$variant(route) => route.reached(children, key, plan),)+
                }
            }

            pub(crate) fn fan_out(&self, children: &[NodeId], of: &dyn Fn(&NodeId) -> u32) -> u32 {
                match self {
                    $(CompoundKind::$variant(route) => route.fan_out(children, of),)+
                }
            }
        }

        impl RouteProgress {
            pub(crate) fn take_kept(&mut self) -> Option<FlightReply<'static>> {
                match self {
                    $(RouteProgress::$variant(progress) => <$($path)::+ as Route>::take_kept(progress),)+
                }
            }

            pub(crate) fn charged(&self) -> usize {
                match self {
                    $(RouteProgress::$variant(progress) => <$($path)::+ as Route>::charged(progress),)+
                }
            }
        }
    };
}

fn of_another() -> ! {
    unreachable!("a frame has the progress of its route")
}

routes! {
    AllAsync(copies::all_async::AllAsync),
    AllFastest(copies::all_fastest::AllFastest),
    AllInitial(copies::all_initial::AllInitial),
    AllMajority(copies::all_majority::AllMajority),
    AllSync(copies::all_sync::AllSync),
    BigValue(requests::big_value::BigValue),
    Broadcast(copies::broadcast::Broadcast),
    Compressed(requests::compression::Compressed),
    Failover(substitutes::failover::Failover),
    Fill(substitutes::fill::Fill),
    KeySplit(requests::key_split::KeySplit),
    LatencyInjection(limits::latency_injection::LatencyInjection),
    Logging(limits::logging::Logging),
    MissFailover(substitutes::miss_failover::MissFailover),
    ModifyExptime(requests::modify_exptime::ModifyExptime),
    ModifyKey(requests::modify_key::ModifyKey),
    Outstanding(limits::outstanding::Outstanding),
    Shadow(copies::shadow::Shadow),
    SizeSplit(requests::size_split::SizeSplit),
    Staging(copies::staging::Staging),
}
