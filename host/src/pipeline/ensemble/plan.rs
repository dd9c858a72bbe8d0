//! The steps of an ensemble, checked and put in terms of slots.
//!
//! Place in the flow: at the start, and whenever a model is loaded. In: the configuration, and the
//! signatures of the models. Out: a [`Plan`], or every problem, each on one line with a hint.
//! Invariants of a plan: every tensor is brought by the request or made by one step, before any step that
//! takes it; each fits its takers, as far as signatures tell.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{EnsembleConfig, Member, StepConfig};
use crate::tensor::{Extent, Role, Signature, TensorSpec, element_count};
use crate::text::similar;

/// An ensemble's steps.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) signature: Signature,
    /// The inputs' names and slots.
    pub(super) inputs: Vec<(Arc<str>, usize)>,
    /// The outputs' slots, as in the signature.
    pub(super) outputs: Vec<usize>,
    pub(super) steps: Vec<PlannedStep>,
    /// How many take the tensor of each slot.
    pub(super) uses: Vec<usize>,
}

/// One step.
#[derive(Debug)]
pub(super) struct PlannedStep {
    /// Its model's place among the members.
    pub(super) member: usize,
    pub(super) inputs: Vec<PlannedInput>,
    /// Positions among the model's outputs, and slots.
    pub(super) outputs: Vec<(usize, usize)>,
}

/// One input of a step.
#[derive(Debug)]
pub(super) struct PlannedInput {
    pub(super) slot: usize,
    /// The model's name for it.
    pub(super) name: Arc<str>,
    /// Whether the step begins without it: a request may leave it out.
    pub(super) is_optional: bool,
}

/// A tensor of the ensemble.
struct Slot<'a> {
    name: &'a str,
    /// The step that makes it, and its description; `None` for what the request brings.
    maker: Option<(usize, &'a TensorSpec)>,
    /// The steps that take it.
    takers: Vec<(usize, &'a TensorSpec)>,
    is_output: bool,
    /// Whether the configuration gives the output this name.
    is_named: bool,
}

impl Plan {
    pub(super) fn new(config: &EnsembleConfig, members: &[Member]) -> Result<Plan, Vec<String>> {
        let mut problems = Vec::new();
        let found: Vec<Option<usize>> =
            config.steps.iter().map(|step| member(step, members, &mut problems)).collect();
        let steps: Vec<(&StepConfig, usize, &Signature)> = (config.steps.iter().zip(&found))
            .filter_map(|(step, place)| Some((step, (*place)?, &*members.get((*place)?)?.signature)))
            .collect();
        let mut slots = Slots { slots: Vec::new(), problems };
        for name in &config.inputs {
            slots.add(Slot::of(name, None, true));
        }
        let outputs: Vec<Vec<(usize, usize)>> = steps
            .iter()
            .enumerate()
            .map(|(at, (step, _, signature))| slots.make(at, step, signature))
            .collect();
        let mut planned = Vec::new();
        for (at, ((step, member, signature), outputs)) in steps.iter().zip(outputs).enumerate() {
            let inputs = slots.take(at, step, signature);
            planned.push(PlannedStep { member: *member, inputs, outputs });
        }
        let outputs = slots.answer(&config.outputs);
        let Slots { slots, mut problems } = slots;
        // What follows would only repeat that something is missing.
        if problems.is_empty() {
            let name = |step: usize| config.steps.get(step).map_or("", |step| step.model.as_str());
            problems.extend(slots.iter().filter_map(Slot::idle));
            problems.extend(slots.iter().flat_map(|slot| slot.misfits(&name)));
            problems.extend(circle(&slots, planned.len(), &name));
            for (at, step) in planned.iter().enumerate() {
                let is_used = |slot: &Slot<'_>| slot.is_output || !slot.takers.is_empty();
                if !step.outputs.iter().any(|(_, slot)| slots.get(*slot).is_some_and(is_used)) {
                    problems.push(format!(
                        "step `{}` makes nothing that is taken; hint: leave it out, or take one of its outputs",
                        name(at)
                    ));
                }
            }
        }
        let inputs: Vec<(usize, Option<TensorSpec>)> = slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.maker.is_none())
            .map(|(place, slot)| (place, slot.merged(&mut problems)))
            .collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut inputs: Vec<(usize, TensorSpec)> =
            inputs.into_iter().filter_map(|(place, spec)| Some((place, spec?))).collect();
        forget_ambiguous(&mut inputs, &slots);
        // As in every signature, optional ones come last.
        inputs.sort_by_key(|(_, spec)| spec.is_optional());
        for input in planned.iter_mut().flat_map(|step| &mut step.inputs) {
            input.is_optional = inputs.iter().any(|(slot, spec)| *slot == input.slot && spec.is_optional());
        }
        let made = outputs.iter().filter_map(|slot| slots.get(*slot)?.output());
        let signature = Signature {
            inputs: inputs.iter().map(|(_, spec)| spec.clone()).collect(),
            outputs: made.collect(),
        };
        let inputs = inputs.into_iter().map(|(slot, spec)| (spec.name, slot)).collect();
        let uses = slots.iter().map(|slot| slot.takers.len() + usize::from(slot.is_output)).collect();
        Ok(Plan { signature, inputs, outputs, steps: planned, uses })
    }
}

/// Takes the names from extents that two models happen to call the same: within a model, extents of one name
/// are equal, and no run sees both of these.
fn forget_ambiguous(inputs: &mut [(usize, TensorSpec)], slots: &[Slot<'_>]) {
    let takers = |slot: usize| slots.get(slot).map(|slot| slot.takers.as_slice()).unwrap_or_default();
    let is_apart = |one: usize, other: usize| {
        !takers(one).iter().any(|(step, _)| takers(other).iter().any(|(taker, _)| taker == step))
    };
    let has = |spec: &TensorSpec, extent: &Extent| spec.shape.contains(extent);
    let mut ambiguous: Vec<Extent> = Vec::new();
    for (slot, spec) in inputs.iter() {
        for extent in spec.shape.iter().filter(|extent| matches!(extent, Extent::Free(Some(_)))) {
            if inputs.iter().any(|(other, its)| has(its, extent) && is_apart(*slot, *other)) {
                ambiguous.push(extent.clone());
            }
        }
    }
    for extent in inputs.iter_mut().flat_map(|(_, spec)| &mut spec.shape) {
        if ambiguous.contains(extent) {
            *extent = Extent::Free(None);
        }
    }
}

/// The model of a step, all of whose maps name inputs and outputs of it.
fn member(step: &StepConfig, members: &[Member], problems: &mut Vec<String>) -> Option<usize> {
    let place = members.iter().position(|member| *member.name == *step.model);
    let Some(member) = place.and_then(|place| members.get(place)) else {
        let names = members.iter().map(|member| &*member.name);
        problems.push(format!("there is no model `{}`; {}", step.model, meant(&step.model, names)));
        return None;
    };
    let Signature { inputs, outputs } = &*member.signature;
    for (map, kind, specs) in [(&step.input_map, "input", inputs), (&step.output_map, "output", outputs)] {
        for name in map.keys().filter(|name| specs.iter().all(|spec| *spec.name != ***name)) {
            let names = specs.iter().map(|spec| &*spec.name);
            problems.push(format!("model `{}` has no {kind} `{name}`; {}", step.model, meant(name, names)));
        }
    }
    place
}

/// A hint at the name that was meant.
fn meant<'a>(wrong: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    match similar(wrong, names.clone()) {
        Some(name) => format!("hint: did you mean `{name}`?"),
        None => {
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            match names.as_slice() {
                [] => "hint: there are none".to_owned(),
                names => format!("hint: there are {}", names.join(", ")),
            }
        }
    }
}

struct Slots<'a> {
    slots: Vec<Slot<'a>>,
    problems: Vec<String>,
}

impl<'a> Slots<'a> {
    fn place(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.name == name)
    }

    /// A new tensor; its name is its own.
    fn add(&mut self, slot: Slot<'a>) -> usize {
        if self.place(slot.name).is_some() {
            self.problems.push(format!(
                "there are two tensors `{}`; hint: give one of them another name in `output_map`",
                slot.name
            ));
        }
        self.slots.push(slot);
        self.slots.len() - 1
    }

    /// The outputs of a step.
    fn make(&mut self, at: usize, step: &'a StepConfig, signature: &'a Signature) -> Vec<(usize, usize)> {
        let mut made = Vec::new();
        for (position, spec) in signature.outputs.iter().enumerate() {
            let mapped = step.output_map.get(&*spec.name);
            if mapped.is_some() || step.output_map.is_empty() {
                let name = mapped.map_or(&*spec.name, String::as_str);
                made.push((position, self.add(Slot::of(name, Some((at, spec)), mapped.is_some()))));
            }
        }
        made
    }

    /// The inputs of a step.
    fn take(&mut self, at: usize, step: &'a StepConfig, signature: &'a Signature) -> Vec<PlannedInput> {
        let mut taken = Vec::new();
        for spec in &signature.inputs {
            let mapped = step.input_map.get(&*spec.name);
            let name = mapped.map_or(&*spec.name, String::as_str);
            let place = self.place(name);
            match place.and_then(|place| self.slots.get_mut(place)) {
                Some(slot) => {
                    slot.takers.push((at, spec));
                    let slot = place.unwrap_or_default();
                    taken.push(PlannedInput { slot, name: spec.name.clone(), is_optional: false });
                }
                None if spec.is_optional() && mapped.is_none() => {}
                None => {
                    let names = self.slots.iter().map(|slot| slot.name);
                    let hint = meant(name, names);
                    self.problems.push(format!(
                        "input `{}` of `{}` takes tensor `{name}`, which no step makes and which is none of `inputs`; {hint}",
                        spec.name, step.model
                    ));
                }
            }
        }
        taken
    }

    /// The slots of the answer.
    fn answer(&mut self, names: &[String]) -> Vec<usize> {
        let mut outputs = Vec::new();
        for name in names {
            let place = self.place(name);
            match place.and_then(|place| self.slots.get_mut(place)) {
                Some(slot) if slot.maker.is_some() && !slot.is_output => {
                    slot.is_output = true;
                    outputs.extend(place);
                }
                Some(slot) => {
                    let text = if slot.is_output { "is there twice" } else { "is an input" };
                    self.problems.push(format!("output `{name}` {text}; hint: leave it out"));
                }
                None => {
                    let made = self.slots.iter().filter(|slot| slot.maker.is_some());
                    let hint = meant(name, made.map(|slot| slot.name));
                    self.problems.push(format!("output `{name}` is made by no step; {hint}"));
                }
            }
        }
        outputs
    }
}

impl<'a> Slot<'a> {
    fn of(name: &'a str, maker: Option<(usize, &'a TensorSpec)>, is_named: bool) -> Slot<'a> {
        Slot { name, maker, takers: Vec::new(), is_output: false, is_named }
    }

    /// The problem of a tensor that is named and not taken.
    fn idle(&self) -> Option<String> {
        if !self.takers.is_empty() || self.is_output || !self.is_named {
            return None;
        }
        Some(match self.maker {
            None => format!("input `{}` is taken by no step; hint: leave it out of `inputs`", self.name),
            Some(_) => format!(
                "tensor `{}` is taken by no step and is none of `outputs`; hint: leave it out of `output_map`",
                self.name
            ),
        })
    }

    /// The problems of steps that cannot take what another makes.
    fn misfits(&self, name: &dyn Fn(usize) -> &'a str) -> Vec<String> {
        let Some((maker, made)) = self.maker else { return Vec::new() };
        let misfits = self.takers.iter().filter(|(_, taken)| !fits(made, taken));
        let text = |(taker, taken): &(usize, &TensorSpec)| {
            format!(
                "tensor `{}` is {made} from `{}`, and input `{}` of `{}` takes {taken}; hint: put a model between \
                 them that converts it",
                self.name,
                name(maker),
                taken.name,
                name(*taker)
            )
        };
        misfits.map(text).collect()
    }

    /// The description of an input that fits all of its takers.
    fn merged(&self, problems: &mut Vec<String>) -> Option<TensorSpec> {
        let mut merged: Option<TensorSpec> = None;
        for (_, taken) in &self.takers {
            let next = match &merged {
                None => Some((*taken).clone()),
                Some(merged) => both(merged, taken),
            };
            let Some(next) = next else {
                let other = merged.as_ref().map(ToString::to_string).unwrap_or_default();
                problems.push(format!(
                    "input `{}` would have to be {other} and {taken}; hint: make two inputs of it",
                    self.name
                ));
                return None;
            };
            merged = Some(next);
        }
        merged.map(|spec| TensorSpec { name: self.name.into(), ..spec })
    }

    /// Its description as an output.
    fn output(&self) -> Option<TensorSpec> {
        let (_, spec) = self.maker?;
        Some(TensorSpec { name: self.name.into(), role: Role::Plain, ..spec.clone() })
    }
}

/// Whether a tensor of the one description can be one of the other. Shapes without extents may be any.
fn fits(made: &TensorSpec, taken: &TensorSpec) -> bool {
    if made.datatype != taken.datatype {
        return false;
    }
    if made.shape.is_empty() || taken.shape.is_empty() {
        return true;
    }
    let fixed = |spec: &TensorSpec| {
        let extents: Option<Vec<u64>> = (spec.shape.iter())
            .map(|extent| if let Extent::Fixed(fixed) = extent { Some(*fixed) } else { None })
            .collect();
        extents.and_then(|extents| element_count(&extents))
    };
    let is_alike = made.shape.len() == taken.shape.len()
        && made.shape.iter().zip(&taken.shape).all(|extents| match extents {
            (Extent::Fixed(made), Extent::Fixed(taken)) => made == taken,
            _ => true,
        });
    match fixed(made) {
        // Reshaped, as `pipeline/verify.rs` does it: to the smallest shape that is taken.
        Some(elements) => is_alike || element_count(&taken.smallest_shape()) == Some(elements),
        None => is_alike || made.shape.len() != taken.shape.len(),
    }
}

/// The description of tensors that fit both.
fn both(one: &TensorSpec, other: &TensorSpec) -> Option<TensorSpec> {
    if one.datatype != other.datatype {
        return None;
    }
    let shape = match (one.shape.as_slice(), other.shape.as_slice()) {
        ([], shape) | (shape, []) => shape.to_vec(),
        (one, other) if one.len() != other.len() => return None,
        (one, other) => {
            let extent = |(one, other): (&Extent, &Extent)| match (one, other) {
                (Extent::Fixed(one), Extent::Fixed(other)) if one != other => None,
                (Extent::Fixed(_), _) => Some(one.clone()),
                _ => Some(other.clone()),
            };
            one.iter().zip(other).map(extent).collect::<Option<Vec<_>>>()?
        }
    };
    let role = if one.is_optional() && other.is_optional() { Role::Optional } else { Role::Plain };
    Some(TensorSpec { shape, role, ..one.clone() })
}

/// The problem of steps that wait for each other.
fn circle<'a>(slots: &[Slot<'_>], steps: usize, name: &dyn Fn(usize) -> &'a str) -> Option<String> {
    let mut waiting: BTreeSet<usize> = (0..steps).collect();
    let needs = |step: usize, waiting: &BTreeSet<usize>| {
        slots.iter().any(|slot| {
            slot.takers.iter().any(|(taker, _)| *taker == step)
                && slot.maker.is_some_and(|(maker, _)| waiting.contains(&maker))
        })
    };
    while let Some(step) = waiting.iter().copied().find(|step| !needs(*step, &waiting)) {
        waiting.remove(&step);
    }
    let names: Vec<String> = waiting.iter().map(|step| format!("`{}`", name(*step))).collect();
    (!names.is_empty()).then(|| {
        format!(
            "steps wait for each other: {}; hint: one of them has to take what is there before",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
