//! Expands `wit_bindgen::generate!` in the Rust SDK's `bindings.rs`: the macro and its crates are half of a
//! handler's first build.
//!
//! Place in the flow: called by `build.rs`. In: the file's text. Out: the same with the code that each macro
//! makes, without documentation and indentation, which are half of it packed.
//! Invariant: an option of the macro that is not known here ends the build.

use std::error::Error;
use std::path::Path;

use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator as _};
use wit_bindgen_rust::{Opts, Ownership, WithOption};

const BEGIN: &str = "wit_bindgen::generate!({";
const END: &str = "});";

/// The text with every macro expanded. `sdk` is the folder that the macro's paths begin at.
pub(crate) fn expanded(text: &str, sdk: &Path) -> Result<String, Box<dyn Error>> {
    let mut rest = text;
    let mut expanded = String::new();
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (options, after) = after.split_once(END).ok_or("a macro without an end")?;
        expanded += before;
        let code = generated(options, sdk)?;
        for line in code.lines().map(str::trim_start) {
            if !line.is_empty() && !line.starts_with("///") {
                expanded += line;
                expanded.push('\n');
            }
        }
        rest = after;
    }
    Ok(expanded + rest)
}

/// The code of the macro with these options.
fn generated(options: &str, sdk: &Path) -> Result<String, Box<dyn Error>> {
    let (mut path, mut world) = (None, None);
    let mut choices = Opts::default();
    for option in options.lines().map(|line| line.trim().trim_end_matches(',')) {
        let (name, value) = option.split_once(": ").unwrap_or((option, "true"));
        let text = || value.trim_matches('"').to_owned();
        match name {
            "" => {}
            "path" => path = Some(sdk.join(text())),
            "world" => world = Some(text()),
            "generate_all" => choices.generate_all = true,
            "pub_export_macro" => choices.pub_export_macro = value == "true",
            "export_macro_name" => choices.export_macro_name = Some(text()),
            "additional_derives" => {
                let names = value.trim_matches(['[', ']']).split(", ");
                choices.additional_derive_attributes = names.map(str::to_owned).collect();
            }
            "ownership" => {
                if value != "Borrowing { duplicate_if_necessary: false }" {
                    return Err(format!("no such ownership: `{value}`").into());
                }
                choices.ownership = Ownership::Borrowing { duplicate_if_necessary: false };
            }
            "with" => {
                let pair = value.trim_matches(['{', '}', ' ']).split_once(": ");
                let (interface, module) = pair.ok_or_else(|| format!("no pair: `{value}`"))?;
                let module = WithOption::Path(module.to_owned());
                choices.with.push((interface.trim_matches('"').to_owned(), module));
            }
            _ => return Err(format!("`{name}` is not known to host/crates/project/build/bindings.rs").into()),
        }
    }
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(path.ok_or("a macro without `path`")?)?;
    let world = resolve.select_world(&[package], world.as_deref())?;
    let mut files = Files::default();
    choices.build().generate(&mut resolve, world, &mut files)?;
    let (_, code) = files.iter().next().ok_or("no code was made")?;
    Ok(std::str::from_utf8(code)?.to_owned())
}
