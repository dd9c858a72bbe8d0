//! Packages with native code of a project in Python: wheels for components, in place of this machine's.
//!
//! In:  the project's environment, and the folder of wheels that comes with this program.
//! Out: a folder of packages, which goes before the environment; a warning for each package whose native code
//!      is left out.
//! Invariant: no version that a requirement does not allow: pip resolves once, with the wheels' versions
//! where the requirements allow them.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use tempfile::TempDir;

use super::super::Project;
use super::super::tool::Interrupted;
use super::{MANIFEST, MODULE, NO_PYTHON};
use crate::beside;
use crate::file;
use crate::new::{advice, distribution, module};
use crate::program::program;

/// The script that finds the wheels which a project needs, and unpacks them.
const SCRIPT: &str = include_str!("../../../dev/python/wheels.py");
/// In the project's private folder: what the script said, and for which manifest and wheels.
const FOUND: &str = "wheels.found";
const STAMP: &str = "wheels.found-for";
/// Before the names of the wheels in what it said.
const TAKEN: char = '+';
/// The versions that pip is to prefer.
const CONSTRAINTS: &str = "wheels.txt";

/// The wheels that came with this program.
pub(super) struct Wheels {
    folder: PathBuf,
    /// Name and version of each, sorted.
    packages: Vec<(String, String)>,
}

impl Wheels {
    pub(super) fn beside_this_program() -> Wheels {
        let executable = env::current_exe().unwrap_or_default();
        let mut places = beside(&executable, "share/modelhost/wheels", "target/wasi-wheels");
        Wheels::of(places.find(|path| path.is_dir()).unwrap_or_default())
    }

    fn of(folder: PathBuf) -> Wheels {
        let names = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut packages: Vec<_> = names
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let mut parts = name.strip_suffix(".whl")?.split('-');
                Some((parts.next()?.to_owned(), parts.next()?.to_owned()))
            })
            .collect();
        packages.sort();
        Wheels { folder, packages }
    }

    /// A line for each, as pip wants constraints.
    fn constraints(&self) -> String {
        self.packages.iter().map(|(name, version)| format!("{name}=={version}\n")).collect()
    }

    /// Names as arguments of pip's.
    fn names(&self) -> String {
        self.packages.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",")
    }
}

/// Makes the environment with what the manifest names: in the versions of the wheels, if the requirements
/// allow these and this machine's Python has them.
pub(super) fn install(project: &Project, environment: &Path, wheels: &Wheels) -> anyhow::Result<()> {
    // Packages that the manifest names no more are gone with the old one.
    if environment.exists() {
        fs::remove_dir_all(environment)?;
    }
    let mut venv = project.command("python3");
    project.finish(venv.args(["-m", "venv"]).arg(environment), NO_PYTHON, str::to_owned)?;
    let pip = || {
        let mut pip = project.command(environment.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", MANIFEST]);
        pip
    };
    if !wheels.packages.is_empty() {
        let constraints = project.private().join(CONSTRAINTS);
        fs::write(&constraints, wheels.constraints())?;
        let mut constrained = pip();
        // One that this machine has no wheel of would be compiled, for minutes.
        constrained.arg("-c").arg(&constraints).args(["--only-binary", &wheels.names()]);
        match project.finish(&mut constrained, NO_PYTHON, str::to_owned) {
            Ok(_) => return Ok(()),
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(_) => {}
        }
    }
    project.finish(&mut pip(), NO_PYTHON, str::to_owned)?;
    Ok(())
}

/// Finds out which wheels the project needs. Warns of each package that has native code and no wheel, once
/// for each manifest.
pub(super) fn find(project: &Project, environment: &Path, wheels: &Wheels) -> anyhow::Result<()> {
    let stamp = project.private().join(STAMP);
    let manifest = file::text(&project.folder.join(MANIFEST))?;
    let made_of = format!("{}{}\n{manifest}", wheels.constraints(), wheels.folder.display());
    if file::text(&stamp).is_ok_and(|it| it == made_of) {
        return Ok(());
    }
    let _ = fs::remove_file(&stamp);
    let mut python = project.command(environment.join("bin/python"));
    python.args(["-c", SCRIPT]).arg(&wheels.folder);
    let found = project.finish(&mut python, NO_PYTHON, str::to_owned)?;
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    for left in found.lines().filter_map(LeftOut::of) {
        // A build does not fail because stderr is closed.
        let _ = writeln!(io::stderr(), "warning: {}\n  hint: {}", left.text(), left.hint());
    }
    fs::write(project.private().join(FOUND), found)?;
    fs::write(&stamp, made_of).with_context(|| format!("cannot write `{}`", stamp.display()))
}

/// A folder with what the wheels have that the project needs, if it needs any. It is not in the project,
/// whose native modules componentize-py finds wherever they are, and would link twice.
pub(super) fn unpacked(project: &Project, environment: &Path) -> anyhow::Result<Option<TempDir>> {
    let found = file::text(&project.private().join(FOUND))?;
    if !found.lines().any(|line| line.starts_with(TAKEN)) {
        return Ok(None);
    }
    let folder = tempfile::tempdir().context("cannot make a folder for wheels")?;
    let mut python = project.command(environment.join("bin/python"));
    python.args(["-c", SCRIPT]).arg(Wheels::beside_this_program().folder).arg(folder.path());
    project.finish(&mut python, NO_PYTHON, str::to_owned)?;
    Ok(Some(folder))
}

/// The error of a build, which says so if it comes of a package whose native code is left out.
pub(super) fn explained(project: &Project, error: anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    let found = file::text(&project.private().join(FOUND)).unwrap_or_default();
    let cause = found.lines().filter_map(LeftOut::of).find(|left| left.is_cause(&text));
    match cause {
        Some(left) if text.contains("Error") => {
            let first = text.lines().next().unwrap_or_default();
            anyhow!("{}\n  hint: {}\n\nIts import failed: {first}", left.text(), left.hint())
        }
        _ => match without_package(&text) {
            Some(hint) => anyhow!("{}", hinted(&text, &hint)),
            None => error,
        },
    }
}

/// The way out where a module is not found that no requirement has brought; `None` for another error.
fn without_package(text: &str) -> Option<String> {
    let module = text.strip_prefix("ModuleNotFoundError: No module named '")?.split(['\'', '.']).next()?;
    Some(match advice(module) {
        Some(way) => format!("`{module}` is not for handlers: {way}"),
        None => {
            let name = distribution(module).unwrap_or(module);
            format!("name the package `{name}` in {MANIFEST}; a file of your own lies beside {MODULE}.py")
        }
    })
}

/// A text with a hint below its first line.
fn hinted(text: &str, hint: &str) -> String {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let rest = if rest.is_empty() { String::new() } else { format!("\n{rest}") };
    format!("{first}\n  hint: {hint}{rest}")
}

/// A package whose native code is not for components.
#[derive(Debug, PartialEq, Eq)]
struct LeftOut<'a> {
    name: &'a str,
    version: &'a str,
    /// The version of the wheel that there is, which the requirements do not allow.
    wheel: &'a str,
}

impl<'a> LeftOut<'a> {
    /// Of a line of the script's.
    fn of(line: &'a str) -> Option<LeftOut<'a>> {
        let (package, wheel) = line.split_once('\t')?;
        let (name, version) = package.split_once(' ')?;
        Some(LeftOut { name, version, wheel })
    }

    fn text(&self) -> String {
        let LeftOut { name, version, wheel } = self;
        if wheel.is_empty() {
            format!("`{name}` {version} has native code, and there is no wheel of it for components")
        } else {
            format!("`{name}` {version} has native code, and the wheel for components is of {wheel}")
        }
    }

    fn hint(&self) -> String {
        let LeftOut { name, wheel, .. } = self;
        if wheel.is_empty() {
            let way = advice(name).unwrap_or("what it has in Python works if it does without the rest");
            format!("{way}; packages that `{}` has wheels of: docs/python-packages.md", program())
        } else {
            format!("write `{name}=={wheel}` in {MANIFEST}, and what goes with that version")
        }
    }

    /// Whether the text of an error names the package's module.
    fn is_cause(&self, text: &str) -> bool {
        let (module, text) = (module(self.name), text.to_lowercase());
        let quoted = [format!("'{module}'"), format!("'{module}."), format!("/{module}/")];
        quoted.iter().any(|name| text.contains(name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::Settings;

    #[test]
    fn wheels_are_found_by_their_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b_c-1.2-cp314-cp314-wasi_wasm32.whl", "a-2.4.6-cp314-cp314-wasi_wasm32.whl", "a.made"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let wheels = Wheels::of(folder.path().to_owned());
        assert_eq!(wheels.constraints(), "a==2.4.6\nb_c==1.2\n");
        assert_eq!(wheels.names(), "a,b_c");
        assert!(Wheels::of(folder.path().join("none")).packages.is_empty());
    }

    #[test]
    fn what_is_left_out_is_named_with_a_way() {
        let left = LeftOut::of("pandas 2.3.1\t").unwrap();
        assert_eq!(left.text(), "`pandas` 2.3.1 has native code, and there is no wheel of it for components");
        assert!(left.hint().starts_with("arrays are numpy's"), "{}", left.hint());
        assert!(
            LeftOut::of("scikit-learn 1.7\t")
                .unwrap()
                .hint()
                .starts_with("the model runs in the host: export")
        );
        let other = LeftOut::of("numpy 1.26.0\t2.4.6").unwrap();
        assert_eq!(other.text(), "`numpy` 1.26.0 has native code, and the wheel for components is of 2.4.6");
        assert!(other.hint().starts_with("write `numpy==2.4.6` in requirements.txt"), "{}", other.hint());
        assert_eq!(LeftOut::of("a line of another kind"), None);
    }

    /// A project with these requirements and an environment with these packages: name, version, files, what
    /// they require. Wheels: name and version, each with a module. What is unpacked, and what is left out.
    fn unpacked(
        requirements: &str,
        installed: &[(&str, &str, &str, &str)],
        wheels: &[(&str, &str)],
    ) -> (Vec<String>, String) {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        write("requirements.txt", requirements);
        for (name, version, file, requires) in installed {
            let info = format!("site/{}-{version}.dist-info", name.replace('-', "_"));
            let requires =
                if requires.is_empty() { String::new() } else { format!("Requires-Dist: {requires}\n") };
            let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}");
            write(&format!("{info}/METADATA"), &metadata);
            write(&format!("{info}/RECORD"), &format!("{file},,\n"));
        }
        fs::create_dir(at("wheels")).unwrap();
        fs::create_dir(at("wasi")).unwrap();
        let script = format!(
            "import sys, zipfile\nfor name, version in {:?}:\n  \
             with zipfile.ZipFile(f'wheels/{{name}}-{{version}}-cp314-cp314-wasi_wasm32.whl', 'w') as made: \
             made.writestr(f'{{name}}/__init__.py', version)\n\
             sys.path.insert(0, 'site')\nimport importlib.metadata as found\nevery = found.distributions\n\
             found.distributions = lambda: every(path=['site'])\n\
             sys.argv = ['', 'wheels', 'wasi']\nexec({SCRIPT:?})",
            wheels.iter().map(|(a, b)| [*a, *b]).collect::<Vec<_>>()
        );
        let mut python = std::process::Command::new("python3");
        let output = python.args(["-c", &script]).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut names: Vec<_> = fs::read_dir(at("wasi"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let printed = String::from_utf8(output.stdout).unwrap();
        let (taken, left): (Vec<&str>, Vec<&str>) = printed.lines().partition(|line| line.starts_with(TAKEN));
        assert_eq!(taken.len(), names.len(), "{printed}");
        (names, left.iter().map(|line| format!("{line}\n")).collect())
    }

    #[test]
    fn a_wheel_is_taken_if_every_requirement_allows_it() {
        let numpy = ("numpy", "2.5.5", "numpy/core.so", "");
        let wheels = [("numpy", "2.4.6"), ("markupsafe", "3.0.4")];
        for (requirements, installed, expected, left) in [
            ("numpy\n", vec![numpy], vec!["numpy"], ""),
            ("numpy>=2,<3  # arrays\n-r x\n./sdk\n", vec![numpy], vec!["numpy"], ""),
            (
                "numpy==1.26.0",
                vec![("numpy", "1.26.0", "numpy/core.so", "")],
                vec![],
                "numpy 1.26.0\t2.4.6\n",
            ),
            ("x", vec![numpy, ("x", "1", "x.py", "numpy>=2.5")], vec![], "numpy 2.5.5\t2.4.6\n"),
            ("x", vec![numpy, ("x", "1", "x.py", "numpy>=2.5; extra == 'all'")], vec!["numpy"], ""),
            // Names are compared as pip does; a package without a wheel is named if it is native.
            ("MarkupSafe", vec![("MarkupSafe", "3.0.4", "markupsafe/_s.so", "")], vec!["markupsafe"], ""),
            (
                "pandas\nidna",
                vec![("pandas", "2.3", "pandas/a.so", ""), ("idna", "3", "idna.py", "")],
                vec![],
                "pandas 2.3\t\n",
            ),
            (
                "componentize-py",
                vec![("componentize-py", "0.25.0", "componentize_py.abi3.so", "")],
                vec![],
                "",
            ),
        ] {
            let (unpacked, printed) = unpacked(requirements, &installed, &wheels);
            assert_eq!(
                (unpacked, printed.as_str()),
                (expected.iter().map(|it| (*it).to_owned()).collect(), left),
                "{requirements}"
            );
        }
    }

    #[test]
    fn an_error_of_a_package_that_is_left_out_says_so() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("requirements.txt"), "").unwrap();
        fs::create_dir(folder.path().join(".modelhost")).unwrap();
        fs::write(folder.path().join(".modelhost").join(FOUND), "scikit-learn 1.7\t\n").unwrap();
        let project = Project::open(folder.path(), Settings::NONE).ok().unwrap();
        let explained = |text: &str| explained(&project, anyhow!("{text}")).to_string();
        let error = "ModuleNotFoundError: No module named 'sklearn.__check_build'\n\nTraceback";
        assert!(explained(error).starts_with("`scikit-learn` 1.7 has native code"), "{}", explained(error));
        assert_eq!(explained("NameError: name 'x' is not defined"), "NameError: name 'x' is not defined");
        for (module, hint) in [
            (
                "numpy.linalg",
                "name the package `numpy` in requirements.txt; a file of your own lies beside app.py",
            ),
            ("PIL", "name the package `Pillow` in requirements.txt; "),
            ("torch", "`torch` is not for handlers: the model runs in the host: export it to ONNX"),
            ("requests", "`requests` is not for handlers: `modelhost_guest.outbound` sends requests"),
        ] {
            let text = explained(&format!("ModuleNotFoundError: No module named '{module}'\n\nTraceback"));
            let expected = format!("ModuleNotFoundError: No module named '{module}'\n  hint: {hint}");
            assert!(text.starts_with(&expected) && text.ends_with("\n\nTraceback"), "{text}");
        }
    }
}
