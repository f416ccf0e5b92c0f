//! `evenkeel agent`: does on one host what controllers decide. It runs beside routers and servers, Evenkeel's or mcrouter and
//! memcached.

mod beside;
mod join;
mod process;
mod settings;
mod upgrade;
mod variables;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use control::identity::{FleetIdentity, FleetRole};
use control::{
    AgentPages, AgentProgram, AgentRouter, AgentServer, AgentSettings, ControlPlace, PeerPlace, SayLine,
    start_agent,
};
use stdx::log_level::LogLevel;
use stdx::words::counted;

use crate::control::{Credentials, read_file};
use crate::failure::Failure;
use crate::peers::endpoint::{Endpoint, PagesAddress};
use crate::peers::renewal::{self, CertificateUsers, Signer};
use crate::peers::server_tls;
use crate::terminal::log;
use settings::AgentFile;

/// Longest file of settings in bytes: 256 servers and routers with long paths.
const FILE_LEN_MAX: u64 = 1024 * 1024;

/// Do on this host what controllers decide
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// What is on this host, and where the controllers are (TOML); ${NAME} is a variable of the environment
    #[arg(value_name = "FILE")]
    settings: PathBuf,
    /// Only check the file, and end
    #[arg(long)]
    check: bool,
    /// Get a first certificate with this join token, and write it to --tls-cert; what begins with @ is a file with the token
    #[arg(long, value_name = "TOKEN", requires = "tls_ca")]
    join: Option<String>,
    /// Address of metrics and readiness over HTTP, as HOST:PORT; off without it
    #[arg(long, value_name = "HOST:PORT")]
    metrics_listen: Option<PagesAddress>,
    #[command(flatten)]
    credentials: Credentials,
}

/// Runs until the process ends.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.settings;
    let text = read_file(path, FILE_LEN_MAX)?;
    let file = variables::expanded(&text, |name| std::env::var(name))
        .and_then(|text| AgentFile::parse(&text))
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display()), None))?;
    if arguments.check {
        return Ok(());
    }
    let say_line: SayLine = Arc::new(|level, line: &str| log::log(level, "agent", line));
    // Before all that may fail: a new program that does not come further gives way to the one before.
    let own = upgrade::agent(&file);
    if let Some(own) = &own {
        own.begin(&file.folder, &say_line);
    }
    let ran = run_with(arguments, &file, own.clone(), &say_line);
    if let (Err(failure), Some(own)) = (&ran, &own) {
        // Not every supervisor starts again what ends so, and some there are none.
        own.end_trial(&file.folder, failure, &say_line);
    }
    ran
}

fn run_with(
    arguments: &Arguments,
    file: &AgentFile,
    own: Option<Arc<AgentProgram>>,
    say_line: &SayLine,
) -> Result<(), Failure> {
    if let Some(token) = &arguments.join {
        join::join(token, file, &arguments.credentials)?;
    }
    check_identity(file, &arguments.credentials)?;
    let endpoint = arguments.metrics_listen.as_ref().map(PagesAddress::bind).transpose()?;
    let mut boot = [0; 8];
    rustix::rand::getrandom(&mut boot, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Failure::system("get a random number", error))?;
    let tls = file.tls_ca.clone().map(server_tls::trusting).transpose()?;
    let place = |address: &String| PeerPlace {
        address: address.clone(),
        tls: tls.clone().filter(|_| !address.starts_with("unix:")),
    };
    let upgrade = upgrade::settings(file, own, place);
    let routers = file.router.iter().map(|router| AgentRouter {
        router: router.name.clone(),
        view: router.view.clone(),
        metrics: router.metrics.clone(),
        file: router.file.clone(),
        first_text: router.first_text.clone(),
        client_address: router.client_address.clone(),
        cluster_file: router.cluster_file.clone(),
        place: place(&router.address),
        process: process::look(&router.pid_file),
    });
    let servers = file.server.iter().map(|server| AgentServer {
        member: server.member.clone(),
        metrics: server.metrics.clone(),
        place: place(&server.address),
        process: process::look(&server.pid_file),
        cluster_file: server.cluster_file.clone(),
    });
    let controllers_tls = arguments.credentials.client()?;
    let boot = u64::from_le_bytes(boot);
    let signer = Signer::Controllers(file.controllers.clone());
    let users = CertificateUsers { clients: vec![Arc::clone(&controllers_tls)], listener: None };
    let end_s = renewal::start(&arguments.credentials, signer, users, boot, say_line)?;
    let ends = beside::renew(file, &arguments.credentials, (tls.as_ref(), &controllers_tls), boot, say_line)?;
    let figures = start_agent(AgentSettings {
        host: file.host.clone(),
        zone: file.zone.clone(),
        boot,
        routers: routers.collect(),
        servers: servers.collect(),
        tune: file.tune.settings(),
        upgrade,
        folder: file.folder.clone(),
        controllers: file.controllers.clone(),
        tls: controllers_tls,
        say: Arc::clone(say_line),
    })
    .map_err(Failure::other)?;
    let (routers, servers) = (counted(file.router.len(), "router"), counted(file.server.len(), "server"));
    let shown = endpoint.as_ref().map_or(String::new(), Endpoint::shown);
    if let Some(endpoint) = endpoint {
        endpoint.serve_beside(
            AgentPages::new(figures, end_s).beside(ends),
            "agent",
            "the agent goes on without them",
        )?;
    }
    say_line(LogLevel::Info, &format!("beside {routers} and {servers} of {}{shown}", file.host));
    // Its threads end with the process.
    loop {
        std::thread::park();
    }
}

/// Over a network, an agent speaks for its own host and no other.
fn check_identity(file: &AgentFile, credentials: &Credentials) -> Result<(), Failure> {
    if file.controllers.iter().all(|place| matches!(place, ControlPlace::Unix(_))) {
        return Ok(());
    }
    let found = credentials.identity()?;
    let id = file.host.as_str().parse().map_err(Failure::other)?;
    let expected = FleetIdentity { fleet: found.fleet.clone(), role: FleetRole::Agent, id };
    if found == expected {
        return Ok(());
    }
    let hint = "an agent's certificate has the host's name; `control token` and --join make one";
    Err(Failure::usage(
        format!("expected the certificate of {expected}, found that of {found}"),
        Some(hint.into()),
    ))
}
