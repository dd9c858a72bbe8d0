//! The pause that a server asks for before it is asked again.
//!
//! In: the headers of its answer. Out: `retry-after`, in seconds or until a date (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

/// The pause; `None` if none is asked for, or it cannot be read.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    pause(headers.get(RETRY_AFTER)?.to_str().ok()?.trim())
}

fn pause(text: &str) -> Option<Duration> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than there are is the longest that is waited.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::from(u32::MAX))));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    Some(until.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_asks_for_a_pause_in_seconds_or_until_a_date() {
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
        let until = pause(&soon).unwrap();
        assert!((3500..=3600).contains(&until.as_secs()), "{until:?}");
        for (text, expected) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("99999999999999999999", Some(u64::from(u32::MAX))),
            ("Fri, 31 Dec 1999 23:59:59 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(pause(text), expected.map(Duration::from_secs), "{text}");
        }
    }
}
