//! The address of a Redis: `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`, or `rediss://` for TLS.
//!
//! Place in the flow: `config/` reads it, `connector.rs` connects to it. In: text. Out: [`RedisPlace`].
//! Invariant: no text of this file's holds the password, nor what was written in its place.

use std::fmt;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo};

/// How an address begins.
const SCHEMES: [(&str, bool); 2] = [("redis://", false), ("rediss://", true)];
/// The name that the keys of this program begin with, unless another one is chosen.
const PREFIX: &str = "modelhost";
/// How long an operation may take, unless another time is chosen.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A Redis, and how to use it.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisPlace {
    /// Whether the connection is TLS.
    pub tls: bool,
    /// Name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Number of the database.
    pub database: i64,
    /// Name of the user, if not `default`.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// The first part of the names of all keys.
    pub prefix: String,
    /// How long an operation may take.
    pub timeout: Duration,
}

/// As in logs: without user and password.
impl fmt::Display for RedisPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let colons = self.host.contains(':');
        let (open, close) = if colons { ("[", "]") } else { ("", "") };
        write!(f, "{scheme}://{open}{}{close}:{}/{}", self.host, self.port, self.database)
    }
}

impl fmt::Debug for RedisPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("place", &format_args!("{self}"))
            .field("user", &self.user)
            .field("has_password", &self.password.is_some())
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl RedisPlace {
    /// Whether a text is meant to be an address of a Redis.
    pub fn is_one(text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        SCHEMES.iter().any(|(scheme, _)| text.starts_with(scheme))
    }

    /// Reads an address.
    ///
    /// # Errors
    /// Text that says what is wrong with it, and repeats none of it.
    pub fn parse(text: &str) -> Result<RedisPlace, &'static str> {
        let found = SCHEMES.into_iter().find_map(|(scheme, tls)| Some((text.strip_prefix(scheme)?, tls)));
        let (rest, tls) = found.ok_or("does not begin with `redis://` or `rediss://`")?;
        if rest.contains(['?', '#']) {
            return Err("has more than user, password, host, port and database");
        }
        // The connection is made by `connector.rs`, TLS or not.
        let info = format!("redis://{rest}").into_connection_info();
        let info = info.map_err(|_| "is no address of a Redis")?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else { return Err("names no host") };
        let settings = info.redis_settings();
        if host.is_empty() || *port == 0 || settings.db() < 0 {
            return Err("is no address of a Redis");
        }
        Ok(RedisPlace {
            tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: *port,
            database: settings.db(),
            user: settings.username().map(str::to_owned).filter(|user| !user.is_empty()),
            password: settings.password().map(str::to_owned).filter(|password| !password.is_empty()),
            prefix: PREFIX.to_owned(),
            timeout: TIMEOUT,
        })
    }

    /// User, password and database, with which a connection begins.
    pub(super) fn settings(&self) -> RedisConnectionInfo {
        let mut settings = RedisConnectionInfo::default().set_db(self.database);
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_whole_or_refused_and_the_password_is_never_shown() {
        for (text, shown, user, password) in [
            ("redis://cache", "redis://cache:6379/0", None, None),
            ("rediss://cache:7000/3", "rediss://cache:7000/3", None, None),
            ("redis://:hush@[::1]:1/2", "redis://[::1]:1/2", None, Some("hush")),
            ("redis://me:hu%2Fsh%40@10.0.0.1", "redis://10.0.0.1:6379/0", Some("me"), Some("hu/sh@")),
        ] {
            let place = RedisPlace::parse(text).unwrap();
            assert_eq!(place.to_string(), shown, "{text}");
            assert_eq!((place.user.as_deref(), place.password.as_deref()), (user, password), "{text}");
            assert!(!format!("{place:?}").contains("hu"), "{place:?}");
        }
        for text in [
            "redis://",
            "redis://a?protocol=resp3",
            "redis://a/b",
            "redis://a:0",
            "redis://a:99999",
            "redis://a b",
            "redis://a/-1",
            "REDIS://a",
            "http://a",
        ] {
            assert!(RedisPlace::parse(text).is_err(), "{text}");
        }
    }
}
