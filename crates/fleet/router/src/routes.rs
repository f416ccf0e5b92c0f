//! Routes: one file for each type, and the table of all of them.
//!
//! [`form::RouteForm`] is what a configuration has to know of a type, [`route::Route`] what a request meets. A new type
//! implements both in a file of its own and is a row of the table. Types that only stand for routes of others, or for a plain
//! route ([`PlainRoute`](crate::plan::plain_route::PlainRoute)), are forms.
//!
//! What a type consists of, as far as it cannot be left out:
//!
//! ```
//! # use router::route_pieces::*;
//! struct Mine;
//! impl Route for Mine {
//!     type Progress = ();
//!     fn name(&self) -> Option<&'static str> {
//!         Some("mine")
//!     }
//!     fn begin(&self, _: &mut Opening<'_>) -> FirstStep<()> {
//!         unimplemented!()
//!     }
//!     fn replied<'a>(&self, _: &mut (), _: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
//!         Decision::Done(reply)
//!     }
//! }
//! impl<C: Compile> RouteForm<C> for Mine {
//!     const FORM: Fields = ("MyRoute", &["child"]);
//!     fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
//!         compiler.list(definition.json())
//!     }
//! }
//! fn row<C: Compile, R: Route + RouteForm<C>>() {}
//! fn table<C: Compile>() {
//!     row::<C, Mine>();
//! }
//! ```
//!
//! Without a name for reports:
//!
//! ```compile_fail
//! # use router::route_pieces::*;
//! struct Mine;
//! impl Route for Mine {
//!     type Progress = ();
//!     fn begin(&self, _: &mut Opening<'_>) -> FirstStep<()> {
//!         unimplemented!()
//!     }
//!     fn replied<'a>(&self, _: &mut (), _: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
//!         Decision::Done(reply)
//!     }
//! }
//! impl<C: Compile> RouteForm<C> for Mine {
//!     const FORM: Fields = ("MyRoute", &["child"]);
//!     fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
//!         compiler.list(definition.json())
//!     }
//! }
//! fn row<C: Compile, R: Route + RouteForm<C>>() {}
//! fn table<C: Compile>() {
//!     row::<C, Mine>();
//! }
//! ```
//!
//! Without a decision about a request:
//!
//! ```compile_fail
//! # use router::route_pieces::*;
//! struct Mine;
//! impl Route for Mine {
//!     type Progress = ();
//!     fn name(&self) -> Option<&'static str> {
//!         Some("mine")
//!     }
//!     fn replied<'a>(&self, _: &mut (), _: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
//!         Decision::Done(reply)
//!     }
//! }
//! impl<C: Compile> RouteForm<C> for Mine {
//!     const FORM: Fields = ("MyRoute", &["child"]);
//!     fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
//!         compiler.list(definition.json())
//!     }
//! }
//! fn row<C: Compile, R: Route + RouteForm<C>>() {}
//! fn table<C: Compile>() {
//!     row::<C, Mine>();
//! }
//! ```
//!
//! Without a decision about a reply:
//!
//! ```compile_fail
//! # use router::route_pieces::*;
//! struct Mine;
//! impl Route for Mine {
//!     type Progress = ();
//!     fn name(&self) -> Option<&'static str> {
//!         Some("mine")
//!     }
//!     fn begin(&self, _: &mut Opening<'_>) -> FirstStep<()> {
//!         unimplemented!()
//!     }
//! }
//! impl<C: Compile> RouteForm<C> for Mine {
//!     const FORM: Fields = ("MyRoute", &["child"]);
//!     fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
//!         compiler.list(definition.json())
//!     }
//! }
//! fn row<C: Compile, R: Route + RouteForm<C>>() {}
//! fn table<C: Compile>() {
//!     row::<C, Mine>();
//! }
//! ```
//!
//! Without a type for what it knows between replies:
//!
//! ```compile_fail
//! # use router::route_pieces::*;
//! struct Mine;
//! impl Route for Mine {
//!     fn name(&self) -> Option<&'static str> {
//!         Some("mine")
//!     }
//!     fn begin(&self, _: &mut Opening<'_>) -> FirstStep<()> {
//!         unimplemented!()
//!     }
//!     fn replied<'a>(&self, _: &mut (), _: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
//!         Decision::Done(reply)
//!     }
//! }
//! impl<C: Compile> RouteForm<C> for Mine {
//!     const FORM: Fields = ("MyRoute", &["child"]);
//!     fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
//!         compiler.list(definition.json())
//!     }
//! }
//! fn row<C: Compile, R: Route + RouteForm<C>>() {}
//! fn table<C: Compile>() {
//!     row::<C, Mine>();
//! }
//! ```
//!
//! Without its names and fields:
//!
//! ```compile_fail
//! # use router::route_pieces::*;
//! struct Mine;
//! impl Route for Mine {
//!     type Progress = ();
//!     fn name(&self) -> Option<&'static str> {
//!         Some("mine")
//!     }
//!     fn begin(&self, _: &mut Opening<'_>) -> FirstStep<()> {
//!         unimplemented!()
//!     }
//!     fn replied<'a>(&self, _: &mut (), _: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
//!         Decision::Done(reply)
//!     }
//! }
//! impl<C: Compile> RouteForm<C> for Mine {
//!     fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
//!         compiler.list(definition.json())
//!     }
//! }
//! fn row<C: Compile, R: Route + RouteForm<C>>() {}
//! fn table<C: Compile>() {
//!     row::<C, Mine>();
//! }
//! ```
//!
//! Without what becomes of a configuration:
//!
//! ```compile_fail
//! # use router::route_pieces::*;
//! struct Mine;
//! impl Route for Mine {
//!     type Progress = ();
//!     fn name(&self) -> Option<&'static str> {
//!         Some("mine")
//!     }
//!     fn begin(&self, _: &mut Opening<'_>) -> FirstStep<()> {
//!         unimplemented!()
//!     }
//!     fn replied<'a>(&self, _: &mut (), _: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
//!         Decision::Done(reply)
//!     }
//! }
//! impl<C: Compile> RouteForm<C> for Mine {
//!     const FORM: Fields = ("MyRoute", &["child"]);
//! }
//! fn row<C: Compile, R: Route + RouteForm<C>>() {}
//! fn table<C: Compile>() {
//!     row::<C, Mine>();
//! }
//! ```
//!
//! As a row of the table that no configuration can name:
//!
//! ```compile_fail
//! # use router::route_pieces::*;
//! struct Mine;
//! impl Route for Mine {
//!     type Progress = ();
//!     fn name(&self) -> Option<&'static str> {
//!         Some("mine")
//!     }
//!     fn begin(&self, _: &mut Opening<'_>) -> FirstStep<()> {
//!         unimplemented!()
//!     }
//!     fn replied<'a>(&self, _: &mut (), _: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
//!         Decision::Done(reply)
//!     }
//! }
//! fn row<C: Compile, R: Route + RouteForm<C>>() {}
//! fn table<C: Compile>() {
//!     row::<C, Mine>();
//! }
//! ```

pub(crate) mod copies;
pub(crate) mod form;
pub(crate) mod limits;
pub(crate) mod requests;
pub(crate) mod route;
pub(crate) mod steps;
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

/// The table. `routes` need the replies of their children, and a configuration can name them; `parts` are made by others,
/// without a name; `forms` have names, and stand for other routes. In alphabetical order.
macro_rules! route_table {
    ($use:ident) => {
        $use! {
            routes {
                AllAsync(crate::routes::copies::all_async::AllAsync),
                AllFastest(crate::routes::copies::all_fastest::AllFastest),
                AllInitial(crate::routes::copies::all_initial::AllInitial),
                AllMajority(crate::routes::copies::all_majority::AllMajority),
                AllSync(crate::routes::copies::all_sync::AllSync),
                BigValue(crate::routes::requests::big_value::InParts),
                Failover(crate::routes::substitutes::failover::Failover),
                Fill(crate::routes::substitutes::fill::Fill),
                KeySplit(crate::routes::requests::key_split::KeySplit),
                LatencyInjection(crate::routes::limits::latency_injection::LatencyInjection),
                Logging(crate::routes::limits::logging::Logging),
                MissFailover(crate::routes::substitutes::miss_failover::MissFailover),
                ModifyExptime(crate::routes::requests::modify_exptime::ModifyExptime),
                ModifyKey(crate::routes::requests::modify_key::ModifyKey),
                Shadow(crate::routes::copies::shadow::Shadow),
                SizeSplit(crate::routes::requests::size_split::SizeSplit),
                Staging(crate::routes::copies::staging::Staging),
            }
            parts {
                Broadcast(crate::routes::copies::broadcast::Broadcast),
                Compressed(crate::routes::requests::compression::Compressed),
                Outstanding(crate::routes::limits::outstanding::Outstanding),
            }
            forms {
                crate::routes::limits::rate_limit::RateLimit,
                crate::routes::steps::blackhole::Blackhole,
                crate::routes::steps::dev_null::DevNull,
                crate::routes::steps::error::ErrorAnswer,
                crate::routes::steps::hash::Hash,
                crate::routes::steps::host_id::ByHost,
                crate::routes::steps::null::Null,
                crate::routes::steps::operation_selector::OperationSelector,
                crate::routes::steps::pool::PoolServers,
                crate::routes::steps::pool_route::PoolRoute,
                crate::routes::steps::prefix_selector::PrefixSelector,
                crate::routes::steps::random::Random,
                crate::routes::steps::routing_group::RoutingGroup,
                crate::routes::substitutes::failover_with_exptime::FailoverWithExptime,
                crate::routes::substitutes::latest::Latest,
                crate::routes::substitutes::migrate::Migrate,
                crate::routes::substitutes::warm_up::WarmUpFill,
            }
        }
    };
}

pub(crate) use route_table;

/// Makes the types of all routes, and lets each of their methods be that of the route. What a row lacks does not compile.
macro_rules! routes {
    (
        routes { $($route:ident($of_route:ty),)+ }
        parts { $($part:ident($of_part:ty),)+ }
        forms { $($form:ty,)+ }
    ) => {
        routes!($($route($of_route),)+ $($part($of_part),)+);
    };
    ($($variant:ident($route:ty),)+) => {
        /// A route that needs the replies of its children.
        #[derive(Clone, Debug)]
        pub(crate) enum CompoundKind {
            $($variant($route),)+
        }

        /// What a route knows of a request while it waits.
        pub(crate) enum RouteProgress {
            $($variant(<$route as Route>::Progress),)+
        }

        $(
            impl From<$route> for CompoundKind {
                fn from(route: $route) -> CompoundKind {
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

            #[inline]
            pub(crate) fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<RouteProgress> {
                match self {
                    $(CompoundKind::$variant(route) => route.begin(opening).map(RouteProgress::$variant),)+
                }
            }

            #[inline]
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

            #[inline]
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

            #[inline]
            pub(crate) fn marks(&self, child: u16, marks: Marks) -> Marks {
                match self {
                    $(CompoundKind::$variant(route) => route.marks(child, marks),)+
                }
            }

            pub(crate) fn is_failover(&self) -> bool {
                match self {
                    $(CompoundKind::$variant(_) => <$route as Route>::IS_FAILOVER,)+
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
                    $(RouteProgress::$variant(progress) => <$route as Route>::take_kept(progress),)+
                }
            }

            pub(crate) fn charged(&self) -> usize {
                match self {
                    $(RouteProgress::$variant(progress) => <$route as Route>::charged(progress),)+
                }
            }
        }
    };
}

route_table!(routes);

fn of_another() -> ! {
    unreachable!("a frame has the progress of its route")
}
