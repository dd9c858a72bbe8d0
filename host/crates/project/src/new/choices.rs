//! The languages and the templates of new projects.
//!
//! Place in the flow: the command line offers them by their keys, which are folders of `templates` too.

/// A language that handlers are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust, on this repository's SDK.
    Rust,
    /// Python, by componentize-py.
    Python,
    /// JavaScript, by jco.
    Js,
    /// TypeScript, by jco; its types are checked.
    Ts,
    /// Go, by its own compiler.
    Go,
    /// C, by the compiler that comes with Zig.
    C,
    /// C++, by the compiler that comes with Zig.
    Cpp,
    /// Zig.
    Zig,
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 8] = [
        Language::Rust,
        Language::Python,
        Language::Js,
        Language::Ts,
        Language::Go,
        Language::C,
        Language::Cpp,
        Language::Zig,
    ];

    /// The value of `--lang`.
    pub fn key(self) -> &'static str {
        self.texts().0
    }

    /// The language's own name.
    pub fn name(self) -> &'static str {
        self.texts().1
    }

    /// How it becomes a component.
    pub fn about(self) -> &'static str {
        self.texts().2
    }

    fn texts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Language::Rust => ("rust", "Rust", "Rust, on this repository's SDK"),
            Language::Python => ("python", "Python", "Python, by componentize-py"),
            Language::Js => ("js", "JavaScript", "JavaScript, by jco"),
            Language::Ts => ("ts", "TypeScript", "TypeScript, by jco; its types are checked"),
            Language::Go => ("go", "Go", "Go, by its own compiler"),
            Language::C => ("c", "C", "C, by the compiler that comes with Zig"),
            Language::Cpp => ("cpp", "C++", "C++, by the compiler that comes with Zig"),
            Language::Zig => ("zig", "Zig", "Zig"),
        }
    }
}

/// The templates of a new handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// Around a model: names an iris from four measurements.
    Iris,
    /// Around a model: a JPEG file becomes pixels. In Rust.
    Image,
    /// Around a model: a text becomes numbers of its words.
    Text,
    /// Around a model: tensors in, tensors out.
    Tensors,
    /// An application: routes, calls of a model, a stream, work after the response.
    App,
}

impl Template {
    /// All of them.
    pub const ALL: [Template; 5] =
        [Template::Iris, Template::Image, Template::Text, Template::Tensors, Template::App];

    /// The value of `--template`.
    pub fn key(self) -> &'static str {
        self.texts().0
    }

    /// The use of it.
    pub fn about(self) -> &'static str {
        self.texts().1
    }

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Template::Iris => ("iris", "Around a model: names an iris from four measurements"),
            Template::Image => ("image", "Around a model: a JPEG file becomes pixels. In Rust"),
            Template::Text => ("text", "Around a model: a text becomes numbers of its words"),
            Template::Tensors => (
                "tensors",
                "Around a model: tensors in, tensors out, for clients of the Open Inference Protocol",
            ),
            Template::App => {
                ("app", "An application: routes, calls of a model, a stream, work after the response")
            }
        }
    }
}
