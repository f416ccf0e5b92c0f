//! SQLite store of a history, in one file.

use super::store::{
    ADD_POINT, ADD_PROFILE, ADD_RUN, Added, DEFINE_POINT, Error, FIND_RUN, Line, PROFILES, SERIES, TABLES,
    VERSION, Value, defining, line, steps,
};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params_from_iter};
use std::io;
use std::path::Path;

/// The file.
#[derive(Debug)]
pub(super) struct Sqlite {
    connection: Connection,
    name: String,
}

impl Sqlite {
    /// The file, which is made if it is not there.
    pub(super) fn open(path: &Path) -> Result<Sqlite, Error> {
        let name = path.display().to_string();
        let connection = Connection::open(path).map_err(failed(&name))?;
        Sqlite::prepared(connection, name)
    }

    /// A file that is there, to read alone. One of an earlier version is left as it is, and is not understood.
    pub(super) fn open_to_read(path: &Path) -> Result<Sqlite, Error> {
        let name = path.display().to_string();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed(&name))?;
        match version(&connection).map_err(failed(&name))? {
            VERSION => Ok(Sqlite { connection, name }),
            0..VERSION => Err(Error::Store {
                name,
                hint: Some("`evenkeel lab history --store FILE` brings it to this version's format"),
                source: "it is no history yet, or one of an earlier version".into(),
            }),
            found => Err(Error::Version { name, found }),
        }
    }

    /// A history in memory, lost at the end.
    pub(super) fn in_memory() -> Result<Sqlite, Error> {
        let name = ":memory:".to_owned();
        Sqlite::prepared(Connection::open_in_memory().map_err(failed(&name))?, name)
    }

    fn prepared(mut connection: Connection, name: String) -> Result<Sqlite, Error> {
        let failed = failed(&name);
        // A reader needs no permission to write, and does not wait for a writer.
        if version(&connection).map_err(&failed)? == VERSION {
            return Ok(Sqlite { connection, name });
        }
        // If two begin at once, the second finds the tables of the first.
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
        match version(&transaction).map_err(&failed)? {
            0 if has_tables(&transaction).map_err(&failed)? => {
                return Err(Error::Store {
                    name,
                    hint: Some(NO_HISTORY),
                    source: "it is a database of another program".into(),
                });
            }
            0 => transaction
                .execute_batch(&format!("{} pragma user_version = {VERSION};", TABLES))
                .map_err(&failed)?,
            VERSION => {}
            found => match steps(found) {
                Some(steps) => transaction
                    .execute_batch(&format!("{} pragma user_version = {VERSION};", steps))
                    .map_err(&failed)?,
                None => return Err(Error::Version { name, found }),
            },
        }
        transaction.commit().map_err(&failed)?;
        Ok(Sqlite { connection, name })
    }

    fn insert(
        &mut self,
        run: &[Value],
        points: &[Vec<Value>],
        profiles: &[Vec<Value>],
    ) -> rusqlite::Result<Added> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let id = transaction.query_row(ADD_RUN, params_from_iter(run), |row| row.get::<_, i64>(0));
        let new = id.optional()?;
        let id = match new {
            Some(id) => id,
            None => transaction.query_row(FIND_RUN, params_from_iter(run), |row| row.get::<_, i64>(0))?,
        };
        let (mut changed, id) = (0, Value::Whole(id));
        for point in points {
            changed += match new.is_some() {
                true => transaction.execute(ADD_POINT, params_from_iter([&id].into_iter().chain(point)))?,
                false => transaction.execute(DEFINE_POINT, params_from_iter(defining(&id, point)))?,
            };
        }
        for profile in profiles.iter().filter(|_| new.is_some()) {
            let values = [&id].into_iter().chain(profile);
            transaction.execute(ADD_PROFILE, params_from_iter(values))?;
        }
        transaction.commit()?;
        Ok(Added::of(new.is_some(), changed))
    }

    fn sampled(&self, machine: &str, definition: &str) -> rusqlite::Result<Vec<(String, i64, String)>> {
        let mut statement = self.connection.prepare(PROFILES)?;
        let rows =
            statement.query_map([machine, definition], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    }

    fn select(&self) -> rusqlite::Result<Vec<Line>> {
        let mut statement = self.connection.prepare(SERIES)?;
        let lines = statement.query_map([], |row| {
            line(|column| row.get(column), |column| row.get(column), |column| row.get(column))
        })?;
        lines.collect()
    }

    /// Adds a run with its points and profiles, or nothing at all. If the run is there already, its points that have no
    /// definition yet get theirs.
    pub(super) fn add(
        &mut self,
        run: &[Value],
        points: &[Vec<Value>],
        profiles: &[Vec<Value>],
    ) -> Result<Added, Error> {
        self.insert(run, points, profiles).map_err(failed(&self.name))
    }

    /// The profiles for this definition on a machine: commit, beginning, and profile.
    pub(super) fn profiles(
        &self,
        machine: &str,
        definition: &str,
    ) -> Result<Vec<(String, i64, String)>, Error> {
        self.sampled(machine, definition).map_err(failed(&self.name))
    }

    /// All points, the oldest first.
    pub(super) fn lines(&self) -> Result<Vec<Line>, Error> {
        self.select().map_err(failed(&self.name))
    }
}

/// The format of its tables; 0: there are none yet.
fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("pragma user_version", [], |row| row.get(0))
}

fn has_tables(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("select exists (select * from sqlite_master)", [], |row| row.get(0))
}

const NO_HISTORY: &str =
    "a history is a file of its own, which `evenkeel lab history --add RUN --commit COMMIT` makes";

const DAMAGED: &str =
    "a copy from before has it as it was; `sqlite3 FILE .recover` prints what can still be read";

const IN_USE: &str = "another program writes to it; the same command works once that has ended";

fn failed(name: &str) -> impl Fn(rusqlite::Error) -> Error + use<> {
    let name = name.to_owned();
    move |error| {
        let hint = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Some(IN_USE),
            Some(ErrorCode::NotADatabase) => Some(NO_HISTORY),
            Some(ErrorCode::DatabaseCorrupt) => Some(DAMAGED),
            _ => None,
        };
        // A system error is reported as such, as elsewhere, although SQLite returns it.
        let source: Box<dyn std::error::Error + Send + Sync> = match refused(&error) {
            Some(kind) => Box::new(io::Error::new(kind, error)),
            None => Box::new(error),
        };
        Error::Store { name: name.clone(), hint, source }
    }
}

/// Whether it is a system error.
fn refused(error: &rusqlite::Error) -> Option<io::ErrorKind> {
    match error.sqlite_error_code()? {
        ErrorCode::PermissionDenied | ErrorCode::ReadOnly => Some(io::ErrorKind::PermissionDenied),
        ErrorCode::DiskFull => Some(io::ErrorKind::StorageFull),
        ErrorCode::CannotOpen | ErrorCode::SystemIoFailure => Some(io::ErrorKind::Other),
        _ => None,
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Value::Text(text) => text.to_sql(),
            Value::Whole(whole) => whole.to_sql(),
            Value::Number(number) => number.to_sql(),
        }
    }
}
