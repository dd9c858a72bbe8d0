//! Which sources of an old project the new one needs: those that are imported from where it begins.
//!
//! In:  the old project's sources by their new places, the plan. Out: the places that imports lead to.
//! Invariant: a source is read once, and an import costs no more for other files that there are.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::packages::{self, Package};
use super::plan::Plan;
use super::python::{self, Source};
use super::tree::Tree;

/// The sources that are imported from where the component begins, by their places in the new project.
pub(super) fn reached(
    tree: &Tree,
    plan: &Plan,
    taken: &[(&String, String, u64)],
) -> anyhow::Result<BTreeSet<String>> {
    let places = Places::of(taken.iter().map(|(_, target, _)| target.as_str()));
    // Of several files for a place the first is taken.
    let mut old: HashMap<&str, &String> = HashMap::new();
    for (path, target, _) in taken {
        old.entry(target).or_insert(path);
    }
    let mut reached = BTreeSet::new();
    let mut open: Vec<String> = plan.own.iter().cloned().collect();
    open.extend(imported(&Source::read(&plan.entry), "", &places));
    while let Some(path) = open.pop() {
        let Some(old) = old.get(path.as_str()) else { continue };
        if reached.insert(path.clone()) {
            open.extend(imported(&tree.source(old).map_err(anyhow::Error::msg)?, &path, &places));
        }
    }
    Ok(reached)
}

/// The files of the new project, and the folders that they are in.
pub(super) struct Places<'a> {
    files: HashSet<&'a str>,
    folders: HashSet<&'a str>,
}

impl<'a> Places<'a> {
    pub(super) fn of(files: impl Iterator<Item = &'a str>) -> Places<'a> {
        let files: HashSet<&str> = files.collect();
        let mut folders = HashSet::new();
        for file in &files {
            let mut path = *file;
            while let Some((folder, _)) = path.rsplit_once('/') {
                if !folders.insert(folder) {
                    break;
                }
                path = folder;
            }
        }
        Places { files, folders }
    }

    /// Whether there is a module of a dotted name.
    pub(super) fn has_module(&self, module: &str) -> bool {
        let path = module.replace('.', "/");
        self.folders.contains(path.as_str()) || self.files.contains(format!("{path}.py").as_str())
    }
}

/// Files that a source imports.
fn imported(source: &Source, path: &str, places: &Places<'_>) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for statement in &source.statements {
        let names = python::imports(&statement.code).unwrap_or_default();
        let names = names.into_iter().map(|name| (name.module, name.member));
        let all = python::star(&statement.code).map(|module| (module.to_owned(), None));
        for (module, member) in names.chain(all) {
            // The SDK has the names of other systems, which may lie beside the project.
            if matches!(packages::module(&module), Package::Sdk(_)) {
                continue;
            }
            let dots = module.len() - module.trim_start_matches('.').len();
            // One dot is the file's own folder, each further one the folder around it.
            let folder = path.rsplitn(dots + 1, '/').nth(dots).filter(|_| dots > 0).unwrap_or_default();
            let named = module.split('.').chain(member.as_deref()).filter(|part| !part.is_empty());
            let mut walked = folder.to_owned();
            for part in named {
                walked = if walked.is_empty() { part.to_owned() } else { format!("{walked}/{part}") };
                let own = [format!("{walked}.py"), format!("{walked}/__init__.py")];
                files.extend(own.into_iter().filter(|file| places.files.contains(file.as_str())));
                // Below what is no folder there is nothing.
                if !places.folders.contains(walked.as_str()) {
                    break;
                }
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_lead_to_files_that_are_there() {
        let source =
            Source::read("from .part import x\nfrom ..other import *\nimport a.b.c, json\nfrom e import f\n");
        let there = [
            "one/two/part/__init__.py",
            "one/two/part/x.py",
            "one/other.py",
            "a/__init__.py",
            "a/b.py",
            "e/f/__init__.py",
            "other.py",
            "one/two/json.py",
        ];
        let found = imported(&source, "one/two/file.py", &Places::of(there.into_iter()));
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        let mut expected = there.get(..6).unwrap().to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn modules_are_files_or_folders() {
        let places = Places::of(["a/b/c.py", "d.py"].into_iter());
        for (module, is_there) in
            [("a", true), ("a.b", true), ("a.b.c", true), ("d", true), ("b", false), ("a.d", false)]
        {
            assert_eq!(places.has_module(module), is_there, "{module}");
        }
    }
}
