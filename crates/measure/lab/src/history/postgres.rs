//! PostgreSQL store of a history that several machines share.
//!
//! The tables have a schema of their own. Every operation is one transaction, and names its schema itself, so that it
//! does not matter if another connection carries out the next one (pgbouncer).

mod encryption;

use self::encryption::{AUTHORITY, Encryption};
use super::store::{
    ADD_POINT, ADD_PROFILE, ADD_RUN, Added, DEFINE_POINT, Error, FIND_RUN, Line, PROFILES, SERIES, Store,
    TABLES, VERSION, Value, defining, line, steps,
};
use postgres::config::Host;
use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{Client, Config, IsolationLevel, NoTls, Transaction};
use rustls::CertificateError;
use std::time::Duration;

/// The socket directory of Debian's server and libpq, if no host is named.
const SOCKETS: &str = "/var/run/postgresql";

/// The time limit of the server's answers, if the URL gives none.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Lock of a process that makes the tables, under a number of our own: even `create … if not exists` fails if two do
/// so at once.
const LOCK: &str = "select pg_advisory_xact_lock(7383205941)";

/// Queries the catalogue itself: `to_regnamespace` may answer from a cache from before the lock.
const ARE_THERE: &str = "select exists (select from pg_catalog.pg_namespace where nspname = 'evenkeel_lab'),
    exists (select from pg_catalog.pg_tables where schemaname = 'evenkeel_lab' and tablename = 'format')";

const FORMAT: &str = "select version from evenkeel_lab.format";

/// Of this transaction alone.
const OURS: &str = "set local search_path to evenkeel_lab";

/// The connection.
pub(super) struct Postgres {
    client: Client,
    name: String,
}

impl Postgres {
    /// Connects, and makes the tables if they are not there. `password` is for a URL that has none.
    pub(super) fn open(url: &str, password: Option<&str>) -> Result<Postgres, Error> {
        let (config, encryption) = config(url, password)?;
        let name = name(&config);
        let connector = encryption.connector();
        let connector =
            connector.map_err(|source| Error::Store { name: name.clone(), hint: None, source })?;
        let connected = match connector {
            Some(connector) => config.connect(connector),
            None => config.connect(NoTls),
        };
        let connected = connected.map_err(|error| failed(&name, error));
        let mut postgres = Postgres { client: connected?, name };
        let found = postgres.version().map_err(|error| failed(&postgres.name, error))?;
        match found {
            VERSION => Ok(postgres),
            found => Err(Error::Version { name: postgres.name, found }),
        }
    }

    fn version(&mut self) -> Result<i64, postgres::Error> {
        let mut transaction = begin(&mut self.client)?;
        if !transaction.query_one(ARE_THERE, &[])?.get::<_, bool>(1) {
            transaction.batch_execute(LOCK)?;
            // Another process may have made them meanwhile.
            let there = transaction.query_one(ARE_THERE, &[])?;
            if !there.get::<_, bool>(0) {
                transaction.batch_execute("create schema evenkeel_lab")?;
            }
            if !there.get::<_, bool>(1) {
                transaction.batch_execute(&format!("{OURS}; {}", tables()))?;
            }
        }
        let mut found = transaction.query_one(FORMAT, &[])?.get(0);
        if steps(found).is_some() {
            transaction.batch_execute(LOCK)?;
            found = transaction.query_one(FORMAT, &[])?.get(0);
        }
        if let Some(steps) = steps(found) {
            let set = format!("update format set version = {VERSION}");
            transaction.batch_execute(&format!("{OURS}; {} {set}", worded(&steps)))?;
            found = VERSION;
        }
        transaction.commit()?;
        Ok(found)
    }

    fn insert(
        &mut self,
        run: &[Value],
        points: &[Vec<Value>],
        profiles: &[Vec<Value>],
    ) -> Result<Added, postgres::Error> {
        let mut transaction = begin(&mut self.client)?;
        transaction.batch_execute(OURS)?;
        // Waits here for a process that adds the same run at the same time.
        let run: Vec<_> = run.iter().map(Value::of_postgres).collect();
        let new = transaction.query_opt(ADD_RUN, &run)?;
        let id: i64 = match &new {
            Some(row) => row.get(0),
            None => transaction.query_one(FIND_RUN, &run)?.get(0),
        };
        // A role that only adds needs no other privilege.
        let is_new = new.is_some();
        if !is_new && !has_bare(&mut transaction, id)? {
            return Ok(Added::Known);
        }
        let statement = transaction.prepare(if is_new { ADD_POINT } else { DEFINE_POINT })?;
        let (mut changed, run_id) = (0, Value::Whole(id));
        for point in points {
            let values: Vec<_> = match is_new {
                true => [&run_id].into_iter().chain(point).map(Value::of_postgres).collect(),
                false => defining(&run_id, point).map(Value::of_postgres).collect(),
            };
            changed += transaction.execute(&statement, &values)?;
        }
        for profile in profiles.iter().filter(|_| is_new) {
            let id: &(dyn ToSql + Sync) = &id;
            let values: Vec<_> = std::iter::once(id).chain(profile.iter().map(Value::of_postgres)).collect();
            transaction.execute(ADD_PROFILE, &values)?;
        }
        transaction.commit()?;
        Ok(Added::of(is_new, changed as usize))
    }

    fn sampled(
        &mut self,
        machine: &str,
        definition: &str,
    ) -> Result<Vec<(String, i64, String)>, postgres::Error> {
        let mut transaction = begin(&mut self.client)?;
        transaction.batch_execute(OURS)?;
        let rows = transaction.query(PROFILES, &[&machine, &definition])?;
        transaction.commit()?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).collect()
    }

    fn select(&mut self) -> Result<Vec<Line>, postgres::Error> {
        let mut transaction = begin(&mut self.client)?;
        transaction.batch_execute(OURS)?;
        let rows = transaction.query(SERIES, &[])?;
        transaction.commit()?;
        let read = |row: &postgres::Row| {
            line(|column| row.try_get(column), |column| row.try_get(column), |column| row.try_get(column))
        };
        rows.iter().map(read).collect()
    }
}

impl Store for Postgres {
    fn add(&mut self, run: &[Value], points: &[Vec<Value>], profiles: &[Vec<Value>]) -> Result<Added, Error> {
        self.insert(run, points, profiles).map_err(|error| failed(&self.name, error))
    }

    fn profiles(&mut self, machine: &str, definition: &str) -> Result<Vec<(String, i64, String)>, Error> {
        self.sampled(machine, definition).map_err(|error| failed(&self.name, error))
    }

    fn lines(&mut self) -> Result<Vec<Line>, Error> {
        self.select().map_err(|error| failed(&self.name, error))
    }
}

/// Whether a run has points without a definition.
fn has_bare(transaction: &mut Transaction, run: i64) -> Result<bool, postgres::Error> {
    let statement = "select exists (select from point where run = $1 and definition = '')";
    Ok(transaction.query_one(statement, &[&run])?.get(0))
}

/// A stricter level, which a database may have as its default, would have one of two adders try again.
fn begin(client: &mut Client) -> Result<Transaction<'_>, postgres::Error> {
    client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start()
}

fn worded(text: &str) -> String {
    let words = [
        ("{id}", "bigint generated always as identity primary key"),
        ("{number}", "double precision"),
        ("{whole}", "bigint"),
    ];
    words.iter().fold(text.to_owned(), |text, (name, meaning)| text.replace(name, meaning))
}

fn tables() -> String {
    let tables = worded(TABLES);
    format!("{tables} create table format (version bigint not null); insert into format values ({VERSION});")
}

impl Value {
    fn of_postgres(&self) -> &(dyn ToSql + Sync) {
        match self {
            Value::Text(text) => text,
            Value::Whole(whole) => whole,
            Value::Number(number) => number,
        }
    }
}

fn config(url: &str, password: Option<&str>) -> Result<(Config, Encryption), Error> {
    let (words, rest) = encryption::split(url);
    let config = rest.parse::<Config>();
    let hint = Some("postgres://USER:PASSWORD@HOST:PORT/DATABASE?connect_timeout=10");
    let mut config =
        config.map_err(|error| Error::Store { name: "at this URL".into(), hint, source: Box::new(error) })?;
    let asked = Encryption::parse(&words).map_err(|refusal| Error::Encryption {
        name: name(&config),
        what: refusal.what,
        hint: refusal.hint,
    })?;
    if config.get_hosts().is_empty() {
        let addresses = config.get_hostaddrs().to_vec();
        if addresses.is_empty() {
            config.host_path(SOCKETS);
        }
        // An address alone is the server's name, too: a certificate may be for it.
        for address in addresses {
            config.host(&address.to_string());
        }
    }
    // An address goes before the host that it stands beside.
    let is_socket = |host: &Host| matches!(host, Host::Unix(_)) && config.get_hostaddrs().is_empty();
    let encryption = if config.get_hosts().iter().all(is_socket) { Encryption::None } else { asked };
    config.ssl_mode(encryption.mode());
    if let (None, Some(password)) = (config.get_password(), password) {
        config.password(password);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIME_MAX);
    }
    config.application_name("evenkeel lab");
    Ok((config, encryption))
}

/// As the user named it, but for the password.
fn name(config: &Config) -> String {
    let ports = config.get_ports();
    let host = |(index, host): (usize, &Host)| {
        let host = match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        };
        let port = ports.get(index).or(ports.first()).map_or(String::new(), |port| format!(":{port}"));
        host + &port
    };
    let hosts: Vec<String> = config.get_hosts().iter().enumerate().map(host).collect();
    let user = config.get_user().map_or(String::new(), |user| format!("{user}@"));
    let database = config.get_dbname().map_or(String::new(), |name| format!("/{name}"));
    format!("postgres://{user}{}{database}", hosts.join(","))
}

/// With the remedy.
fn failed(name: &str, error: postgres::Error) -> Error {
    let hint = match error.as_db_error() {
        Some(answer) => hint_of_server(answer.code(), answer.message()),
        None => Some(hint_without_answer(&error)),
    };
    Error::Store { name: name.to_owned(), hint, source: Box::new(error) }
}

fn hint_of_server(code: &SqlState, message: &str) -> Option<&'static str> {
    match code {
        &SqlState::INVALID_AUTHORIZATION_SPECIFICATION if message.contains("no encryption") => {
            Some(ENCRYPTED)
        }
        &SqlState::INVALID_AUTHORIZATION_SPECIFICATION if message.contains("client certificate") => Some(OWN),
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => Some(LOGIN),
        &SqlState::INVALID_CATALOG_NAME => Some(DATABASE),
        &SqlState::INSUFFICIENT_PRIVILEGE => Some(PRIVILEGES),
        _ => None,
    }
}

fn hint_without_answer(error: &postgres::Error) -> &'static str {
    match std::error::Error::source(error).map(ToString::to_string).as_deref() {
        Some("password missing") => return LOGIN,
        Some("server does not support TLS") => return PLAIN,
        _ => {}
    }
    match encryption_failure(error) {
        Some(rustls::Error::InvalidCertificate(why)) => match why {
            CertificateError::UnknownIssuer => AUTHORITY,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => NAME,
            _ => CERTIFICATE,
        },
        Some(rustls::Error::AlertReceived(_)) => OWN,
        _ => SERVER,
    }
}

/// Why there is no encrypted connection. An `io::Error` holds it, and does not give it as its source.
fn encryption_failure(error: &postgres::Error) -> Option<&rustls::Error> {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let inner = causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>()?.get_ref());
    inner.filter_map(|inner| inner.downcast_ref()).next()
}

const LOGIN: &str = "the password stands in the URL (postgres://USER:PASSWORD@HOST/DATABASE) or in PGPASSWORD; \
                     pg_hba.conf says who may come from where";

const DATABASE: &str = "`createdb` makes one; the first run that uses it makes the tables";

const PRIVILEGES: &str = "let the owner of the database use the history first, which makes its tables, and then say, and \
                          again after a version that brings a new table, `grant usage on schema evenkeel_lab`, `grant \
                          select, insert, update on all tables in schema evenkeel_lab`";

const SERVER: &str = "`pg_isready -h HOST -p PORT` says whether it answers; `listen_addresses` of postgresql.conf says \
                      where it listens";

const PLAIN: &str = "the server has `ssl = off` in its postgresql.conf; `ssh -L 5433:127.0.0.1:5432 HOST` brings it to port \
                     5433 of this machine, where sslmode=disable is enough";

const ENCRYPTED: &str = "pg_hba.conf refuses connections without encryption: leave sslmode=disable out";

const NAME: &str = "HOST has to be a name or an address that the certificate is for (hostaddr=ADDRESS says besides where it \
                    is)";

const CERTIFICATE: &str = "`openssl s_client -starttls postgres -connect HOST:PORT` shows the certificate";

const OWN: &str = "sslcert=FILE&sslkey=FILE (PEM) are a certificate of your own, signed by an authority that the server trusts";

#[cfg(test)]
mod tests {
    use super::*;
    use postgres::config::SslMode;

    #[track_caller]
    fn check(url: &str, expected: &str) {
        let (config, _) = config(url, Some("secret")).expect(url);
        assert_eq!(name(&config), expected);
        assert!(config.get_password().is_some() && config.get_connect_timeout().is_some());
    }

    #[test]
    fn a_url_is_said_without_its_password() {
        check("postgres://bench:hush@db.example:5433/lab", "postgres://bench@db.example:5433/lab");
        check("postgresql://db.example/lab?connect_timeout=3", "postgres://db.example:5432/lab");
        check("postgres://bench@/lab", "postgres://bench@/var/run/postgresql/lab");
        check("postgres://%2Ftmp%2Fpg/lab", "postgres:///tmp/pg:5432/lab");
        check("postgres://a:1,b:2/lab", "postgres://a:1,b:2/lab");
    }

    #[test]
    fn a_password_of_the_url_goes_first() {
        let password = |url| config(url, Some("secret")).expect(url).0.get_password().map(<[u8]>::to_vec);
        assert_eq!(password("postgres://bench:hush@db/lab"), Some(b"hush".to_vec()));
        assert_eq!(password("postgres://bench@db/lab"), Some(b"secret".to_vec()));
    }

    #[track_caller]
    fn refused(url: &str, expected: &str) {
        let error = config(url, None).expect_err(url);
        let said = format!(
            "{:#}",
            std::iter::successors(Some(&error as &dyn std::error::Error), |it| it.source())
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(": ")
        );
        assert!(said.contains(expected) && !said.contains("hush"), "{said}");
    }

    #[test]
    fn only_what_is_a_socket_is_not_encrypted() {
        let mode = |url: &str| config(url, None).expect(url).0.get_ssl_mode();
        for url in ["postgres:///lab", "postgres://%2Ftmp/lab", "postgres://%2Ftmp,%2Frun/lab"] {
            assert_eq!(mode(url), SslMode::Disable, "{url}");
        }
        for url in ["postgres://db/lab", "postgres://%2Ftmp,db/lab", "postgres://[::1]/lab"] {
            assert_eq!(mode(url), SslMode::Require, "{url}");
        }
        let beside = "postgres://%2Ftmp/lab?hostaddr=10.0.0.7";
        assert_eq!(config(beside, None).expect(beside).0.get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn an_address_alone_is_the_name_to_look_for() {
        let (config, _) = config("postgres:///lab?hostaddr=10.0.0.7", None).expect("a URL");
        assert_eq!(config.get_hosts(), [Host::Tcp("10.0.0.7".to_owned())]);
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        refused("postgres://bench:hush@db/lab?sslmode=prefer", "there is no sslmode=prefer");
        refused("postgres://bench:hush@db:port/lab", "invalid");
        refused("postgres://bench:hush@db/lab?speed=high", "unknown option `speed`");
    }
}
