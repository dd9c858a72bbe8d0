//! `host new NAME --from DIR`: a project of another model server as a handler project in Python.
//!
//! Place in the flow: `new.rs` writes SDK, contract and what every project in Python has; here is what comes
//! of the old project.
//! In:  a folder with a Truss, a Potassium app, an Inferless app or a Cortex project. Out: its sources with
//! their imports changed,
//!      app.py, modelhost.toml, requirements.txt, MIGRATION.md.
//! Invariants: nothing of the old project is run or changed; what cannot be taken over is in the report, with
//! its place.

mod cortex;
mod inferless;
mod packages;
mod plan;
mod port;
mod potassium;
mod python;
mod reached;
mod report;
mod tree;
mod truss;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::Context as _;

use self::packages::Package;
use self::plan::{Plan, toml, toml_key};
use self::port::{Ported, Project, port};
use self::reached::{Places, reached};
use self::report::{Report, Topic};
use self::tree::{LARGEST, Tree};
use crate::CONFIG;
use crate::file;
use crate::program::program;

const ENTRY: &str = "app.py";
/// Files and folders of what a new project in Python has, which the old one's do not replace.
const OWN: [&str; 9] = [
    "README.md",
    "MIGRATION.md",
    CONFIG,
    "requirements.txt",
    "sample.json",
    "handler.wasm",
    "wit",
    super::SDK,
    ".modelhost",
];

/// Files that a finding names beside the first.
const SHOWN: usize = 8;

/// A project that was read and not written yet.
pub(super) struct Migration {
    tree: Tree,
    plan: Plan,
    report: Report,
}

/// Reads the old project.
///
/// # Errors
/// The project is of no known system, or one of its files cannot be read.
pub(super) fn read(path: &Path, api: Option<&str>) -> Result<Migration, String> {
    let mut tree = Tree::read(truss::folder(path))?;
    let mut report = Report::default();
    let plan = if let Some(config) = cortex::config(&tree) {
        // It stands for its folder.
        tree.named = None;
        cortex::plan(&tree, &config, api, &mut report)?
    } else if truss::is_one(&tree) && tree.named.is_none() {
        truss::plan(&tree, &mut report)?
    } else if let Some(entry) = potassium::entry(&tree) {
        potassium::plan(&tree, &entry, &mut report)?
    } else if let Some(entry) = inferless::entry(&tree) {
        inferless::plan(&tree, &entry, &mut report)?
    } else {
        return Err(truss::refusal(&tree).unwrap_or_else(|| format!(
            "`{}` is no Truss (config.yaml, model/model.py), Potassium app (`Potassium(…)` in app.py), \
             Inferless app (a class with `initialize` and `infer` in app.py) or Cortex project (cortex.yaml)\n  \
             hint: name the folder with these files, or the app's file",
            path.display()
        )));
    };
    if api.is_some() && plan.system != cortex::SYSTEM {
        return Err(format!(
            "`--api` names an API of Cortex, and `{}` is {}\n  hint: leave it out",
            path.display(),
            plan.system
        ));
    }
    for (path, why) in tree.skipped.iter().filter(|_| tree.named.is_none()) {
        report.decide(
            path,
            format!("left out: {why}"),
            "copy what is there into this folder, if it is needed",
        );
    }
    Ok(Migration { tree, plan, report })
}

impl Migration {
    /// The world of the handler.
    pub(super) fn world(&self) -> String {
        let mut world =
            "package my:handler;\n\n/// Exports and imports of the handler.\nworld app {\n".to_owned();
        for name in &self.plan.includes {
            let _ = writeln!(world, "    include modelhost:handler/{name}@0.1.0;");
        }
        for name in &self.plan.libraries {
            let _ = writeln!(world, "    include modelhost:{name}/imports@0.1.0;");
        }
        for name in &self.plan.exports {
            let _ = writeln!(world, "    export modelhost:handler/{name}@0.1.0;");
        }
        world + "}\n"
    }

    /// Writes what came of the old project into a folder that has the rest; what is said on the terminal.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(super) fn write(mut self, folder: &Path, name: &str) -> anyhow::Result<String> {
        let mut sources: Vec<(String, Ported)> = Vec::new();
        let taken =
            self.tree.files.iter().filter_map(|(path, bytes)| Some((path, self.target(path)?, *bytes)));
        let mut taken: Vec<(&String, String, u64)> = taken.collect();
        let reached = reached(&self.tree, &self.plan, &taken)?;
        let is_left = |path: &str, target: &String| path.ends_with(".py") && !reached.contains(target);
        let left: Vec<&str> = taken
            .iter()
            .filter(|(path, target, _)| is_left(path, target))
            .map(|(path, ..)| path.as_str())
            .collect();
        if let Some(first) = left.first().filter(|_| self.tree.named.is_none()) {
            let others =
                left.iter().skip(1).take(SHOWN).map(|path| format!(", `{path}`")).collect::<String>();
            let more = if left.len() > SHOWN + 1 { ", …" } else { "" };
            let what = format!("left out, since nothing that is served imports it{others}{more}");
            self.report.check(first, what, "copy what is imported by a computed name");
        }
        taken.retain(|(path, target, _)| !is_left(path, target));
        let mut targets = BTreeSet::new();
        taken.retain(|(path, target, _)| {
            let top = target.split('/').next().unwrap_or_default();
            let is_own = OWN.contains(&top) || (top == ENTRY && self.plan.own.is_none());
            if !is_own && targets.insert(target.clone()) {
                return true;
            }
            // One line for a folder of the new project.
            let place =
                if is_own { path.strip_suffix(target.strip_prefix(top).unwrap_or_default()) } else { None };
            let what = match is_own {
                true => format!("left out: the new project has its own `{top}`"),
                false => format!("left out: `{target}` comes of another file"),
            };
            let topic = if path.ends_with(".py") { Topic::Decide } else { Topic::Check };
            let hint = "if it is needed, give it another name, here and where it is used";
            self.report.add(topic, place.unwrap_or(path), what, hint);
            false
        });
        let targets: Vec<String> = taken.iter().map(|(_, target, _)| target.clone()).collect();
        let has_files = self.plan.keys.iter().any(|(key, _)| key == "project");
        let models = targets.iter().filter(|it| it.ends_with(".onnx")).cloned().collect();
        name_models(&mut self.plan, models, &mut self.report);
        let is_there = |(name, file): &(String, String)| !name.is_empty() && targets.contains(file);
        let models: Vec<(String, String)> = self.plan.model_files().filter(is_there).collect();
        let sources_of = |it: &&String| it.ends_with(".py");
        let places = Places::of(targets.iter().filter(sources_of).map(String::as_str));
        let project = Project { places: &places, has_files, models: &models };
        for (path, target, bytes) in taken {
            if path.ends_with(".py") {
                let source = self.tree.source(path).map_err(anyhow::Error::msg)?;
                sources.push((target.clone(), port(&target, &source, &project, &mut self.report)));
            } else if bytes > LARGEST {
                let what = format!("a file of {} MB, not copied", bytes >> 20);
                self.report.decide(path, what, "copy it where modelhost.toml names it");
            } else {
                match file::open(&self.tree.folder.join(path)) {
                    Ok(old) => copy(old, &folder.join(&target))?,
                    Err(error) => {
                        let hint = "copy it into this folder, if it is needed";
                        self.report.decide(path, format!("left out: {error}"), hint);
                    }
                }
            }
        }
        let endpoint = if self.plan.endpoint.is_empty() { name } else { self.plan.endpoint };
        if !self.plan.named_paths.is_empty() {
            self.plan.entry = self.plan.entry.replace("{}", endpoint);
            let paths = self.plan.named_paths.iter().map(|path| path.replace("{}", endpoint));
            let paths = toml(&paths.collect());
            self.plan.set("paths", paths);
        }
        let trailer = trailer(&sources);
        let mut is_written = false;
        for (path, ported) in &sources {
            let is_entry = path == ENTRY && self.plan.own.is_some();
            is_written |= is_entry;
            let more = if is_entry { self.plan.entry.clone() + &trailer } else { String::new() };
            put(folder, path, &(ported.text.clone() + &more))?;
        }
        if !is_written {
            put(folder, ENTRY, &(self.plan.entry.clone() + &trailer))?;
        }
        let requirements = self.requirements(&sources)?;
        put(folder, "requirements.txt", &requirements)?;
        put(folder, CONFIG, &self.config(name))?;
        if let Some(sample) = &self.plan.sample {
            put(folder, "sample.json", &(serde_json::to_string_pretty(sample)? + "\n"))?;
        }
        let program = program();
        put(folder, "MIGRATION.md", &self.report.document(name, self.plan.system, &program))?;
        Ok(self.said(name, &program))
    }

    /// Where a file of the old project goes, if it is taken over.
    fn target(&self, path: &str) -> Option<String> {
        if self.tree.named.is_some() && !path.ends_with(".py") {
            return None;
        }
        if self.plan.left_out.iter().any(|left| left == path) {
            return None;
        }
        for (from, to) in &self.plan.moved {
            if path == from {
                return Some(to.clone());
            }
            if let Some(rest) = path.strip_prefix(from.as_str()).and_then(|rest| rest.strip_prefix('/')) {
                return Some(format!("{to}{rest}"));
            }
        }
        Some(path.to_owned())
    }

    /// requirements.txt: the SDK, the builder, and the packages that are imported and pure, as far as is
    /// known.
    fn requirements(&mut self, sources: &[(String, Ported)]) -> anyhow::Result<String> {
        let mut text =
            "# The SDK, and what builds the component; packages in pure Python, or that there is a wheel of for components.\n".to_owned();
        let tools = super::text("languages/python/requirements.txt")?;
        for line in tools.lines().filter(|line| !line.starts_with('#')) {
            let _ = writeln!(text, "{line}");
        }
        // By the names that are compared, each module as it is written and its first place.
        let mut unknown: BTreeMap<String, (String, String)> = BTreeMap::new();
        for (module, place) in sources.iter().flat_map(|(_, it)| &it.unknown) {
            let found = unknown.entry(packages::normal(module)).or_insert((module.clone(), place.clone()));
            if (module, place) < (&found.0, &found.1) {
                *found = (module.clone(), place.clone());
            }
        }
        for (line, place) in &self.plan.requirements {
            let Some((name, module)) = packages::requirement(line) else {
                self.report.check(place, format!("`{line}`"), "not taken over: name packages one a line");
                continue;
            };
            match (packages::module(&module), unknown.remove(&module)) {
                (Package::Sdk(_) | Package::Standard, _) => {}
                (Package::Native(advice), _) => {
                    self.report.check(place, format!("`{name}`, left out: native code"), advice.text());
                }
                (Package::Unknown, Some(_)) => {
                    let _ = writeln!(text, "{line}");
                    let hint = "the build says so if it is not pure Python";
                    self.report.check(place, format!("`{name}`, in requirements.txt"), hint);
                }
                // Pure Python, and another language than version 2.
                (Package::Wheel, Some(_)) if module == "pydantic" && packages::is_first_version(line) => {
                    text.push_str("pydantic<2\n");
                }
                (Package::Wheel, Some(_)) => {
                    // Versions are the wheels': most pins are of the day on which they were written.
                    let _ = writeln!(text, "{name}");
                    if line.trim() != name {
                        let what = format!("`{}`, in requirements.txt as `{name}`", line.trim());
                        self.report.check(place, what, "the build takes the version that it has a wheel of");
                    }
                }
                (Package::Unknown | Package::Wheel, None) => {
                    let hint = "put it back into requirements.txt if it is pure Python and needed";
                    self.report.check(place, format!("`{name}`, left out: no file imports it"), hint);
                }
            }
        }
        for (module, place) in unknown.into_values() {
            if packages::module(&module) == Package::Wheel {
                // The image of the old system had it.
                let _ = writeln!(text, "{}", packages::distribution(&module).unwrap_or(&module));
                continue;
            }
            let package = packages::distribution(&module)
                .map_or("its package".to_owned(), |name| format!("`{name}`, its package,"));
            let hint = format!(
                "name {package} in requirements.txt if it is pure Python, or remove `import {module}`"
            );
            self.report.decide(
                &place,
                format!("`{module}` is no module of the project and no requirement"),
                hint,
            );
        }
        Ok(text)
    }

    /// modelhost.toml.
    fn config(&self, name: &str) -> String {
        let endpoint = if self.plan.endpoint.is_empty() { name } else { self.plan.endpoint };
        let mut text = format!(
            "# {} serve --config modelhost.toml\n# Paths are relative to this file.\n\n[[endpoint]]\nname = \"{endpoint}\"\nplugin = \"handler.wasm\"\n",
            program()
        );
        for (name, keys) in &self.plan.models {
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            let key = match name.as_str() {
                "" if self.plan.models.len() == 1 => "model".to_owned(),
                "" => "models.default".to_owned(),
                name => format!("models.{}", toml_key(name)),
            };
            let _ = writeln!(text, "{key} = {{ {} }}", keys.join(", "));
        }
        let loads = self.report.findings.iter().filter(|it| it.what.ends_with("loads a model"));
        for finding in loads {
            let _ = writeln!(
                text,
                "# models.NAME = {{ path = \"model.onnx\" }}  # {}: {}",
                finding.place, finding.what
            );
        }
        for (key, value) in &self.plan.keys {
            let _ = writeln!(text, "{key} = {value}");
        }
        text.push_str("# Python's runtime imports sockets, used or not; `stub` lets it and opens none.\nnetwork = \"stub\"\n");
        if !self.plan.limits.is_empty() {
            text.push_str("\n[endpoint.limits]\n");
            for (key, value) in &self.plan.limits {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        text.push_str(&self.plan.tables);
        if !self.plan.libraries.is_empty() {
            let _ = write!(text, "\n[build]\nwith = {:?}\n", self.plan.libraries);
        }
        text
    }

    /// For the terminal.
    fn said(&self, name: &str, program: &str) -> String {
        let decide = self.report.count(Topic::Decide);
        let mut said = format!("made {name} from {}\n", self.plan.system);
        if decide > 0 {
            let _ = write!(said, "\nto decide, before it answers as it did:\n{}", self.report.lines());
        }
        let check = match self.report.count(Topic::Check) {
            0 => String::new(),
            count => format!(", and {count} to check"),
        };
        let _ = write!(
            said,
            "\n  cd {name}\n  {program} build\n  {program} serve --config modelhost.toml\n\nMIGRATION.md says what was taken over{check}"
        );
        said
    }
}

/// Names the models among a project's files that its configuration does not name.
fn name_models(plan: &mut Plan, files: Vec<String>, report: &mut Report) {
    let named: BTreeSet<String> = plan.model_files().map(|(_, file)| file).collect();
    for path in files.iter().filter(|path| !named.contains(*path)) {
        let is_taken = |name: &String| plan.models.iter().any(|(other, _)| other == name);
        // With its folder's name where there are several of its own.
        let mut parts = path.trim_end_matches(".onnx").rsplitn(3, '/');
        let (own, folder) = (parts.next().unwrap_or_default(), parts.next());
        let ending = format!("/{own}.onnx");
        let folder = folder.filter(|_| files.iter().filter(|it| it.ends_with(&ending)).count() > 1);
        let mut name = model_name(&folder.map_or(own.to_owned(), |folder| format!("{folder}-{own}")));
        while is_taken(&name) {
            name.push('_');
        }
        report.done(
            path,
            "a model in ONNX's format",
            format!("`models.{name}`, for `models.infer(tensors, \"{name}\")`"),
        );
        plan.models.push((name, vec![("path".to_owned(), toml(&path.as_str().into()))]));
    }
}

/// The end of `app.py`: what sources import in functions, which has to be in the component, and the end of
/// the imports.
fn trailer(sources: &[(String, Ported)]) -> String {
    let mut late: Vec<(String, String)> = sources.iter().flat_map(|(_, it)| it.late.clone()).collect();
    late.sort();
    late.dedup_by(|a, b| a.0 == b.0);
    let is_unported = sources.iter().any(|(_, it)| it.added > 0);
    if late.is_empty() && !is_unported {
        return String::new();
    }
    let mut text = format!("\n\n# Added by `{} new --from`.\n", program());
    for (import, place) in late {
        let _ = writeln!(text, "{import}  # noqa: E402, F401  {place} imports it in a function");
    }
    if is_unported {
        text.push_str("from modelhost_guest import porting  # noqa: E402\n\nporting.imported()\n");
    }
    text
}

/// The way to do without a distribution, if it is one that components do not have.
pub(crate) fn advice(distribution: &str) -> Option<&'static str> {
    match packages::module(&module(distribution)) {
        Package::Native(advice) => Some(advice.text()),
        _ => None,
    }
}

/// The distribution that has a module, if its name is another.
pub(crate) fn distribution(module: &str) -> Option<&'static str> {
    packages::distribution(module)
}

/// The module that a distribution is likely to have, in lower case.
pub(crate) fn module(distribution: &str) -> String {
    packages::requirement(distribution).map_or(distribution.to_owned(), |(_, module)| module)
}

fn put(folder: &Path, path: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))
}

fn copy(mut from: File, to: &Path) -> anyhow::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let copied = File::create(to).and_then(|mut to| io::copy(&mut from, &mut to));
    copied.with_context(|| format!("cannot write `{}`", to.display())).map(drop)
}

/// A name for a model: the host takes letters, digits, `-` and `_`.
fn model_name(path: &str) -> String {
    let name = path.replace(|c: char| !(c.is_ascii_alphanumeric() || c == '_'), "-");
    let name: String = name.trim_start_matches(['-', '_']).chars().take(60).collect();
    if name.is_empty() { "model".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
