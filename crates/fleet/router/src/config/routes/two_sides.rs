//! Routes between two caches, or a cache and its substitutes, by their type.

use super::Compiler;
use super::derived::EXPTIMES;
use crate::config::error::ConfigError;
use crate::config::json::{Json, Object};
use crate::message::changes::ExptimeChange;
use crate::message::operation::OperationClass;
use crate::plan::{Migration, Node, NodeId};
use crate::routes::copies::all_sync::AllSync;
use crate::routes::copies::staging::Staging;
use crate::routes::requests::modify_exptime::ModifyExptime;
use crate::routes::requests::size_split::SizeSplit;
use crate::routes::substitutes::failover::Failover;
use crate::routes::substitutes::fill::{Fill, NegativeCache};

/// mcrouter's default of `failover_exptime`, in seconds.
const FAILOVER_EXPTIME_S: i64 = 60;

/// mcrouter's default of `interval`, in seconds.
const INTERVAL_S: i64 = 3600;

/// Intervals of a migration, in seconds: up to ten years.
const INTERVALS: std::ops::RangeInclusive<i64> = 1..=315_360_000;

/// Times of expiry of copies. Below 0, nothing would be kept.
const COPY_EXPTIMES: std::ops::RangeInclusive<i64> = 0..=i32::MAX as i64;

impl Compiler<'_, '_> {
    /// A failover whose other children get items for a limited time.
    pub(super) fn failover_with_exptime(
        &mut self,
        object: &Object<'_>,
        json: &Json,
    ) -> Result<NodeId, ConfigError> {
        let mut children = vec![self.single(object.require("normal")?)?];
        let exptime = object.integer("failover_exptime", EXPTIMES)?.unwrap_or(FAILOVER_EXPTIME_S) as i32;
        let others = object.get("failover").map(|list| self.list(list)).transpose()?.unwrap_or_default();
        for child in others {
            children.push(match exptime > 0 {
                true => {
                    let kind = ModifyExptime(ExptimeChange::AtMost(exptime));
                    self.with_children(kind, vec![child], json)?
                }
                false => child,
            });
        }
        if let [only] = children[..] {
            return Ok(only);
        }
        let settings = self.failover_settings(object, children.len())?;
        self.with_children(Failover(Box::new(settings)), children, json)
    }

    pub(super) fn warm_up(&mut self, object: &Object<'_>, json: &Json) -> Result<NodeId, ConfigError> {
        let (cold, warm) = (self.single(object.require("cold")?)?, self.single(object.require("warm")?)?);
        let asks_for_ttl = object.bool("enable_metaget")?.unwrap_or(false);
        let exptime = match object.integer("exptime", COPY_EXPTIMES)? {
            None if asks_for_ttl => None,
            configured => Some(configured.unwrap_or(0) as u32),
        };
        self.fill(Fill { exptime, negative: None, stands_in: false }, cold, warm, json)
    }

    pub(super) fn l1_l2_cache(&mut self, object: &Object<'_>, json: &Json) -> Result<NodeId, ConfigError> {
        let (l1, l2) = (self.single(object.require("l1")?)?, self.single(object.require("l2")?)?);
        object.require("upgradingL1Exptime")?;
        let seconds = |field| Ok(object.integer(field, COPY_EXPTIMES)?.unwrap_or(0) as u32);
        let negative = NegativeCache {
            exptime: seconds("ncacheExptime")?,
            update_period: seconds("ncacheUpdatePeriod")?,
        };
        let exptime = Some(seconds("upgradingL1Exptime")?);
        let fill = Fill { exptime, negative: Some(negative), stands_in: true };
        self.fill(fill, l1, l2, json)
    }

    pub(super) fn migrate(&mut self, object: &Object<'_>, json: &Json) -> Result<NodeId, ConfigError> {
        let (from, to) = (self.single(object.require("from")?)?, self.single(object.require("to")?)?);
        let start_s = object.require("start_time")?.integer("`start_time`", i64::MIN..=i64::MAX)?;
        let interval_s = object.integer("interval", INTERVALS)?.unwrap_or(INTERVAL_S) as u32;
        let both = self.with_children(AllSync, vec![from, to], json)?;
        self.add(Node::Migrate(Migration { from, to, both, start_s, interval_s }), json)
    }

    /// Deletes go to both, and the worse reply counts.
    pub(super) fn staging(&mut self, object: &Object<'_>, json: &Json) -> Result<NodeId, ConfigError> {
        let warm = self.single(object.require("warm")?)?;
        let children = vec![warm, self.single(object.require("staging")?)?];
        let deletes = self.with_children(AllSync, children.clone(), json)?;
        let default = self.with_children(Staging, children, json)?;
        self.add(Node::ByClass { children: [(OperationClass::Delete, deletes)].into(), default }, json)
    }

    pub(super) fn l1_l2_size_split(
        &mut self,
        object: &Object<'_>,
        json: &Json,
    ) -> Result<NodeId, ConfigError> {
        let (l1, l2) = (self.single(object.require("l1")?)?, self.single(object.require("l2")?)?);
        // Read for mcrouter's sake: they are about leases, and about marks whose value is missing, which are misses here.
        object.integer("failure_ttl", 1..=i64::from(i32::MAX))?;
        object.integer("retries", 1..=10)?;
        let split = SizeSplit {
            threshold: object.require("threshold")?.integer("`threshold` in bytes", 0..=i64::MAX)? as u64,
            ttl_threshold_s: object.integer("ttl_threshold", COPY_EXPTIMES)?.unwrap_or(0) as u32,
            both_full_set: object.bool("both_full_set")?.unwrap_or(false),
        };
        let node = self.with_children(split, vec![l1, l2], json)?;
        let children = [(OperationClass::Get, node), (OperationClass::Update, node)].into();
        self.add(Node::ByClass { children, default: l1 }, json)
    }

    /// Reads go to `near`, and for what it does not have to `far`; everything else goes to `near`.
    fn fill(&mut self, fill: Fill, near: NodeId, far: NodeId, json: &Json) -> Result<NodeId, ConfigError> {
        let reads = self.with_children(fill, vec![near, far], json)?;
        let children = [(OperationClass::Get, reads)].into();
        self.add(Node::ByClass { children, default: near }, json)
    }
}
