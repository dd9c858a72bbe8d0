//! Names of WIT in JavaScript.
//!
//! In: a name in kebab case. Out: the same in camel case.

/// A name of WIT as JavaScript has it.
pub(in crate::build) fn camel(name: &str, is_upper: bool) -> String {
    let mut made = String::new();
    let mut raise = is_upper;
    for c in name.chars() {
        match c {
            '-' => raise = true,
            c if raise => {
                made.push(c.to_ascii_uppercase());
                raise = false;
            }
            c => made.push(c),
        }
    }
    made
}
