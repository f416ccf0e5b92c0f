//! Flags for the configuration and its routes.

use std::path::PathBuf;

use ::flags::Kind;

use super::entry::{RouteFlag, flag};
use super::options::{ConfigSource, Validate};

/// No folder if the name is empty.
pub(super) fn folder(name: &str) -> Option<PathBuf> {
    (!name.is_empty()).then(|| name.into())
}

pub(super) const FLAGS: &[RouteFlag] = &[
    flag(
        None,
        "config",
        "The configuration: file:PATH, or JSON",
        "Imports (`@import`) without `file:` are relative to the folder of the file.",
        |options, given| options.config = Some(ConfigSource::of_flag(given.text())),
    )
    .takes("text", Kind::Text, ""),
    flag(
        Some('f'),
        "config-file",
        "A file with the configuration",
        "Without effect if there is --config or --config-str, as in mcrouter.",
        |options, given| options.config_file = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "config-str",
        "The configuration as JSON",
        "Without effect if there is --config, as in mcrouter.",
        |options, given| options.config_str = Some(given.text().to_owned()),
    )
    .takes("json", Kind::Text, ""),
    flag(
        None,
        "config-params",
        "Constants for the configuration: name:value,name:value",
        "",
        |options, given| options.config_params = given.text().to_owned(),
    )
    .takes("list", Kind::Text, ""),
    flag(
        None,
        "additional-config-params",
        "More of them; these replace those of --config-params",
        "",
        |options, given| options.additional_config_params = given.text().to_owned(),
    )
    .takes("list", Kind::Text, ""),
    flag(
        None,
        "validate-config",
        "Check the configuration, print its servers, and end",
        "`--validate-config=run` checks, prints and then routes.",
        |options, given| {
            options.validate = Some(match given.text() {
                "run" => Validate::Run,
                _ => Validate::Exit,
            });
        },
    )
    .takes("exit|run", Kind::OneOf(&["exit", "run"]), ""),
    flag(
        None,
        "disable-reload-configs",
        "Do not look for changes of the configuration's files",
        "",
        |options, _| options.reload = false,
    ),
    flag(
        None,
        "reconfiguration-delay-ms",
        "Time between a change of a file and its use, in ms",
        "",
        |options, given| options.reconfiguration_delay_ms = given.number(),
    )
    .takes("ms", Kind::Number { min: 0, max: 3_600_000 }, "1000"),
    flag(
        None,
        "reconfiguration-jitter-ms",
        "At most so much more of that time, at random",
        "",
        |options, given| options.reconfiguration_jitter_ms = given.number(),
    )
    .takes("ms", Kind::Number { min: 0, max: 3_600_000 }, "0"),
    flag(
        None,
        "post-reconfiguration-delay-ms",
        "Time after a load in which no file is looked at, in ms",
        "At least 100 ms pass from one load to the next.",
        |options, given| options.post_reconfiguration_delay_ms = given.number(),
    )
    .takes("ms", Kind::Number { min: 0, max: 3_600_000 }, "0"),
    flag(
        None,
        "config-dump-root",
        "Folder for copies of the last good configuration",
        "A router whose configuration is not good at the start takes them. mcrouter has /var/mcrouter/config without this \
            flag; here there are no copies then.",
        |options, given| options.config_dump_root = folder(given.text()),
    )
    .takes("dir", Kind::Text, ""),
    flag(
        None,
        "max-dumped-config-age",
        "Age of copies beyond which they are not used, in seconds; 0: never",
        "",
        |options, given| options.config_dump_age_max_s = given.number(),
    )
    .takes("s", Kind::Number { min: 0, max: 1_000_000_000 }, "43200"),
    flag(
        None,
        "enable-flush-cmd",
        "flush_all reaches all servers of the configuration",
        "Without this flag it is answered SERVER_ERROR Command disabled.",
        |options, _| options.flush_enabled = true,
    ),
    flag(
        Some('R'),
        "route-prefix",
        "Routing prefix of keys that have none",
        "/region/cluster/.",
        |options, given| options.route_prefix = given.text().to_owned(),
    )
    .takes("prefix", Kind::Text, "/././"),
    flag(
        None,
        "send-invalid-route-to-default",
        "Keys with an unknown routing prefix take the default route",
        "Without this flag, they get an error.",
        |options, _| options.invalid_to_default = true,
    ),
];
