//! The commands for the author of a handler: `new`, `build`, `test`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `host new`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct New {
    /// Name of the handler and of the folder: lower-case letters, digits and `-`.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The language to write it in.
    #[arg(long, value_name = "LANGUAGE")]
    pub lang: Language,
    /// The template of the handler.
    #[arg(long, value_name = "TEMPLATE", default_value = "iris")]
    pub template: Template,
}

/// A language that handlers are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Rust, on this repository's SDK.
    Rust,
    /// Python, by componentize-py.
    Python,
    /// JavaScript, by jco.
    Js,
}

/// The templates of a new handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Template {
    /// Around a model: names an iris from four measurements.
    Iris,
    /// Around a model: a JPEG file becomes pixels. In Rust.
    Image,
    /// Around a model: a text becomes numbers of its words.
    Text,
    /// Around a model: tensors in, tensors out, for clients of the Open Inference Protocol.
    Tensors,
    /// An application: routes, calls of a model, a stream, work after the response.
    App,
}

/// Arguments of `host build`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Build {
    /// The handler's folder.
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
}

/// Arguments of `host test`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Test {
    /// The handler's folder, with its modelhost.toml.
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Write the answers that differ or are missing as those that are expected from now on.
    #[arg(long)]
    pub update: bool,
    /// Write the results as JUnit XML too.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}
