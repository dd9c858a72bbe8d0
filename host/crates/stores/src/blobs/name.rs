//! Names of objects and containers as parts of paths and of keys.
//!
//! In: any text. Out: a path of letters, digits, `-`, `_`, `.`, `:`, `/` and `=`, which stands for what is
//! none of them: `=2E` for a dot. Invariants: two names have two paths; no part of a path is empty, `.` or
//! `..`, or begins with a dot; none begins or ends with `/`.

/// A name as a path.
pub(super) fn escaped(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    let mut is_first = true;
    let mut bytes = name.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let is_plain = match byte {
            b'-' | b'_' | b':' => true,
            b'.' => !is_first,
            // Between two parts.
            b'/' => !is_first && bytes.peek().is_some(),
            _ => byte.is_ascii_alphanumeric(),
        };
        is_first = is_plain && byte == b'/';
        match is_plain {
            true => path.push(char::from(byte)),
            false => path += &format!("={byte:02X}"),
        }
    }
    path
}

/// The name of a path; `None` if no name has it.
pub(super) fn unescaped(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'=', [high, low, after @ ..]) => {
                let digits = std::str::from_utf8(&[*high, *low]).ok().map(str::to_owned)?;
                bytes.push(u8::from_str_radix(&digits, 16).ok()?);
                after
            }
            (b'=', _) => return None,
            _ => {
                bytes.push(*first);
                after
            }
        };
    }
    let name = String::from_utf8(bytes).ok()?;
    (escaped(&name) == path).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_path_of_its_own_that_leads_nowhere_else() {
        for (name, expected) in [
            ("a", "a"),
            ("images/cat-1.png", "images/cat-1.png"),
            ("..", "=2E."),
            ("../../etc/passwd", "=2E./=2E./etc/passwd"),
            ("/etc/passwd", "=2Fetc/passwd"),
            ("a//b", "a/=2Fb"),
            ("a/", "a=2F"),
            ("a/.", "a/=2E"),
            (".hidden", "=2Ehidden"),
            ("a=2E", "a=3D2E"),
            ("a b\0\n%2e", "a=20b=00=0A=252e"),
            ("ä\\", "=C3=A4=5C"),
        ] {
            assert_eq!(escaped(name), expected, "{name:?}");
            assert_eq!(unescaped(expected).as_deref(), Some(name), "{expected}");
            let is_tame = |part: &str| !part.is_empty() && !part.starts_with('.');
            assert!(escaped(name).split('/').all(is_tame), "{name:?}");
        }
        for path in ["=", "=2", "=ZZ", "..", "a//b", "=61", "a/", "=FF"] {
            assert_eq!(unescaped(path), None, "{path}");
        }
    }
}
