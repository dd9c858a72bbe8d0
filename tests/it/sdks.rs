//! The SDKs as packages: made by `make sdks`, installed where there is nothing else, their unit tests
//! run against what was installed.
//!
//! What they do in a component is in `templates.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::clients::finished;
use e2e::{path_with_tools, root};

/// The packages, in `folder`.
fn packed(folder: &Path) -> Vec<PathBuf> {
    let mut command = Command::new(root().join("scripts/sdks.sh"));
    let printed = finished(command.arg(folder), "scripts/sdks.sh");
    printed.lines().map(PathBuf::from).collect()
}

fn bash(folder: &Path, commands: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-ec", commands]).current_dir(folder).env("PATH", path_with_tools());
    finished(&mut command, commands)
}

/// Two checkers of types agree with the SDK's sources, and see its types where the wheel is installed: the errors of a program are those
/// of the lines that say so.
fn python_has_types(folder: &Path, sdk: &Path) {
    let tools = sdk.parent().unwrap().join("target");
    let (mypy, pyright) = (tools.join("types/bin/mypy"), tools.join("pyright/node_modules/.bin/pyright"));
    for tool in [&mypy, &pyright] {
        assert!(tool.exists(), "`{}` is missing; hint: run `scripts/types.sh` first", tool.display());
    }
    let (mypy, pyright) = (mypy.display(), pyright.display());
    let cache = format!("--cache-dir {}", folder.join("mypy").display());
    bash(&sdk.join("python"), &format!("{mypy} {cache} && {pyright}"));

    let program = root().join("tests/languages/python-types/app.py");
    let text = std::fs::read_to_string(&program).unwrap();
    std::fs::write(folder.join("program.py"), &text).unwrap();
    let wrong: Vec<usize> =
        (1..).zip(text.lines()).filter(|(_, line)| line.ends_with("# wrong")).map(|it| it.0).collect();
    assert_eq!(wrong.len(), 9);
    for check in [
        format!("{mypy} {cache} --strict --python-executable venv/bin/python program.py"),
        format!("{pyright} --pythonpath venv/bin/python program.py"),
    ] {
        let printed = bash(folder, &format!("! {check}"));
        let line = |text: &str| text.split_once("program.py:")?.1.split(':').next()?.parse().ok();
        let mut found: Vec<usize> =
            printed.lines().filter(|line| line.contains("error")).filter_map(line).collect();
        found.dedup();
        assert_eq!(found, wrong, "{check}\n{printed}");
    }
}

#[test]
fn packages_are_made_installed_and_tested() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let packages = packed(&folder.join("packages"));
    let names: Vec<_> = packages.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    let expected = [
        "modelhost_guest-0.1.0-py3-none-any.whl",
        "modelhost-guest-0.1.0.tgz",
        "go",
        "modelhost-guest-c-0.1.0.tar.gz",
        "modelhost-guest-zig-0.1.0.tar.gz",
    ];
    assert_eq!(names, expected);
    let again = packed(&folder.join("again"));
    let read = |path: &PathBuf| std::fs::read(path).unwrap();
    for made in [0, 3, 4] {
        assert!(read(&packages[made]) == read(&again[made]), "{}: the same each time", names[made]);
    }

    let sdk = root().canonicalize().unwrap().join("guest-sdk");
    let (wheel, tarball) = (packages[0].display(), packages[1].display());
    // The tests are copied, so that they find the package that is installed and not the sources beside them.
    bash(
        &folder,
        &format!(
            "python3 -m venv venv
            venv/bin/pip install --quiet --disable-pip-version-check --no-index {wheel}
            cp -r {0}/python/tests python
            cp {1}/tests/languages/metrics.json python
            venv/bin/python -m unittest discover python
            sdk=$(venv/bin/python -c 'import modelhost_guest as it; print(it.__path__[0] + \"/..\")')
            PYTHONPATH=$sdk {1}/target/clients/bin/python -m unittest discover -s python -p numpy_arrays.py",
            sdk.display(),
            sdk.parent().unwrap().display()
        ),
    );
    python_has_types(&folder, &sdk);
    bash(
        &folder,
        &format!(
            "echo '{{\"type\": \"module\"}}' > package.json
            npm install --no-audit --no-fund --loglevel=error --offline {tarball}
            cp -r {0}/js/test js
            cp {0}/../tests/languages/metrics.json js
            node --test js/ {0}/quickjs/test",
            sdk.display()
        ),
    );
    let templates = sdk.parent().unwrap().join("host/crates/project/templates/iris");
    let (proxy, c, zig) = (packages[2].display(), packages[3].display(), packages[4].display());
    bash(
        &folder,
        &format!(
            "mkdir go && cp {}/go/*.go go && cd go
            export GOPROXY=file://{proxy} GONOSUMDB=modelhost.example GOFLAGS=-mod=mod GOMODCACHE={}/modules
            go mod init flowers && go get modelhost.example/guest@v0.1.0 && go test .
            go clean -modcache",
            templates.display(),
            folder.display()
        ),
    );
    bash(
        &folder,
        &format!(
            "mkdir c && tar -xzf {c} -C c --strip-components 1
            zig cc -std=c17 -Ic/include c/src/{{image,json,modelhost,models,tensor,tokenizer}}.c {0}/c/tests/test.c -lm -o c/test
            c/test
            mkdir zig && cp {0}/zig/build.zig zig && cp {0}/zig/build.zig.zon zig && cd zig
            zig fetch --global-cache-dir cache {zig}",
            sdk.display()
        ),
    );
}
