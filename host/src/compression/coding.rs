//! The codings of bodies by their names (RFC 9110, section 8.4.1).
//!
//! Place in the flow: `content-encoding` and `accept-encoding` name them; [`super`] packs and unpacks.

use http::header::HeaderValue;

/// How bytes are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950.
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

impl Coding {
    /// All of them.
    pub(super) const ALL: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];
    /// Their names, for a client whose coding is another.
    pub const TAKEN: HeaderValue = HeaderValue::from_static("gzip, deflate, br, zstd");

    /// Its name in headers.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// The coding of this name.
    pub(super) fn named(name: &str) -> Option<Coding> {
        // The old name means the same (RFC 9110, section 8.4.1.3).
        let gzip = name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip");
        if gzip {
            return Some(Coding::Gzip);
        }
        Coding::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name()))
    }
}
