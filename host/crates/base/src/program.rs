//! The program's name, and the paths that it serves itself.
//!
//! Place in the flow: hints and made projects name the program; configurations may not take its paths.

use std::ffi::OsStr;
use std::path::Path;

/// The name of the installed program.
pub const NAME: &str = "modelhost";

/// The first segments of the server's own paths.
const OWN: &str = "metrics healthz livez readyz ping v1 v2 admin _k __status__ docs openapi.json";

/// The program's name as its caller knows it: `host` where it is built, `modelhost` where it is installed.
pub fn program() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().and_then(OsStr::to_str);
    name.unwrap_or(NAME).to_owned()
}

/// Whether the server itself answers below `/SEGMENT`, where an endpoint of this name would be.
pub fn is_the_servers(segment: &str) -> bool {
    OWN.split(' ').any(|own| own == segment)
}
