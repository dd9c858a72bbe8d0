//! A library for handlers that is not this project's own: titles to slugs.
//!
//! In: a text. Out: its form in an address. `wit/slug.wit` is the interface that handlers import; README.md
//! has the steps of a build.

#[allow(missing_docs, unsafe_code, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "library", pub_export_macro: true });
}

/// The component.
#[derive(Debug)]
pub struct Library;

impl bindings::exports::example::slug::slugs::Guest for Library {
    fn slug(title: String, longest: u32) -> String {
        slug(&title, usize::try_from(longest).unwrap_or(usize::MAX))
    }
}

#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "generated")]
mod component {
    use super::{Library, bindings};

    bindings::export!(Library with_types_in bindings);
}

/// The slug of a title, of at most so many bytes.
pub fn slug(title: &str, longest: usize) -> String {
    let mut slug = String::new();
    let words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    for word in words.map(str::to_lowercase) {
        if slug.is_empty() {
            slug.push_str(&word[..word.floor_char_boundary(longest)]);
        } else if slug.len() + 1 + word.len() <= longest {
            slug.push('-');
            slug.push_str(&word);
        } else {
            break;
        }
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_becomes_words_of_an_address() {
        for (title, longest, expected) in [
            ("Zwei  Äpfel, 3 Birnen!", 80, "zwei-äpfel-3-birnen"),
            ("One two three", 9, "one-two"),
            ("Überlang", 4, "übe"),
            ("…", 80, ""),
        ] {
            assert_eq!(slug(title, longest), expected, "{title}");
        }
    }
}
