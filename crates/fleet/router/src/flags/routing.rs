//! Flags for the configuration and its routes.

use std::path::PathBuf;

use ::flags::Kind;

use super::entry::{RouteFlag, flag};
use super::options::{ConfigSource, Validate};
use crate::client::VALUE_MAX;

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
        None,
        "disable-shutdown-cmd",
        "The command `shutdown` is refused",
        "Without this flag any client may end the router with it, as in mcrouter. It is answered SERVER_ERROR: shutdown not enabled.",
        |options, _| options.shutdown_enabled = false,
    ),
    flag(
        None,
        "allow-only-gets",
        "Serve only gets; everything else is answered as without the item",
        "mg is a get, too. What stores is answered NOT_STORED, what deletes NOT_FOUND, and nothing is sent to a server; \
            flush_all is controlled by --enable-flush-cmd.",
        |options, _| options.only_gets = true,
    ),
    flag(
        Some('R'),
        "route-prefix",
        "Routing prefix of keys that have none",
        "/region/cluster/; the first and the last slash may be left out.",
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
    flag(
        None,
        "big-value-split-threshold",
        "Longer values are kept in parts of this length, in bytes",
        "0 for none.",
        |options, given| options.big_value_split_threshold = given.number(),
    )
    .takes("bytes", Kind::Number { min: 0, max: VALUE_MAX as i64 }, "0"),
    flag(
        None,
        "big-value-batch-size",
        "Parts of a value that are asked for at a time",
        "0 for as many as possible: 1000.",
        |options, given| options.big_value_batch_size = given.number(),
    )
    .takes("number", Kind::Number { min: 0, max: 10_000 }, "10"),
    flag(
        None,
        "big-value-hide-reply-flag",
        "Clients do not see the mark of a value in parts among its flags",
        "The mark is the bit 32768.",
        |options, _| options.big_value_hides_flag = true,
    ),
    flag(
        Some('a'),
        "async-dir",
        "Folder for deletes that did not reach their server",
        "It must exist. Such a delete is written there, to be sent again later, and answered as one of a missing item; if \
         it cannot be written, with its error.",
        |options, given| options.async_dir = given.text().into(),
    )
    .takes("dir", Kind::Text, "/var/spool/mcrouter"),
    flag(
        None,
        "asynclog-disable",
        "Answer a delete that fails with its error, and write it nowhere",
        "",
        |options, _| options.asynclog = false,
    ),
    flag(
        None,
        "use-asynclog-version2",
        "Write records in the form AS2.0, which has the pool's name",
        "",
        |options, _| options.asynclog_version2 = true,
    ),
    flag(
        None,
        "runtime-vars-file",
        "A JSON file with runtime variables, read when it changes",
        "Weights of a WeightedCh3Rv hash, ranges of keys for shadows.",
        |options, given| options.runtime_variables = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "enable-logging-route",
        "Log requests that find or store an item",
        "At most 100 lines in a second from each thread, on standard error. Each key of a `get` becomes a request of its own.",
        |options, _| options.log_requests = true,
    ),
    flag(
        None,
        "target-max-shadow-requests",
        "Requests of shadows that a server may have; 0: any number",
        "Each thread counts those without a reply for itself. Further ones are not sent.",
        |options, given| options.shadows_max = given.number(),
    )
    .takes("num", Kind::Number { min: 0, max: 1_000_000 }, "1000"),
    flag(
        None,
        "shadow-report",
        "Compare replies of shadows, and write the result to a file",
        "Every 10 seconds; as JSON if the name ends with .json, else as text. Of the requests that a shadow gets, a tenth \
         is compared, or what its `compare_fraction` says. mcrouter has no such flag.",
        |options, given| options.shadow_report = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "compare-shadows",
        "Compare replies of shadows for the metrics, without a file",
        "What --shadow-report compares, as evenkeel_route_shadow_compared_total and its neighbours. mcrouter has no such flag.",
        |options, _| options.compares_shadows = true,
    ),
];
