//! The table `[endpoint.ensemble]` to an [`EnsembleConfig`].
//!
//! Place in the flow: `config/endpoint.rs` calls it once for each endpoint. In: the table. Out: names and
//! maps, `None` without a table or with a problem. What they mean for the models is found out when those are
//! loaded.

use std::collections::BTreeMap;

use toml::Value;

use super::file::{ENSEMBLE_KEYS, Table};
use super::sources::Sources;
use crate::model::ModelConfig;
use crate::pipeline::ensemble::{ENSEMBLE, EnsembleConfig, StepConfig};
use crate::text::similar;
use crate::values::{Diagnostic, ParseResult, list};

/// The keys of a step.
const STEP_KEYS: [&str; 3] = ["model", "input_map", "output_map"];
const STEPS_HINT: &str =
    "write `{ model = \"NAME\", input_map = { INPUT = \"TENSOR\" }, output_map = { OUTPUT = \"TENSOR\" } }`";

/// The ensemble of the endpoint whose table this is.
pub(super) fn ensemble(
    sources: &mut Sources<'_>,
    table: &Table,
    models: &[(String, ModelConfig)],
) -> Option<EnsembleConfig> {
    let table = table.ensemble.as_deref()?;
    if models.iter().any(|(name, _)| name == ENSEMBLE) {
        let hint = "give the model another name";
        let message = "a model is called `ensemble` too";
        sources.report(table.place.clone(), Diagnostic::new(message, hint));
    }
    let inputs = part(sources, table, 0, names);
    let outputs = part(sources, table, 1, names);
    let steps = part(sources, table, 2, steps);
    Some(EnsembleConfig { inputs: inputs?, outputs: outputs?, steps: steps? })
}

/// One of the table's values; a problem, if it is not there.
fn part<T>(
    sources: &mut Sources<'_>,
    table: &Table,
    key: usize,
    read: impl FnOnce(&Value) -> ParseResult<Vec<T>>,
) -> Option<Vec<T>> {
    let key = ENSEMBLE_KEYS.get(key).copied()?;
    let Some(entry) = table.get(key) else {
        let hint = match key {
            "steps" => STEPS_HINT.to_owned(),
            _ => format!("set `{key} = [\"TENSOR\"]`"),
        };
        if !table.faulty {
            sources.report(table.place.clone(), Diagnostic::new(format!("has no `{key}`"), hint));
        }
        return None;
    };
    match read(&entry.value) {
        Ok(read) if !read.is_empty() => Some(read),
        Ok(_) => {
            let diagnostic = Diagnostic::new("is empty", "name one at least");
            sources.report(Some(entry.place.clone()), diagnostic);
            None
        }
        Err(diagnostic) => {
            sources.report(Some(entry.place.clone()), diagnostic);
            None
        }
    }
}

fn names(value: &Value) -> ParseResult<Vec<String>> {
    let hint = "write names of tensors: `[\"text\", \"mask\"]`";
    let names = value.as_array().and_then(|items| items.iter().map(text).collect());
    names.ok_or_else(|| Diagnostic::new("is no list of names", hint))
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn steps(value: &Value) -> ParseResult<Vec<StepConfig>> {
    let items = value.as_array().ok_or_else(|| Diagnostic::new("is no list of steps", STEPS_HINT))?;
    items.iter().map(step).collect()
}

fn step(value: &Value) -> ParseResult<StepConfig> {
    let table = value.as_table().ok_or_else(|| Diagnostic::new("holds what is no step", STEPS_HINT))?;
    if let Some(unknown) = table.keys().find(|key| !STEP_KEYS.contains(&key.as_str())) {
        let hint = match similar(unknown, STEP_KEYS) {
            Some(key) => format!("did you mean `{key}`?"),
            None => format!("known here are {}", list(STEP_KEYS, "and")),
        };
        return Err(Diagnostic::new(format!("a step has no `{unknown}`"), hint));
    }
    let model = table.get("model").and_then(text);
    let model = model.ok_or_else(|| Diagnostic::new("holds a step without a `model`", STEPS_HINT))?;
    let map = |key: &str| -> ParseResult<BTreeMap<String, String>> {
        let Some(value) = table.get(key) else { return Ok(BTreeMap::new()) };
        let pairs = value.as_table().and_then(|pairs| {
            pairs.iter().map(|(from, to)| Some((from.clone(), text(to)?))).collect::<Option<_>>()
        });
        pairs.ok_or_else(|| {
            let message = format!("`{key}` of `{model}` is no table of names");
            Diagnostic::new(message, format!("write `{key} = {{ NAME = \"TENSOR\" }}`"))
        })
    };
    let (input_map, output_map) = (map("input_map")?, map("output_map")?);
    Ok(StepConfig { model, input_map, output_map })
}
