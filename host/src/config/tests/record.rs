//! What is recorded, and what may not be; the access log.

use super::*;

#[test]
fn recording_is_off_unless_there_is_a_folder() {
    let folder = Folder::new();
    let dir = folder.0.path();
    assert_eq!(folder.serve(&["plugin DIR/h.wasm"]).unwrap().record, None);
    let config = folder.serve(&["plugin DIR/h.wasm", "record DIR/r", "MODELHOST_RECORD_SIZE 1MiB"]).unwrap();
    assert_eq!(config.record, Some(crate::capture::record::Config { folder: dir.join("r"), size: 1 << 20 }));
    assert!(!dir.join("r").exists(), "reading a configuration writes nothing");
    folder.write("c.toml", "[record]\ndir = 'r'\n[[endpoint]]\nplugin = 'h.wasm'\nrecord_share = 0.25");
    let config = folder.serve(&["config DIR/c.toml"]).unwrap();
    assert_eq!(
        config.record,
        Some(crate::capture::record::Config { folder: dir.join("r"), size: 256 << 20 })
    );
    assert_eq!(config.endpoints[0].record_share, Ratio::new(0.25).unwrap());
}

#[test]
fn what_could_be_a_secret_is_not_recorded() {
    let folder = Folder::new();
    let given = ["plugin DIR/h.wasm", "record DIR/r", "env KEY=hush"];
    assert_eq!(
        folder.serve(&given).unwrap_err(),
        "1 problem in the configuration\n  \
         --record: endpoint `h` has environment variables, and a recording would hold what its handler makes of them; \
         hint: set `record_share = 0` for it, or remove its `env`"
    );
    let refused = folder.serve(&[&given[..], &["MODELHOST_RECORD_SHARE 0"]].concat());
    assert_eq!(refused.unwrap().endpoints[0].record_share, Ratio::ZERO);
    // A bare model has no boundary, so that its variables, which no handler sees, are none either.
    assert!(folder.serve(&["model DIR/m.onnx", "record DIR/r", "env KEY=hush"]).is_ok());
}

#[test]
fn shares_and_bounds_are_judged() {
    let folder = Folder::new();
    for (given, expected) in [
        ("record-share 1.5", "`1.5` is no share; hint: write a number from 0 to 1"),
        ("record-share -1", "`-1` is no share"),
        ("record-share nan", "`nan` is no share"),
        ("record-share half", "`half` is no share"),
        ("record-size 1", "`1` is too little; hint: the least is `1KiB`"),
    ] {
        let problem = folder.serve(&["plugin DIR/h.wasm", "record DIR/r", given]).unwrap_err();
        assert!(problem.contains(expected), "{given}: {problem}");
    }
}

#[test]
fn an_access_log_has_a_format_a_file_and_a_share() {
    use crate::telemetry::access_log::{Config, Format};

    let folder = Folder::new();
    let dir = folder.0.path();
    let config = |given: &[&str]| folder.serve(given).unwrap().access_log;
    assert_eq!(config(&["model DIR/m.onnx", "access-log-file DIR/a.log"]), None);
    let half = Config { format: Format::Json, file: Some(dir.join("a.log")), share: Ratio::percent(50) };
    let flags = ["model DIR/m.onnx", "access-log json", "access-log-file DIR/a.log", "access-log-share 0.5"];
    assert_eq!(config(&flags), Some(half.clone()));
    let keys =
        "[log]\naccess = 'json'\naccess_file = 'a.log'\naccess_share = 0.5\n[[endpoint]]\nmodel = 'm.onnx'";
    folder.write("c.toml", keys);
    assert_eq!(config(&["config DIR/c.toml"]), Some(half));
    assert_eq!(config(&["config DIR/c.toml", "MODELHOST_ACCESS_LOG off"]), None);
}
