//! The endpoint's models, called by the handler itself: one after another, together, by value, or with
//! tensors that stay with the host.
//!
//! In a component every function is a call to the host. Natively, in a unit test, the models answer what the
//! test says: [`answer_with`].
//!
//! ```no_run
//! use modelhost_guest::{Result, Tensor, models};
//!
//! fn label(image: Tensor) -> Result<Vec<Tensor>> {
//!     let features = models::infer("encoder", &[image])?;
//!     Ok(models::infer("classifier", &features)?)
//! }
//! ```

#![cfg_attr(
    not(target_family = "wasm"),
    allow(clippy::needless_question_mark, reason = "natively the host's errors are these")
)]

use std::fmt;

use crate::bindings::types::{Datatype, Signature, Tensor};
use crate::{Error, Response, internal};

#[cfg(target_family = "wasm")]
use crate::bindings::models::modelhost::handler::models as host;
#[cfg(not(target_family = "wasm"))]
use native as host;

#[cfg(not(target_family = "wasm"))]
pub use native::{answer_with, describe_with};

/// Why a model has not answered.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelError {
    /// No model of the endpoint has this name.
    NoSuchModel(String),
    /// The inputs do not fit the model: which, what was expected and what came.
    InvalidInput(String),
    /// There is no place in the model's queue, or it is unloaded.
    Overloaded,
    /// Not in the request's time.
    TimedOut,
    /// The model failed.
    Failed(String),
    /// More tensors, bytes or runs than the endpoint's limits allow.
    Limit(String),
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelError::NoSuchModel(name) => write!(f, "the endpoint has no model `{name}`"),
            ModelError::InvalidInput(text) | ModelError::Limit(text) => f.write_str(text),
            ModelError::Overloaded => f.write_str("the model has no place for another run"),
            ModelError::TimedOut => f.write_str("the model has not answered in time"),
            ModelError::Failed(text) => write!(f, "the model failed: {text}"),
        }
    }
}

impl std::error::Error for ModelError {}

/// A model without a place is 503 for the caller, everything else the handler's failure.
impl From<ModelError> for Error {
    fn from(error: ModelError) -> Error {
        match error {
            ModelError::Overloaded => Error::Respond(Response::text("overloaded").status(503)),
            error => internal(error.to_string()),
        }
    }
}

type Result<T> = std::result::Result<T, ModelError>;

/// A tensor that the host holds: what is not read is not copied.
#[derive(Debug)]
pub struct Resident(host::Resident);

impl Resident {
    /// Hands a tensor to the host.
    ///
    /// # Errors
    /// [`ModelError::InvalidInput`] if the data are not what datatype and shape say, [`ModelError::Limit`].
    pub fn new(tensor: &Tensor) -> Result<Resident> {
        Ok(Resident(host::Resident::make(tensor.datatype, &tensor.shape, &tensor.data)?))
    }

    /// Its element type.
    pub fn datatype(&self) -> Datatype {
        self.0.datatype()
    }

    /// Its extents, outermost first.
    pub fn shape(&self) -> Vec<u64> {
        self.0.shape()
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// A copy of all of it, under this name.
    ///
    /// # Errors
    /// [`ModelError::Failed`].
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let data = self.0.read()?;
        Ok(Tensor { name: name.to_owned(), datatype: self.datatype(), shape: self.shape(), data })
    }

    /// A copy of `length` bytes from `offset`.
    ///
    /// # Errors
    /// [`ModelError::InvalidInput`] beyond its end.
    pub fn read_range(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        Ok(self.0.read_range(offset, length)?)
    }

    /// The same elements under another shape, without a copy.
    ///
    /// # Errors
    /// [`ModelError::InvalidInput`] if they are not as many.
    pub fn reshape(&self, shape: &[u64]) -> Result<Resident> {
        Ok(Resident(self.0.reshape(shape)?))
    }

    /// `count` rows from `start` along the first axis, without a copy.
    ///
    /// # Errors
    /// [`ModelError::InvalidInput`] beyond its end.
    pub fn rows(&self, start: u64, count: u64) -> Result<Resident> {
        Ok(Resident(self.0.rows(start, count)?))
    }
}

/// Outputs of a run, by name.
#[derive(Debug)]
pub struct Outputs(Vec<(String, Resident)>);

impl Outputs {
    fn of(outputs: Vec<(String, host::Resident)>) -> Outputs {
        Outputs(outputs.into_iter().map(|(name, resident)| (name, Resident(resident))).collect())
    }

    /// Takes the output of this name out of them.
    ///
    /// # Errors
    /// [`ModelError::InvalidInput`] if there is none.
    pub fn take(&mut self, name: &str) -> Result<Resident> {
        let found = self.0.iter().position(|(own, _)| own == name);
        let none = || ModelError::InvalidInput(format!("there is no output `{name}`"));
        found.map(|at| self.0.remove(at).1).ok_or_else(none)
    }

    /// All of them, in the model's order.
    pub fn into_inner(self) -> Vec<(String, Resident)> {
        self.0
    }
}

/// A run that goes on meanwhile. Dropping it cancels it.
#[derive(Debug)]
pub struct Pending(host::Pending);

impl Pending {
    /// Waits for the outputs.
    ///
    /// # Errors
    /// The error of the run.
    pub fn wait(self) -> Result<Outputs> {
        Ok(Outputs::of(self.0.wait()?))
    }
}

/// The models' names, in the order of the configuration. An empty name means the first.
pub fn names() -> Vec<String> {
    host::names()
}

/// The inputs and outputs of a model.
///
/// # Errors
/// [`ModelError::NoSuchModel`].
pub fn describe(model: &str) -> Result<Signature> {
    Ok(host::describe(model)?)
}

/// Runs a model by value: for tensors that are small, or looked at anyway.
///
/// # Errors
/// Any [`ModelError`].
pub fn infer(model: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(host::infer(model, inputs)?)
}

/// Runs a model with tensors that stay with the host.
///
/// # Errors
/// Any [`ModelError`].
pub fn run(model: &str, inputs: &[(&str, &Resident)]) -> Result<Outputs> {
    Ok(Outputs::of(host::run(model, &borrowed(inputs), &[])?))
}

/// The same, for these outputs alone.
///
/// # Errors
/// Any [`ModelError`].
pub fn run_for(model: &str, inputs: &[(&str, &Resident)], outputs: &[&str]) -> Result<Outputs> {
    let outputs: Vec<String> = outputs.iter().map(ToString::to_string).collect();
    Ok(Outputs::of(host::run(model, &borrowed(inputs), &outputs)?))
}

/// Starts a run: started together and waited for one after another, runs go on together.
///
/// # Errors
/// [`ModelError::Limit`]; the rest comes with the outputs.
pub fn start(model: &str, inputs: &[(&str, &Resident)]) -> Result<Pending> {
    Ok(Pending(host::start(model, &borrowed(inputs), &[])?))
}

fn borrowed<'a>(inputs: &[(&str, &'a Resident)]) -> Vec<(String, &'a host::Resident)> {
    inputs.iter().map(|(name, resident)| ((*name).to_owned(), &resident.0)).collect()
}

#[cfg(target_family = "wasm")]
impl From<host::Error> for ModelError {
    fn from(error: host::Error) -> ModelError {
        match error {
            host::Error::NoSuchModel(name) => ModelError::NoSuchModel(name),
            host::Error::InvalidInput(text) => ModelError::InvalidInput(text),
            host::Error::Overloaded => ModelError::Overloaded,
            host::Error::TimedOut => ModelError::TimedOut,
            host::Error::Failed(text) => ModelError::Failed(text),
            host::Error::Limit(text) => ModelError::Limit(text),
        }
    }
}

#[cfg(not(target_family = "wasm"))]
mod native;
