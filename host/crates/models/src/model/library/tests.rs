//! The order of the search and its messages, in folders made for the test: no library is needed.

use super::*;

fn onnx_runtime() -> Library {
    Library {
        engine: "ONNX Runtime",
        stem: "libonnxruntime",
        major: "1",
        variable: Some("ORT_DYLIB_PATH"),
        folder: "modelhost/lib",
        package: "onnxruntime/capi",
        cure: "run `make setup`, or `pip install onnxruntime`".to_owned(),
        cure_unusable: "run `make setup`".to_owned(),
    }
}

/// Makes `files` (paths under a fresh root) and searches there with `variables`, whose values are under the
/// root as well. A candidate opens if its path contains `good`.
fn search(files: &[&str], variables: &[(&str, &str)], good: &str) -> Result<String, String> {
    let root = tempfile::tempdir().unwrap();
    for file in files {
        let file = root.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
    let variable = |name: &str| {
        let (_, value) = variables.iter().find(|(variable, _)| *variable == name)?;
        Some(root.path().join(value).into_os_string())
    };
    let executable = root.path().join(HOST);
    let search = Search::new(onnx_runtime(), None, Some(&executable), variable, root.path());
    let found = search.first_usable(|path| {
        let opens = path.to_str().unwrap().contains(good);
        if opens { Ok(()) } else { Err("it does not open".to_owned()) }
    });
    let short = |text: String| text.replace(root.path().to_str().unwrap(), "");
    found.map(|(path, ())| short(path.display().to_string())).map_err(|error| short(error.to_string()))
}

/// The host's own file, in a virtual environment.
const HOST: &str = "own/bin/host";

const PACKAGE: &str = "lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1";

#[test]
#[cfg(not(target_os = "macos"))]
fn places_are_tried_in_the_documented_order() {
    let venv = format!("venv/{PACKAGE}");
    let python = format!("py/{PACKAGE}");
    let files = [
        "named.so",
        "data/modelhost/lib/libonnxruntime.so.1.9.0",
        "data/modelhost/lib/libonnxruntime.so.1.31.1",
        "data/modelhost/lib/libonnxruntime_providers_shared.so",
        "home/.local/share/modelhost/lib/libonnxruntime.so",
        venv.as_str(),
        "py/bin/python3",
        python.as_str(),
        "usr/local/lib/libonnxruntime.so.1.20.0",
    ];
    let mut variables = vec![
        ("ORT_DYLIB_PATH", "named.so"),
        ("XDG_DATA_HOME", "data"),
        ("HOME", "home"),
        ("VIRTUAL_ENV", "venv"),
        ("PATH", "py/bin"),
    ];
    let mut found = Vec::new();
    for _ in 0..6 {
        found.push(search(&files, &variables, "/").unwrap());
        if !variables.is_empty() {
            variables.remove(0);
        }
    }
    let expected = [
        "/named.so",
        "/data/modelhost/lib/libonnxruntime.so.1.31.1",
        "/home/.local/share/modelhost/lib/libonnxruntime.so",
        &format!("/{venv}"),
        &format!("/{python}"),
        "/usr/local/lib/libonnxruntime.so.1.20.0",
    ];
    assert_eq!(found, expected);
    // The loader's turn is before the folders.
    assert_eq!(search(&files, &[], "libonnxruntime.so.1").unwrap(), "libonnxruntime.so.1");
}

#[test]
#[cfg(not(target_os = "macos"))]
fn the_environment_of_the_host_itself_need_not_be_active() {
    let (own, venv) = (format!("own/{PACKAGE}"), format!("venv/{PACKAGE}"));
    let found = |variables: &[(&str, &str)]| search(&[&own, &venv], variables, "/").unwrap();
    assert_eq!(found(&[]), format!("/{own}"));
    assert_eq!(found(&[("VIRTUAL_ENV", "venv")]), format!("/{own}"));
    // Nor is it beaten by what a build from the sources left in the user's folder.
    let data = "data/modelhost/lib/libonnxruntime.so.1.31.1";
    assert_eq!(search(&[&own, data], &[("XDG_DATA_HOME", "data")], "/").unwrap(), format!("/{own}"));
    // Packages bring executables among their own files, too.
    let folders =
        own_folders(Path::new("/v/lib/python3.11/site-packages/modelhost/host"), "onnxruntime/capi");
    assert_eq!(folders, [Path::new("/v/lib/python3.11/site-packages/onnxruntime/capi")]);
}

#[test]
fn what_was_asked_for_is_never_replaced() {
    let files = ["named.so", "data/modelhost/lib/libonnxruntime.so.1.31.1"];
    let error =
        search(&files, &[("ORT_DYLIB_PATH", "named.so"), ("XDG_DATA_HOME", "data")], "1.31").unwrap_err();
    assert!(error.starts_with("cannot use `/named.so` (from ORT_DYLIB_PATH) as ONNX Runtime: "), "{error}");
    assert!(error.contains("hint: run `make setup`"), "{error}");
}

#[test]
fn nothing_found_lists_every_place_and_the_cure() {
    let error = search(&["py/bin/python3"], &[("HOME", "home"), ("PATH", "py/bin")], "no such").unwrap_err();
    for part in
        ["/home/.local/share/modelhost/lib: no lib", "/usr/local/lib: no lib", "make setup", "pip install"]
    {
        assert!(error.contains(part), "{part} in {error}");
    }
}
