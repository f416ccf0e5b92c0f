//! The HTTP endpoint of a server (`--metrics-listen`): its address, and where its pages come from.

use std::sync::Arc;

use admin::{AdminListener, Limits, Source};
use server::metrics::Monitor;
use server::options::MetricsAddress;
use stdx::clock::Now;

use crate::failure::Failure;
use crate::host_sampler::HostSampler;

/// A bound endpoint.
pub(crate) struct Endpoint {
    listener: AdminListener,
}

impl Endpoint {
    /// Binds its address, while the process may still be root.
    pub(crate) fn bind(address: &MetricsAddress) -> Result<Endpoint, Failure> {
        let listener = AdminListener::bind(address.host.as_deref(), address.port).map_err(Failure::other)?;
        Ok(Endpoint { listener })
    }

    /// For the start-up line.
    pub(crate) fn shown(&self) -> String {
        let pages = self.listener.addresses().into_iter().map(|address| format!("http://{address}/metrics"));
        format!(", metrics at {}", pages.collect::<Vec<_>>().join(", "))
    }

    /// Serves until the process ends. `clock` is that of the server. The cache serves without metrics, too, so a failure is
    /// only reported.
    pub(crate) fn serve(
        self,
        monitor: Monitor,
        host: HostSampler,
        clock: impl Fn() -> Now + Send + Sync + 'static,
    ) {
        let pages = Pages { monitor, host, clock };
        if let Err(error) = self.listener.serve(Arc::new(pages), Limits::default()) {
            Failure::other(error).hint("the cache is served without them").report(Some("serve"));
        }
    }
}

struct Pages<C> {
    monitor: Monitor,
    host: HostSampler,
    clock: C,
}

impl<C: Fn() -> Now + Send + Sync + 'static> Source for Pages<C> {
    fn metrics(&self) -> String {
        self.monitor.metrics((self.clock)()) + &self.host.metrics()
    }

    fn readiness(&self) -> Result<(), String> {
        self.monitor.readiness()
    }

    fn report(&self, name: &str) -> Option<String> {
        (name == "stats").then(|| self.monitor.report((self.clock)()))
    }
}
