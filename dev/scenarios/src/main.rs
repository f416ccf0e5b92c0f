//! `cargo run -p scenarios -- <scenario>`: what happens to a fleet, played with real processes and timed.
//!
//! A run plays one scenario and prints its figures, a line for each: a name with its unit, and the value. How often it is
//! played, and what its figures say, is for `evenkeel lab`: experiments/control-*.toml. All processes run on one host, so times
//! are upper bounds. Traffic is on the loopback alone. The binary is the one that `EVENKEEL_BIN` names.

mod attack;
mod clients;
mod commit;
mod failover;
mod figures;
mod fleet;
mod leader;
mod loss;
mod members;
mod misses;
mod outage;
mod rest;
mod run_folder;
mod swaps;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use figures::ScenarioFigures;

/// Plays one scenario of a fleet, and prints its figures.
#[derive(Parser)]
#[command(name = "scenarios")]
enum Scenario {
    /// Servers end or hang: the time until a key of theirs is answered elsewhere
    Failover {
        /// What happens to a server
        #[arg(value_enum)]
        how: failover::ServerFailure,
        /// How many, one after the other
        #[arg(long, default_value_t = 20, value_name = "N")]
        servers: usize,
    },
    /// Nothing happens: writes to etcd, memory and CPU
    Rest {
        /// Length
        #[arg(long, default_value_t = 60, value_name = "S")]
        seconds: u64,
    },
    /// Generations are published: from the commit until routers have loaded them
    Commit {
        /// Generations, one after the other
        #[arg(long, default_value_t = 8, value_name = "N")]
        generations: usize,
        /// Agents of this program, each with a router that only reads its file
        #[arg(long, default_value_t = 194, value_name = "N")]
        agents: usize,
    },
    /// Generations are published under load, and the middle one ends every router that reads it
    Swaps {
        /// Generations, one after the other
        #[arg(long, default_value_t = 100, value_name = "N")]
        generations: usize,
    },
    /// All of etcd is away for a while
    Outage {
        /// Length
        #[arg(long, default_value_t = 300, value_name = "S")]
        seconds: u64,
    },
    /// The member of etcd that leads is killed: the time until decisions are written again
    Leader {
        /// How often
        #[arg(long, default_value_t = 20, value_name = "N")]
        kills: usize,
    },
    /// Hosts or processes are lost: the time until a spare has the slot in every router
    Loss {
        /// What is lost
        #[arg(value_enum)]
        what: loss::Lost,
        /// How many, one after the other
        #[arg(long, default_value_t = 5, value_name = "N")]
        count: usize,
    },
    /// One of four servers is lost: misses beyond the usual ones
    Misses {
        /// What answers for it meanwhile
        #[arg(value_enum)]
        help: misses::Help,
    },
    /// A cluster grows from four to six slots and shrinks back: misses beyond the usual ones, and old values
    Scale {
        /// How
        #[arg(value_enum)]
        how: misses::scale::ResizeWay,
        /// Begin with six slots, and shrink first
        #[arg(long)]
        shrinks_first: bool,
    },
    /// A large fleet, whose agents and servers this program plays: CPU and memory of its controllers
    Members(members::LargeFleet),
    /// A cluster starts: the time until its router has answered
    Up {
        /// Servers of the cluster
        #[arg(long, default_value_t = 3, value_name = "N")]
        servers: u16,
        /// Encrypted
        #[arg(long)]
        tls: bool,
    },
    /// Attack a server of this host until this process is ended
    Attack {
        /// Its port
        #[arg(long, value_name = "PORT")]
        port: u16,
        /// Names of attacks, which are made at the same time [default: all]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Play the agents that this file names, as a part of `members`
    #[command(hide = true)]
    Agents { file: PathBuf },
}

impl Scenario {
    fn play(&self) -> Result<ScenarioFigures> {
        match self {
            Scenario::Failover { how, servers } => failover::measure(&mut fleet::begin()?, *how, *servers),
            Scenario::Rest { seconds } => rest::measure(&fleet::begin()?, *seconds),
            Scenario::Commit { generations, agents } => {
                commit::measure(&mut fleet::begin()?, *agents, *generations)
            }
            Scenario::Swaps { generations } => swaps::measure(&mut fleet::begin()?, *generations),
            Scenario::Outage { seconds } => outage::measure(&mut fleet::begin()?, *seconds),
            Scenario::Leader { kills } => leader::measure(&mut fleet::begin()?, *kills),
            Scenario::Loss { what, count } => loss::measure(&mut fleet::begin()?, *what, *count),
            Scenario::Misses { help } => misses::measure(*help),
            Scenario::Scale { how, shrinks_first } => misses::scale::measure(*how, *shrinks_first),
            Scenario::Members(fleet) => members::measure(fleet),
            Scenario::Up { servers, tls } => up::measure(*servers, *tls),
            Scenario::Attack { port, names } => attack::attack(*port, names).map(|()| ScenarioFigures::new()),
            Scenario::Agents { file } => members::play_part(file).map(|()| ScenarioFigures::new()),
        }
    }
}

fn main() -> ExitCode {
    match Scenario::parse().play() {
        Ok(figures) => {
            figures::print(&figures);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("scenarios: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_pages_is_accepted() {
        let typed = transcript::pages::run_by_cargo("scenarios");
        assert!(!typed.is_empty(), "commands are missed: {typed:?}");
        for typed in typed {
            if let Err(error) = Scenario::try_parse_from(&typed.words) {
                panic!("{}:{}: `{}`: {error}", typed.page, typed.line, typed.text());
            }
        }
    }
}
