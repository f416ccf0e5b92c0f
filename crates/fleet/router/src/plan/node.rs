//! Routes of a plan: steps, and those that need the replies of their children.

use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::plan::node_id::{NodeId, ServerId};
use crate::plan::plain_route::{NodeName, PlainRoute};
use crate::routes::CompoundKind;
use crate::routes::route::Paths;

/// A route.
#[derive(Debug)]
pub(crate) enum Node {
    /// A route that chooses one child, or is the end of the way.
    Plain(PlainRoute),
    /// A route that asks several children, or asks one and decides then.
    Compound(Compound),
}

/// The way of nearly all requests looks at one number to know what a route is.
const _: () = assert!(size_of::<Node>() == size_of::<PlainRoute>());

/// A route that needs the replies of its children.
#[derive(Debug)]
pub(crate) struct Compound {
    /// What it does with them.
    pub(crate) kind: CompoundKind,
    /// At least one.
    pub(crate) children: Box<[NodeId]>,
}

impl Compound {
    /// A child by its number. A route that asks a single child for several things numbers these.
    pub(crate) fn child(&self, number: u16) -> NodeId {
        *self.children.get(usize::from(number)).unwrap_or(&self.children[0])
    }
}

impl Compound {
    /// A route over these children.
    pub(crate) fn new(route: impl Into<CompoundKind>, children: Vec<NodeId>) -> Compound {
        Compound { kind: route.into(), children: children.into() }
    }
}

impl Node {
    /// The server that it is, if it is one.
    pub(crate) fn server(&self) -> Option<ServerId> {
        if let Node::Plain(PlainRoute::Server { server, .. }) = self { Some(*server) } else { None }
    }

    /// mcrouter's name of it.
    pub(crate) fn name(&self) -> NodeName {
        match self {
            Node::Plain(route) => route.name(),
            Node::Compound(compound) => match compound.kind.name() {
                Some(name) => NodeName::Text(name.to_owned()),
                None => NodeName::OfRoot,
            },
        }
    }

    /// The children that a request for a key may go to.
    pub(crate) fn reached(&self, operation: Operation, key: &RoutedKey<'_>, plan: &dyn Paths) -> Vec<NodeId> {
        match self {
            Node::Plain(route) => route.reached(operation, key),
            Node::Compound(Compound { kind, children }) => kind.reached(children, key, plan),
        }
    }

    /// The most servers that a request asks from this node on, of which each child asks `of(child)`.
    pub(crate) fn fan_out(&self, of: &dyn Fn(&NodeId) -> u32) -> u32 {
        match self {
            Node::Plain(route) => route.fan_out(of),
            Node::Compound(Compound { kind, children }) => kind.fan_out(children, of),
        }
    }
}
