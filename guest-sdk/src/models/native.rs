//! The host's side of `models` in a unit test: tensors in memory, and models that answer what the test says.

use std::cell::RefCell;

use super::{ModelError, Result};
use crate::bindings::types::{Datatype, Signature, Tensor};

type Answer = Box<dyn FnMut(&str, &[Tensor]) -> Result<Vec<Tensor>>>;
type Describe = Box<dyn FnMut(&str) -> Result<Signature>>;

thread_local! {
    static ANSWER: RefCell<Option<Answer>> = const { RefCell::new(None) };
    static DESCRIBE: RefCell<Option<Describe>> = const { RefCell::new(None) };
}

/// From here on, models called by this thread answer with `answer`, of a model's name and its inputs.
pub fn answer_with(answer: impl FnMut(&str, &[Tensor]) -> Result<Vec<Tensor>> + 'static) {
    ANSWER.set(Some(Box::new(answer)));
}

/// From here on, [`describe`](super::describe) on this thread gives what `describe` says of a model's name.
pub fn describe_with(describe: impl FnMut(&str) -> Result<Signature> + 'static) {
    DESCRIBE.set(Some(Box::new(describe)));
}

#[derive(Debug, Clone)]
pub struct Resident(Tensor);

#[derive(Debug)]
pub struct Pending(Result<Vec<(String, Resident)>>);

impl Resident {
    pub fn make(datatype: Datatype, shape: &[u64], data: &[u8]) -> Result<Resident> {
        Ok(Resident(Tensor { name: String::new(), datatype, shape: shape.to_vec(), data: data.to_vec() }))
    }

    pub fn datatype(&self) -> Datatype {
        self.0.datatype
    }

    pub fn shape(&self) -> Vec<u64> {
        self.0.shape.clone()
    }

    pub fn size(&self) -> u64 {
        self.0.data.len() as u64
    }

    pub fn read(&self) -> Result<Vec<u8>> {
        Ok(self.0.data.clone())
    }

    pub fn read_range(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let range = usize::try_from(offset).ok().zip(usize::try_from(offset + length).ok());
        let found = range.and_then(|(start, end)| self.0.data.get(start..end));
        found.map(<[u8]>::to_vec).ok_or_else(|| ModelError::InvalidInput("beyond its end".to_owned()))
    }

    pub fn reshape(&self, shape: &[u64]) -> Result<Resident> {
        if shape.iter().product::<u64>() != self.0.shape.iter().product::<u64>() {
            return Err(ModelError::InvalidInput("other than as many elements".to_owned()));
        }
        Ok(Resident(Tensor { shape: shape.to_vec(), ..self.0.clone() }))
    }

    /// Of elements of one size.
    pub fn rows(&self, start: u64, count: u64) -> Result<Resident> {
        let beyond = || ModelError::InvalidInput("beyond its end".to_owned());
        let rows = self.0.shape.first().copied().filter(|rows| *rows > 0).ok_or_else(beyond)?;
        let row = self.size() / rows;
        let data = self.read_range(start * row, count * row)?;
        let mut shape = self.0.shape.clone();
        shape.iter_mut().take(1).for_each(|rows| *rows = count);
        Ok(Resident(Tensor { shape, data, ..self.0.clone() }))
    }
}

impl Pending {
    pub fn wait(self) -> Result<Vec<(String, Resident)>> {
        self.0
    }
}

pub fn names() -> Vec<String> {
    Vec::new()
}

pub fn describe(model: &str) -> Result<Signature> {
    let none = || Err(ModelError::NoSuchModel(model.to_owned()));
    DESCRIBE.with_borrow_mut(|describe| describe.as_mut().map_or_else(none, |describe| describe(model)))
}

pub fn infer(model: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let none = || Err(ModelError::Failed("call `models::answer_with` before".to_owned()));
    ANSWER.with_borrow_mut(|answer| answer.as_mut().map_or_else(none, |answer| answer(model, inputs)))
}

pub fn run(
    model: &str,
    inputs: &[(String, &Resident)],
    outputs: &[String],
) -> Result<Vec<(String, Resident)>> {
    let inputs: Vec<Tensor> =
        inputs.iter().map(|(name, resident)| Tensor { name: name.clone(), ..resident.0.clone() }).collect();
    let all = infer(model, &inputs)?;
    let is_wanted = |tensor: &Tensor| outputs.is_empty() || outputs.contains(&tensor.name);
    Ok(all.into_iter().filter(is_wanted).map(|tensor| (tensor.name.clone(), Resident(tensor))).collect())
}

pub fn start(model: &str, inputs: &[(String, &Resident)], outputs: &[String]) -> Result<Pending> {
    Ok(Pending(run(model, inputs, outputs)))
}
