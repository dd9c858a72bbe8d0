//! The packages, made of the released binary: the wheel, installed by pip into an environment of its own and run from there by its
//! path; the Debian package, unpacked into a folder and run as its service says; the image, run as its configuration says.
//!
//! pip brings ONNX Runtime from its index; the program gets an empty environment, so nothing but its own place tells it
//! where that is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use e2e::clients::{finished, program};
use e2e::{Host, PATIENCE, assert_close, component, host_binary, request, root};
use serde_json::Value;

/// Of the wheel of a plain release build, in bytes: 17.75 MiB, of which the client of buckets
/// takes 0.8 (docs/decisions/0014-applications.md). What ships is a build of `make dist`, whose
/// goal is 15 MB.
const MOST: u64 = (17 << 20) + (768 << 10);

/// Of the image, in bytes.
const MOST_OF_IMAGE: u64 = 40_000_000;

/// Makes a package, `wheel`, `deb` or `image`, in `folder`.
fn pack(kind: &str, folder: &Path) -> PathBuf {
    component("iris-wasm");
    for library in ["image", "outbound", "tensor", "tokenizer"] {
        component(&format!("library/{library}"));
    }
    let mut command = Command::new(root().join("scripts/package.sh"));
    command.arg(kind).arg(host_binary()).arg(folder);
    finished(&mut command, "scripts/package.sh").trim().into()
}

/// The wheel, and the environment that it is installed in.
struct Installed {
    wheel: PathBuf,
    prefix: PathBuf,
}

impl Installed {
    fn get() -> &'static Installed {
        static INSTALLED: LazyLock<Installed> = LazyLock::new(|| {
            let folder = root().canonicalize().unwrap().join("target/tmp/install");
            let _ = std::fs::remove_dir_all(&folder);
            let (wheel, prefix) = (pack("wheel", &folder), folder.join("venv"));
            finished(Command::new("python3").args(["-m", "venv"]).arg(&prefix), "python3 -m venv");
            let mut pip = Command::new(prefix.join("bin/pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check"]);
            finished(pip.arg(format!("{}[onnx]", wheel.display())), "pip install");
            Installed { wheel, prefix }
        });
        &INSTALLED
    }

    /// The installed program with an empty environment.
    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.prefix.join("bin/modelhost"));
        command.args(arguments).env_clear().current_dir("/");
        command
    }

    /// A file that pip installed, by the end of its path.
    fn file(&self, end: &str) -> PathBuf {
        let packages = std::fs::read_dir(self.prefix.join("lib")).unwrap().next().unwrap().unwrap();
        let file = packages.path().join("site-packages").join(end);
        assert!(file.is_file(), "{}", file.display());
        file
    }

    fn info(&self, file: &str) -> PathBuf {
        self.file(&format!(concat!("modelhost-", env!("CARGO_PKG_VERSION"), ".dist-info/{}"), file))
    }
}

/// Sends the sample of the iris example and checks the answer.
fn check_iris(host: &Host) {
    let reply = host.post("/iris", std::fs::read(root().join("examples/iris-wasm/sample.json")).unwrap());
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_close(&reply.json(), &expected());
}

fn expected() -> Value {
    let file = root().join("examples/iris-wasm/expected.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[test]
fn a_wheel_and_its_extra_are_all_that_serving_takes() {
    let installed = Installed::get();
    let config = installed.prefix.join("share/modelhost/demo/modelhost.toml");
    let mut command = installed.program(&["serve", "--config", config.to_str().unwrap()]);
    command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let host = Host::try_start(command).unwrap_or_else(|(status, log)| panic!("{status}:\n{log}"));
    check_iris(&host);
    // It is the environment's own engine.
    let engine = installed.file("onnxruntime/capi/__init__.py");
    let folder = engine.parent().unwrap();
    let log = host.log();
    assert!(log.contains(&format!("library.path={}/libonnxruntime.so.", folder.display())), "{log}");

    let version = finished(&mut installed.program(&["--version"]), "modelhost --version");
    assert!(version.starts_with(concat!("modelhost ", env!("CARGO_PKG_VERSION"), "\n")), "{version}");
    assert!(version.contains(folder.to_str().unwrap()), "{version}");
}

#[test]
fn the_demo_serves_and_says_what_to_send() {
    let ports = ["demo", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let mut command = Installed::get().program(&ports);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .take_while(|line| !line.contains("Ctrl-C"))
        .collect();
    let said = lines.join("\n");
    let listening = lines.iter().find_map(|line| line.strip_prefix("listening on "));
    let admin = lines.iter().find_map(|line| line.strip_prefix("admin on "));
    let curl = lines.iter().find_map(|line| line.strip_prefix("  curl "));
    let (url, sample) = curl.expect(&said).split_once(" --json '").expect(&said);
    assert_eq!(url, format!("{}/iris", listening.expect(&said)));
    let sample = sample.strip_suffix('\'').expect(&said);
    // As it is written down.
    let shown = said.split("\n\nThen:").next().unwrap().replace(listening.unwrap(), "http://127.0.0.1:8000");
    let shown = shown.replace(admin.expect(&said), "http://127.0.0.1:8001");
    let guide = std::fs::read_to_string(root().join("docs/install.md")).unwrap();
    assert!(
        guide.contains(&format!("$ modelhost demo\n{shown}\n```")),
        "docs/install.md does not show\n{shown}"
    );

    let reply = request("POST", url, &[("content-type", "application/json")], sample.as_bytes());
    let page = request("GET", &url.replace("/iris", "/docs/"), &[], b"");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_close(&reply.json(), &expected());
    assert!(said.contains(&url.replace("/iris", "/docs is ")) && page.status == 200, "{said}");
    // The commands that it names are there.
    let next: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("  modelhost ")).collect();
    let commands: Vec<&str> = next.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(commands, ["new", "serve", "serve"], "{said}");
    for command in commands {
        finished(&mut Installed::get().program(&[command, "--help"]), command);
    }
}

#[test]
fn the_demo_says_what_is_missing_where_it_is_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("modelhost");
    std::fs::copy(host_binary(), &alone).unwrap();
    let output = Command::new(&alone).arg("demo").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with("error: the demo's files are not installed beside this program\n  hint: "),
        "{stderr}"
    );
}

/// What `make install` puts there, twice: the second time over a program that runs.
#[test]
fn a_prefix_of_ones_own_has_all_that_the_packages_have() {
    let prefix = tempfile::tempdir().unwrap();
    let bin = pack("tree", prefix.path());
    assert_eq!(bin, prefix.path().canonicalize().unwrap().join("bin/modelhost"));
    let mut command = Command::new(&bin);
    command.args(["demo", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let host = Host::try_start(command).unwrap_or_else(|(status, log)| panic!("{status}:\n{log}"));
    pack("tree", prefix.path());
    check_iris(&host);
    for file in [
        "share/man/man1/modelhost-serve.1",
        "share/bash-completion/completions/modelhost",
        "share/zsh/site-functions/_modelhost",
        "share/fish/vendor_completions.d/modelhost.fish",
        "share/modelhost/library/image.wasm",
        "share/modelhost/engine/quickjs.wasm",
    ] {
        let text = std::fs::read(prefix.path().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(!text.is_empty(), "{file}");
    }
}

/// `make dist` makes its profile of what this sends, and takes half an hour, so no other test runs it.
#[test]
fn the_run_for_the_profile_is_answered() {
    component("iris-wasm");
    let mut run = Command::new(program("bin/python"));
    finished(run.arg(root().join("scripts/exercise.py")).arg("0.02").arg(host_binary()), "exercise");
}

#[test]
fn the_wheel_is_small_and_made_for_the_c_library_that_its_name_tells() {
    let wheel = &Installed::get().wheel;
    let size = std::fs::metadata(wheel).unwrap().len();
    assert!(size <= MOST, "{size} bytes");

    // Every version that the binary names; what it was linked to may have more.
    let binary = std::fs::read(Installed::get().prefix.join("bin/modelhost")).unwrap();
    let text = binary.utf8_chunks().flat_map(|chunk| chunk.valid().split('\0'));
    let versions =
        text.filter_map(|text| text.strip_prefix("GLIBC_2.")?.split('.').next()?.parse::<u32>().ok());
    let newest = versions.max().expect("the binary is linked dynamically");
    let name = wheel.file_name().unwrap().to_str().unwrap();
    let expected = format!(
        "modelhost-{}-py3-none-manylinux_2_{newest}_{}.whl",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    );
    assert_eq!(name, expected);

    let again = tempfile::tempdir().unwrap();
    assert!(
        std::fs::read(wheel).unwrap() == std::fs::read(pack("wheel", again.path())).unwrap(),
        "it is reproducible"
    );
}

#[test]
fn the_wheel_lists_what_it_is_made_of() {
    let document = std::fs::read(Installed::get().info("sboms/modelhost.cdx.json")).unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    assert_eq!((&document["bomFormat"], &document["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let mut found = BTreeMap::new();
    for component in document["components"].as_array().unwrap() {
        let (name, version) = (text(&component["name"]), text(&component["version"]));
        let hash = text(&component["hashes"][0]["content"]);
        let entry = lock.split("\n\n").find(|entry| entry.contains(&format!("\nchecksum = \"{hash}\"")));
        let entry = entry.unwrap_or_else(|| panic!("no checksum of {name} {version} in Cargo.lock"));
        assert!(entry.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")), "{entry}");
        text(&component["licenses"][0]["expression"]);
        found.insert(text(&component["bom-ref"]), name);
    }
    let names: BTreeSet<&str> = found.values().map(String::as_str).collect();
    assert!(["wasmtime", "tokio", "ort", "clap_mangen"].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(!names.contains("protox"), "that is needed to build, and not shipped");
    let itself = text(&document["metadata"]["component"]["bom-ref"]);
    for entry in document["dependencies"].as_array().unwrap() {
        for reference in entry["dependsOn"].as_array().unwrap().iter().chain([&entry["ref"]]) {
            let reference = text(reference);
            assert!(reference == itself || found.contains_key(&reference), "{reference}");
        }
    }
}

/// Runs the package's scripts as `dpkg` does, with a `systemctl` that notes what it is told.
fn maintainer_scripts_tell_systemd(package: &Path, folder: &Path) {
    let (scripts, bin, told) = (folder.join("scripts"), folder.join("bin"), folder.join("told"));
    finished(Command::new("dpkg-deb").arg("-e").arg(package).arg(&scripts), "dpkg-deb");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("systemctl"), format!("#!/bin/sh\necho \"$@\" >>{}\n", told.display())).unwrap();
    std::fs::set_permissions(bin.join("systemctl"), Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    for (script, action, expected) in [
        ("postinst", "configure", "daemon-reload\ntry-restart modelhost.service\n"),
        ("postinst", "abort-upgrade", ""),
        ("prerm", "upgrade", ""),
        ("prerm", "remove", "stop modelhost.service\n"),
        ("postrm", "remove", "daemon-reload\n"),
        ("postrm", "upgrade", "daemon-reload\n"),
    ] {
        std::fs::write(&told, "").unwrap();
        let mut run = Command::new(scripts.join(script));
        finished(run.arg(action).env("PATH", &path).env("SYSTEMD_RUN", folder), script);
        assert_eq!(std::fs::read_to_string(&told).unwrap(), expected, "{script} {action}");
        // Where there is no systemd, as in a container.
        let mut alone = Command::new("/bin/sh");
        finished(alone.arg(scripts.join(script)).arg(action).env("PATH", ""), script);
    }
}

#[test]
fn the_debian_package_runs_as_its_service_says() {
    let folder = tempfile::tempdir().unwrap();
    let package = pack("deb", folder.path());
    let files = folder.path().join("files");
    finished(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&files), "dpkg-deb");
    maintainer_scripts_tell_systemd(&package, folder.path());
    // As if the folder were the machine's root.
    let here = |text: &str| {
        ["/usr/", "/etc/", "/var/"]
            .iter()
            .fold(text.to_owned(), |text, top| text.replace(top, &format!("{}{top}", files.display())))
    };
    let config = files.join("etc/modelhost/modelhost.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, here(&text)).unwrap();
    let unit = std::fs::read_to_string(files.join("usr/lib/systemd/system/modelhost.service")).unwrap();
    let values = |key: &str| -> Vec<String> {
        unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(here).collect()
    };
    let command = |key: &str| {
        let lines = values(key);
        let mut words = lines.first().unwrap_or_else(|| panic!("no {key} in\n{unit}")).split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).env_clear();
        command.envs(values("Environment").iter().map(|pair| pair.split_once('=').unwrap()));
        // The package has no engine; this is where the tests have theirs.
        command.envs(
            ["HOME", "XDG_DATA_HOME", "ORT_DYLIB_PATH"]
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        command
    };
    let checked = finished(&mut command("ExecStartPre"), "modelhost check");
    assert!(checked.contains("iris"), "{checked}");

    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut buffer = [0; 100];
        let length = manager.recv(&mut buffer).expect("the manager is told");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let mut service = command("ExecStart");
    service.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    service.env("NOTIFY_SOCKET", &socket);
    let host = Host::try_start(service).unwrap_or_else(|(status, log)| panic!("{status}:\n{log}"));
    assert_eq!(told(), "READY=1");
    check_iris(&host);
    host.signal("TERM");
    assert_eq!(told(), "STOPPING=1");
    let (status, log) = host.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    assert!(!log.is_empty() && log.lines().all(is_json), "{log}");
    assert!(files.join("var/cache/modelhost").is_dir(), "compiled handlers are kept");
    for file in ["man/man1/modelhost-serve.1.gz", "bash-completion/completions/modelhost"] {
        assert!(files.join("usr/share").join(file).is_file(), "{file}");
    }
}

/// Unpacks an image's archive and gives its configuration; the files are in `root` of the folder.
fn unpacked(archive: &Path, folder: &Path) -> Value {
    let tar = |file: &Path, to: &Path| {
        std::fs::create_dir_all(to).unwrap();
        finished(Command::new("tar").arg("-xf").arg(file).arg("-C").arg(to), "tar");
    };
    let layout = folder.join("layout");
    tar(archive, &layout);
    let read = |path: &str| std::fs::read(layout.join(path)).unwrap();
    let blob = |described: &Value| {
        let digest = described["digest"].as_str().unwrap().replace(':', "/");
        let path = format!("blobs/{digest}");
        assert_eq!(read(&path).len() as u64, described["size"].as_u64().unwrap());
        path
    };
    let index: Value = serde_json::from_slice(&read("index.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&read(&blob(&index["manifests"][0]))).unwrap();
    for layer in manifest["layers"].as_array().unwrap() {
        tar(&layout.join(blob(layer)), &folder.join("root"));
    }
    serde_json::from_slice(&read(&blob(&manifest["config"]))).unwrap()
}

/// The script's name is the root, its first argument the user, the rest the command.
const AS_A_CONTAINER: &str = r#"
    /usr/bin/mount -t proc proc "$0/proc"
    user=$1
    shift
    exec /usr/sbin/chroot --userspec="$user" "$0" "$@""#;

/// As a container engine does: its own root, `/proc` and user, and nothing of this environment.
#[test]
fn the_image_runs_as_its_configuration_says() {
    let folder = tempfile::tempdir().unwrap();
    let archive = pack("image", folder.path());
    let size = std::fs::metadata(&archive).unwrap().len();
    assert!(size <= MOST_OF_IMAGE, "{size} bytes");
    let again = tempfile::tempdir().unwrap();
    assert!(
        std::fs::read(&archive).unwrap() == std::fs::read(pack("image", again.path())).unwrap(),
        "it is reproducible"
    );

    let image = unpacked(&archive, folder.path());
    let words = |key: &str| -> Vec<String> { serde_json::from_value(image["config"][key].clone()).unwrap() };
    let user: String = serde_json::from_value(image["config"]["User"].clone()).unwrap();
    let root = folder.path().join("root");
    assert!(root.join("usr/lib/locale/en_US.utf8/LC_CTYPE").is_file(), "TF-IDF models want the locale");
    let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"].map(str::to_owned);
    let entry = [words("Entrypoint"), words("Cmd"), listen.to_vec()].concat();
    // Another user than root can be only itself in a root of its own.
    let is_root = finished(Command::new("id").arg("-u"), "id").trim() == "0";
    let (mapped, user) = if is_root { (None, user) } else { (Some("--map-root-user"), "0:0".to_owned()) };
    let mut command = Command::new("/usr/bin/unshare");
    command.arg("--mount").args(mapped).args(["/bin/sh", "-ec", AS_A_CONTAINER]);
    command.arg(&root).arg(user).args(entry);
    command.env_clear();
    command.envs(words("Env").iter().map(|pair| pair.split_once('=').unwrap()));
    let host = Host::try_start(command).unwrap_or_else(|(status, log)| panic!("{status}:\n{log}"));
    check_iris(&host);
    host.wait_for_log("library.path");
    host.signal("TERM");
    let (status, log) = host.wait();
    assert_eq!(status.code(), Some(0), "{log}");
}
