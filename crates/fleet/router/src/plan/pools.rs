//! The pools of a plan, for reports: names, and the routes to their servers.

use crate::plan::node_id::NodeId;

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPool {
    /// As configured.
    pub name: String,
    /// Its servers, in their order; a route where the configuration has one in place of a server.
    pub children: Vec<NodeId>,
}

/// All pools that routes use, by name.
#[derive(Clone, Debug, Default)]
pub struct PlanPools {
    all: Vec<PlanPool>,
    /// Nodes with the first pool that they stand in, and their place there; sorted.
    places: Vec<(u32, u32, u32)>,
}

impl PlanPools {
    /// Sorts the pools.
    pub fn new(pools: impl IntoIterator<Item = (String, Vec<NodeId>)>) -> PlanPools {
        let mut all: Vec<PlanPool> =
            pools.into_iter().map(|(name, children)| PlanPool { name, children }).collect();
        all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let of_pool = |(number, pool): (usize, &PlanPool)| {
            let places = pool.children.iter().enumerate();
            places.map(|(place, node)| (node.0, number as u32, place as u32)).collect::<Vec<_>>()
        };
        let mut places: Vec<_> = all.iter().enumerate().flat_map(of_pool).collect();
        places.sort_unstable();
        places.dedup_by_key(|(node, ..)| *node);
        PlanPools { all, places }
    }

    /// All pools.
    pub fn iter(&self) -> impl Iterator<Item = &PlanPool> {
        self.all.iter()
    }

    /// The pool of this name.
    pub fn find(&self, name: &str) -> Option<&PlanPool> {
        self.all.iter().find(|pool| pool.name == name)
    }

    /// The first pool that a node stands in, and its place there.
    pub fn place_of(&self, node: NodeId) -> Option<(&str, u32)> {
        let found = self.places.binary_search_by_key(&node.0, |(node, ..)| *node).ok()?;
        let (_, pool, place) = self.places[found];
        Some((&self.all[pool as usize].name, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_two_pools_belongs_to_the_first() {
        let pools = PlanPools::new([
            ("b".to_owned(), vec![NodeId(3), NodeId(1)]),
            ("a".to_owned(), vec![NodeId(0), NodeId(3)]),
        ]);
        assert_eq!(pools.place_of(NodeId(3)), Some(("a", 1)));
        assert_eq!(pools.place_of(NodeId(1)), Some(("b", 1)));
        assert_eq!(pools.place_of(NodeId(2)), None);
        assert_eq!(pools.find("b").expect("a pool").children, [NodeId(3), NodeId(1)]);
    }
}
