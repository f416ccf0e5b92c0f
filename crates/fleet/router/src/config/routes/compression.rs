//! `compression` of a pool: how the values of its servers are compressed.

use std::sync::Arc;

use super::options::DictionaryFiles;
use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue, Object};
use crate::plan::NodeId;
use crate::routes::form::AddRoute;
use crate::routes::requests::compression::Compressed;
use crate::routes::steps::pool::Pool;
use crate::servers::compression::{COMPRESSED_LEN_MAX, Codec, Compression, Dictionary, MIN_LEN_MIN};

const FIELDS: [&str; 5] = ["codec", "flag_bit", "level", "min_size", "dictionaries"];

/// mcrouter's marks of items that are not what they seem: an index of parts, a miss, a value that is elsewhere.
const MARK_BITS: [i64; 3] = [5, 15, 16];

/// zstd has higher levels. A worker serves nobody while it compresses: for 1 MiB of text at level 9, 26 ms.
const LEVELS: std::ops::RangeInclusive<i64> = 1..=9;

/// zstd's own default.
const LEVEL_DEFAULT: i64 = 3;

/// Below it, a header eats much of what a codec saves.
const MIN_LEN_DEFAULT: i64 = 128;

/// Dictionaries of one pool: a new one, and those whose values are still there.
const DICTIONARIES_MAX: usize = 16;

/// A pool's servers, with compression in front of each if the pool has it.
pub(super) fn in_front_of(
    compiler: &mut impl AddRoute<Compressed>,
    servers: Vec<NodeId>,
    pool: &Pool<'_>,
    files: &DictionaryFiles,
) -> Result<Vec<NodeId>, ConfigError> {
    let Some(json) = pool.get("compression") else { return Ok(servers) };
    let compression = Arc::new(compression(json, files)?);
    let mut with = |server| compiler.add_route(Compressed(Arc::clone(&compression)), vec![server], json);
    servers.into_iter().map(&mut with).collect()
}

fn compression(json: &Json, files: &DictionaryFiles) -> Result<Compression, ConfigError> {
    let object = json.object("`compression` of a pool")?;
    if let Some((name, value)) = object.entries().iter().find(|(name, _)| !FIELDS.contains(&&**name)) {
        let fields = FIELDS.join(", ");
        return Err(value.error(format!("expected one of {fields} in `compression`, found `{name}`")));
    }
    let name = object.require("codec")?;
    let codec = match name.string("`codec` of `compression`")? {
        "zstd" => Codec::Zstd(object.integer("level", LEVELS)?.unwrap_or(LEVEL_DEFAULT) as i32),
        "lz4" => Codec::Lz4,
        _ => return Err(name.wrong("zstd or lz4 (`codec` of `compression`)")),
    };
    if codec == Codec::Lz4 {
        for field in ["level", "dictionaries"] {
            if let Some(json) = object.get(field) {
                return Err(
                    json.error(format!("expected `{field}` only with the codec zstd, found it with lz4"))
                );
            }
        }
    }
    let bit = object.require("flag_bit")?;
    let number = bit.integer("`flag_bit` of `compression`", 0..=31)?;
    if MARK_BITS.contains(&number) {
        return Err(bit.wrong("a bit that marks nothing else (5, 15 and 16 are marks of routes)"));
    }
    let lens = MIN_LEN_MIN as i64..=COMPRESSED_LEN_MAX as i64;
    let min_len = object.integer("min_size", lens)?.unwrap_or(MIN_LEN_DEFAULT) as usize;
    let dictionaries = dictionaries(&object, codec, files)?;
    Ok(Compression { codec, flag: 1 << number, min_len, dictionaries })
}

fn dictionaries(
    object: &Object<'_>,
    codec: Codec,
    read: &DictionaryFiles,
) -> Result<Vec<Dictionary>, ConfigError> {
    let Some(json) = object.get("dictionaries") else { return Ok(Vec::new()) };
    let files = json.array("`dictionaries` of `compression`")?;
    if files.len() > DICTIONARIES_MAX {
        let message = format!("expected at most {DICTIONARIES_MAX} dictionaries, found {}", files.len());
        return Err(json.error(message));
    }
    let mut dictionaries: Vec<Dictionary> = Vec::new();
    for file in files {
        let name = file.string("the file of a dictionary")?;
        let bytes = match read.get(name) {
            Some(Ok(bytes)) => bytes,
            Some(Err(error)) => {
                return Err(file.error(format!("expected a dictionary that can be read, found: {error}")));
            }
            None => return Err(file.wrong("a dictionary that was read")),
        };
        let level = match codec {
            Codec::Zstd(level) if dictionaries.is_empty() => Some(level),
            _ => None,
        };
        let dictionary =
            Dictionary::new(bytes, level).map_err(|error| file.error(format!("{name}: {error}")))?;
        if dictionaries.iter().any(|other| other.id() == dictionary.id()) {
            return Err(file.wrong("each dictionary once"));
        }
        dictionaries.push(dictionary);
    }
    Ok(dictionaries)
}

/// The files of all dictionaries that a configuration names.
pub fn dictionary_files(config: &Json) -> Vec<&str> {
    let (mut files, mut open) = (Vec::new(), vec![config]);
    while let Some(json) = open.pop() {
        match &json.value {
            JsonValue::Array(items) => open.extend(items),
            JsonValue::Object(entries) => {
                for (name, value) in entries {
                    if name == "compression" {
                        files.extend(files_of(value));
                    }
                    open.push(value);
                }
            }
            _ => {}
        }
    }
    files.sort_unstable();
    files.dedup();
    files
}

/// What is wrong there is said when the pool is compiled.
fn files_of(compression: &Json) -> impl Iterator<Item = &str> {
    let object = compression.object("`compression`").ok();
    let list = object.and_then(|object| object.get("dictionaries")).and_then(|json| json.array("").ok());
    list.unwrap_or_default().iter().take(DICTIONARIES_MAX).filter_map(Json::as_str)
}

#[cfg(test)]
mod tests;
