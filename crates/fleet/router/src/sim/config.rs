//! Any bytes as a configuration: a plan, or an error that says where it is.

use super::hosts::{Answerer, Scene};
use crate::config::{Environment, GlobalParams, expand_config};
use crate::message::routing_prefix::RoutingPrefix;

/// The configuration's name in errors.
const NAME: &str = "route.json";

/// One request of each kind, with which a plan is tried.
const REQUESTS: &[u8] =
    b"get k\r\nget a b c\r\nset k 0 0 1\r\nx\r\nadd k 0 9 1\r\nx\r\ndelete k\r\nincr k 1\r\ntouch k 9\r\n\
    gets k\r\ngat 9 k\r\nmg k v t f\r\nms k 1\r\nx\r\nmd k\r\nma k\r\n";

/// Checks that a configuration makes a plan by which requests can be routed, or an error with its file and line; panics if
/// it does not. How long that takes and how much memory it needs is for the caller to see.
///
/// The texts of imports, which have the names `1`, `2` and so on, follow the configuration in `input`, each behind a
/// zero byte.
///
/// # Panics
/// If the property does not hold.
pub fn check_config(input: &[u8]) {
    let mut texts = input.split(|&byte| byte == 0);
    let text = texts.next().unwrap_or_default();
    let imports: Vec<&[u8]> = texts.collect();
    let mut importer = |path: &str| {
        let number = path.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let import = number.and_then(|number| imports.get(number));
        import.map(|text| text.to_vec()).ok_or_else(|| "no such import".to_owned())
    };
    let params = GlobalParams {
        default_route: &RoutingPrefix::default(),
        host_id: 1,
        router_name: "libmcrouter.11211",
        service_name: "main",
        proxy_count: 1,
        config_params: &[],
        options: &[],
    };
    let environment = Environment {
        globals: params.constants(),
        importer: &mut importer,
        is_local: &|address| address.is_loopback(),
        seed: 1,
    };
    let outcome = expand_config(NAME, text, environment).and_then(|expanded| {
        Scene::new(&expanded.root, Answerer::default()).map_err(|error| error.located(&expanded.sources))
    });
    match outcome {
        Ok(mut scene) => {
            scene.send(&[REQUESTS]);
            scene.wait(100_000);
        }
        Err(error) => {
            let said = error.to_string();
            let place = said.split(' ').next().unwrap_or_default();
            let (file, line) =
                place.strip_suffix(':').and_then(|place| place.rsplit_once(':')).unwrap_or_default();
            let is_known = file == NAME || file.parse::<usize>().is_ok_and(|number| number <= imports.len());
            assert!(
                is_known && line.parse::<u32>().is_ok_and(|line| line > 0),
                "without file and line: {said}"
            );
        }
    }
}
