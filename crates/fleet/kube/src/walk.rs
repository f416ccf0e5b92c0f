//! The walk over the pods: each is looked at, and given its next step, until it is as wanted.

use std::time::Duration;

use os::clock::{Stopwatch, pause};
use serde_json::{Value, json};
use stdx::log_level::LogLevel;

use crate::api::{ApiFault, ApiServer, KubeAnswer};
use crate::decision::{PodView, UpgradeStep, decide};
use crate::fields::WrongField;
use crate::outcome::{PodEnding, PodOutcome, UpgradeHalt, UpgradeOutcome, UpgradeResult};
use crate::pod_facts::PodFacts;
use crate::record::{ANNOTATION, UpgradeRecord};
use crate::server_page::ServerFacts;
use crate::wanted::WantedServers;

/// Which servers, and with how much patience.
#[derive(Clone, Debug)]
pub struct UpgradeOptions {
    /// The namespace.
    pub namespace: String,
    /// The StatefulSet.
    pub name: String,
    /// Time for each step of a server: to get its flags, to be ready, to say how many items it has.
    pub patience: Duration,
    /// Whether nothing is changed.
    pub is_dry_run: bool,
    /// Whether pages of servers are asked for by the API server, and not directly.
    pub by_proxy: bool,
    /// How often a pod is looked at.
    pub look_every: Duration,
}

/// The longest time between two requests to an API server that does not answer.
const AWAY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Upgrades the servers of a StatefulSet, the lowest ordinal first: as people read them, and none is different from the others.
///
/// `is_asked_to_end` is asked often; what has begun then goes on by itself. `say` gets lines about what happens.
///
/// # Errors
/// If the API server refuses, or has not answered for as long as the patience of the options. Run again, the upgrade goes on.
pub fn warm_upgrade(
    api: &ApiServer,
    options: &UpgradeOptions,
    is_asked_to_end: &dyn Fn() -> bool,
    say: &mut dyn FnMut(LogLevel, &str),
) -> Result<UpgradeOutcome, ApiFault> {
    let mut walk = Walk { api, options, is_asked_to_end, say, outages: 0 };
    walk.all()
}

struct Walk<'w> {
    api: &'w ApiServer,
    options: &'w UpgradeOptions,
    is_asked_to_end: &'w dyn Fn() -> bool,
    say: &'w mut dyn FnMut(LogLevel, &str),
    /// How often the API server was away, and came back.
    outages: u64,
}

/// What ends the walk before its end.
enum Cut {
    Fault(ApiFault),
    Halt(UpgradeHalt),
    Overtaken,
    Interrupted,
}

impl From<ApiFault> for Cut {
    fn from(fault: ApiFault) -> Cut {
        Cut::Fault(fault)
    }
}

impl From<WrongField> for Cut {
    fn from(wrong: WrongField) -> Cut {
        Cut::Fault(ApiFault::Object(wrong.to_string()))
    }
}

impl Walk<'_> {
    fn all(&mut self) -> Result<UpgradeOutcome, ApiFault> {
        let wanted = match self.wanted() {
            Ok(wanted) => wanted,
            Err(Cut::Interrupted) => {
                return Ok(ended(String::new(), 0, Vec::new(), UpgradeResult::Interrupted));
            }
            Err(Cut::Halt(halt)) => {
                let result = UpgradeResult::Halted(self.options.name.clone(), halt);
                return Ok(ended(String::new(), 0, Vec::new(), result));
            }
            Err(Cut::Fault(fault)) => return Err(fault),
            Err(Cut::Overtaken) => unreachable!("there is nothing yet that could be overtaken"),
        };
        let mut pods = Vec::new();
        for pod in &wanted.pods {
            let done = match self.options.is_dry_run {
                true => self.show(&wanted, pod),
                false => self.upgrade(&wanted, pod),
            };
            let result = match done {
                Ok(done) => {
                    self.tell(&done);
                    pods.push(done);
                    continue;
                }
                Err(Cut::Fault(fault)) => return Err(fault),
                Err(Cut::Halt(halt)) => UpgradeResult::Halted(pod.clone(), halt),
                Err(Cut::Overtaken) => UpgradeResult::Overtaken,
                Err(Cut::Interrupted) => UpgradeResult::Interrupted,
            };
            return Ok(ended(wanted.image.clone(), wanted.pods.len(), pods, result));
        }
        let result = if self.options.is_dry_run { UpgradeResult::Shown } else { UpgradeResult::Done };
        Ok(ended(wanted.image.clone(), wanted.pods.len(), pods, result))
    }

    fn tell(&mut self, done: &PodOutcome) {
        let seconds = done.took.as_secs_f64();
        let took = if matches!(done.ending, PodEnding::AsWanted | PodEnding::FlagsUnknown) {
            String::new()
        } else {
            format!(", within {seconds:.1} s")
        };
        self.say(LogLevel::Info, &format!("{}: {}{took}", done.pod, done.ending.text()));
        if !done.outdated.is_empty() {
            let fields = done.outdated.join(", ");
            let line = format!(
                "{}: {fields} of the StatefulSet have changed, which only another pod gets: delete this one for it, and it begins empty",
                done.pod
            );
            self.say(LogLevel::Warning, &line);
        }
    }

    /// The StatefulSet.
    fn wanted(&mut self) -> Result<WantedServers, Cut> {
        let UpgradeOptions { namespace, name, .. } = self.options;
        let path = format!("/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}");
        let missing = || {
            let what = format!("read StatefulSet {name}");
            ApiFault::Refused { what, status: 404, why: format!("there is none in namespace {namespace}") }
        };
        let set = match self.patiently(|api| api.get(&path))? {
            KubeAnswer::Object(set) => set,
            KubeAnswer::Missing | KubeAnswer::Conflict => return Err(missing().into()),
        };
        let wanted = WantedServers::read(&set, name)?;
        if !wanted.is_on_delete {
            let why = format!(
                "the updateStrategy of StatefulSet {name} is not OnDelete, so Kubernetes itself replaces pods, and their items are lost with them"
            );
            return Err(Cut::Halt(UpgradeHalt::new(
                why,
                "set warmUpgrade.enabled of the chart, or updateStrategy.type=OnDelete",
            )));
        }
        Ok(wanted)
    }

    /// Another release may have changed what is wanted since.
    fn check_wanted(&mut self, wanted: &WantedServers) -> Result<(), Cut> {
        let now = self.wanted()?;
        let is_same = (&now.image, &now.flags, &now.pods) == (&wanted.image, &wanted.flags, &wanted.pods);
        if is_same { Ok(()) } else { Err(Cut::Overtaken) }
    }

    /// What would be done to a pod.
    fn show(&mut self, wanted: &WantedServers, name: &str) -> Result<PodOutcome, Cut> {
        let (pod, server) = self.look(wanted, name)?;
        let ending = match self.decide(wanted, name, pod.as_ref(), &server) {
            UpgradeStep::Done(ending) => ending,
            UpgradeStep::Wait(what) => PodEnding::Would(format!("would wait for {what}")),
            UpgradeStep::Replace(record) if record.restarts > 0 => {
                PodEnding::Would(format!("would be restarted for its flags, with {}", known(record.items)))
            }
            UpgradeStep::Replace(record) => PodEnding::Would(format!(
                "would get the image {}, with {}",
                record.image,
                known(record.items)
            )),
            UpgradeStep::Settle(ending) => {
                PodEnding::Would(format!("was {}, which would be noted", ending.text()))
            }
            UpgradeStep::Halt(halt) => PodEnding::Would(format!("would end the upgrade: {}", halt.why)),
        };
        Ok(PodOutcome {
            pod: name.to_owned(),
            ending,
            took: Duration::ZERO,
            outdated: outdated(pod.as_ref()),
        })
    }

    /// Steps for a pod until none is left.
    fn upgrade(&mut self, wanted: &WantedServers, name: &str) -> Result<PodOutcome, Cut> {
        let began = Stopwatch::start();
        let (mut waiting, mut since, mut outages) = (String::new(), Stopwatch::start(), self.outages);
        loop {
            let (pod, server) = self.look(wanted, name)?;
            let step = self.decide(wanted, name, pod.as_ref(), &server);
            let patch = match (&step, &pod) {
                (UpgradeStep::Done(ending), _) => {
                    let outdated = outdated(pod.as_ref());
                    return Ok(PodOutcome {
                        pod: name.to_owned(),
                        ending: ending.clone(),
                        took: began.passed(),
                        outdated,
                    });
                }
                (UpgradeStep::Halt(halt), _) => return Err(Cut::Halt(halt.clone())),
                (UpgradeStep::Replace(record), Some(pod)) => {
                    self.check_wanted(wanted)?;
                    Some(replacement(pod, record, wanted))
                }
                (UpgradeStep::Settle(_), Some(pod)) => Some(settled(pod)),
                // Perhaps because there are to be fewer.
                (_, None) => {
                    self.check_wanted(wanted)?;
                    None
                }
                (UpgradeStep::Wait(_), Some(_)) => None,
            };
            // A reason why something is not there yet changes while it is waited for; what is waited for does not.
            let what = if let UpgradeStep::Wait(what) = &step { what.as_str() } else { CHANGE };
            let subject = |text: &str| text.split([':', '(']).next().unwrap_or_default().trim().to_owned();
            let is_other = subject(what) != subject(&waiting);
            // While nobody could look, a server may have needed its time.
            if is_other || self.outages != outages {
                (since, outages) = (Stopwatch::start(), self.outages);
                if is_other && what != CHANGE {
                    self.say(LogLevel::Info, &format!("{name}: waiting for {what}"));
                }
            }
            what.clone_into(&mut waiting);
            if since.passed() > self.options.patience {
                self.check_wanted(wanted)?;
                let why = format!("waited {} s for {waiting}", self.options.patience.as_secs());
                let way_on = format!(
                    "`kubectl -n {} describe pod {name}` says more; run this again, and it goes on from here, with a longer --patience if it was short",
                    self.options.namespace
                );
                return Err(Cut::Halt(UpgradeHalt::new(why, way_on)));
            }
            let is_changed = match patch {
                Some(patch) => self.change(name, &step, &patch)?,
                None => false,
            };
            if let (UpgradeStep::Settle(ending), true) = (step, is_changed) {
                let outdated = outdated(pod.as_ref());
                return Ok(PodOutcome { pod: name.to_owned(), ending, took: began.passed(), outdated });
            }
            self.rest(self.options.look_every)?;
        }
    }

    /// False: the pod is not the one that was looked at any more.
    fn change(&mut self, name: &str, step: &UpgradeStep, patch: &Value) -> Result<bool, Cut> {
        if let UpgradeStep::Replace(record) = step {
            let why = if record.restarts > 0 {
                "restarted for its flags, by the image name"
            } else {
                "given the image"
            };
            self.say(
                LogLevel::Info,
                &format!("{name}: {why} {}, with {}", record.image, known(record.items)),
            );
        }
        let path = self.pod_path(name);
        match self.patiently(|api| api.patch(&path, patch))? {
            KubeAnswer::Object(_) => Ok(true),
            KubeAnswer::Missing | KubeAnswer::Conflict => Ok(false),
        }
    }

    /// A pod, and what its server says; the error is why it says nothing.
    fn look(
        &mut self,
        wanted: &WantedServers,
        name: &str,
    ) -> Result<(Option<PodFacts>, Result<ServerFacts, String>), Cut> {
        let path = self.pod_path(name);
        let pod = match self.patiently(|api| api.get(&path))? {
            KubeAnswer::Object(pod) => PodFacts::read(&pod, name, wanted)?,
            KubeAnswer::Missing | KubeAnswer::Conflict => {
                return Ok((None, Err("there is no pod".to_owned())));
            }
        };
        let server = match pod.container.is_running {
            true => self.ask_server(&path, &pod),
            false => Err("it does not run".to_owned()),
        };
        Ok((Some(pod), server))
    }

    fn ask_server(&self, pod_path: &str, pod: &PodFacts) -> Result<ServerFacts, String> {
        let port = pod.metrics_port.ok_or("the pod has no port `metrics`")?;
        let page = match (self.options.by_proxy, &pod.address) {
            (true, _) => self.api.page_by_proxy(pod_path, port, PAGE)?,
            (false, Some(address)) => self.api.page(address, port, PAGE)?,
            (false, None) => return Err("the pod has no address".to_owned()),
        };
        ServerFacts::read(&page)
    }

    fn decide(
        &self,
        wanted: &WantedServers,
        name: &str,
        pod: Option<&PodFacts>,
        server: &Result<ServerFacts, String>,
    ) -> UpgradeStep {
        let server = server.as_ref().map_err(String::as_str);
        decide(wanted, &PodView { name, namespace: &self.options.namespace, pod, server })
    }

    fn pod_path(&self, name: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{name}", self.options.namespace)
    }

    /// Asks until the API server answers, or has not for as long as there is patience. All requests may be made twice: a patch names
    /// the version of the pod that it changes.
    fn patiently(
        &mut self,
        mut ask: impl FnMut(&ApiServer) -> Result<KubeAnswer, ApiFault>,
    ) -> Result<KubeAnswer, Cut> {
        let (began, mut wait, mut is_told) = (Stopwatch::start(), self.options.look_every, false);
        loop {
            let fault = match ask(self.api) {
                Err(fault @ ApiFault::Away { .. }) => fault,
                answer => {
                    self.outages += u64::from(is_told);
                    return answer.map_err(Cut::Fault);
                }
            };
            if began.passed() > self.options.patience {
                return Err(fault.into());
            }
            if !is_told {
                self.say(LogLevel::Warning, &format!("{fault}; trying again"));
                is_told = true;
            }
            self.rest(wait)?;
            wait = (wait * 2).min(AWAY_PAUSE_MAX);
        }
    }

    /// Waits, for a signal at the same time.
    fn rest(&self, time: Duration) -> Result<(), Cut> {
        let began = Stopwatch::start();
        loop {
            if (self.is_asked_to_end)() {
                return Err(Cut::Interrupted);
            }
            let left = time.saturating_sub(began.passed());
            if left.is_zero() {
                return Ok(());
            }
            // The state of a pod is no event that one could wait for without a connection that is kept.
            pause(left.min(SIGNAL_LOOKS));
        }
    }

    fn say(&mut self, level: LogLevel, line: &str) {
        (self.say)(level, line);
    }
}

/// What is waited for while others change a pod at the same time, again and again.
const CHANGE: &str = "a moment in which nobody else changes the pod";

/// The page of a server.
const PAGE: &str = "/api/v1/stats";

/// A signal is noticed within this time.
const SIGNAL_LOOKS: Duration = Duration::from_millis(200);

fn ended(image: String, pods_in_all: usize, pods: Vec<PodOutcome>, result: UpgradeResult) -> UpgradeOutcome {
    UpgradeOutcome { image, pods, pods_in_all, result }
}

fn outdated(pod: Option<&PodFacts>) -> Vec<&'static str> {
    pod.map_or_else(Vec::new, |pod| pod.outdated.clone())
}

/// The patch that begins: the image, and the record. With the version of the pod it changes that one or none.
fn replacement(pod: &PodFacts, record: &UpgradeRecord, wanted: &WantedServers) -> Value {
    json!({
        "metadata": { "resourceVersion": pod.resource_version, "annotations": { ANNOTATION: record.text() } },
        "spec": { "containers": [{ "name": wanted.container, "image": record.image }] },
    })
}

/// The patch that ends: the record is removed.
fn settled(pod: &PodFacts) -> Value {
    json!({ "metadata": { "resourceVersion": pod.resource_version, "annotations": { ANNOTATION: null } } })
}

fn known(items: Option<u64>) -> String {
    items.map_or_else(
        || "nobody knows how many items, as no server runs".to_owned(),
        |items| format!("{items} items"),
    )
}
