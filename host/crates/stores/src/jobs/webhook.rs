//! The webhook of a job: where its result is sent, and how far that is.
//!
//! Place in the flow: part of a [`Job`](super::Job) from its submission on; `tables/deliveries.rs` changes
//! it, `workers/deliveries.rs` sends what is due. Also the configuration of all of an endpoint's.
//! Invariant: nothing prints a secret.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::keys::lines;

/// Longest URL of a webhook, in bytes.
pub const LONGEST_URL: usize = 2048;

/// The webhooks of an endpoint's jobs, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebhookConfig {
    /// The secrets that sign each message, the newest first; unsigned without any.
    pub secrets: Vec<WebhookSecret>,
    /// How often a message is sent before it is a dead letter.
    pub attempts: u32,
    /// How long one attempt may take.
    pub timeout: Duration,
}

/// A secret that receivers know too.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(String);

impl WebhookSecret {
    /// Reads one secret a line.
    ///
    /// # Errors
    /// As [`lines`].
    pub fn parse(text: &str) -> Result<Vec<WebhookSecret>, usize> {
        Ok(lines(text)?.into_iter().map(|line| WebhookSecret(line.to_owned())).collect())
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Without the secret.
impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

/// The form of a message, by the name that is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WebhookForm(Cow<'static, str>);

impl WebhookForm {
    /// The server's own.
    pub const OWN: WebhookForm = WebhookForm::named("own");

    /// The form of this name.
    pub const fn named(name: &'static str) -> WebhookForm {
        WebhookForm(Cow::Borrowed(name))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// The state of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookState {
    /// Its job is not finished.
    #[default]
    Waiting,
    /// To be sent, for the first time or again.
    Pending,
    /// The receiver has it.
    Delivered,
    /// A dead letter: no attempt is left. It can be sent again.
    Failed,
    /// The job was cancelled: nothing is sent.
    Cancelled,
}

impl WebhookState {
    /// All of them.
    pub const ALL: [WebhookState; 5] = [
        WebhookState::Waiting,
        WebhookState::Pending,
        WebhookState::Delivered,
        WebhookState::Failed,
        WebhookState::Cancelled,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            WebhookState::Waiting => "waiting",
            WebhookState::Pending => "pending",
            WebhookState::Delivered => "delivered",
            WebhookState::Failed => "failed",
            WebhookState::Cancelled => "cancelled",
        }
    }
}

/// The webhook of one job. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// Where the result is sent.
    pub url: String,
    /// Scheme, host and port of that: messages to one place wait for each other, never for those to others.
    pub origin: String,
    /// The form of the message.
    pub form: WebhookForm,
    /// Its state.
    pub state: WebhookState,
    /// Attempts that have ended since it was to be sent.
    pub attempts: u32,
    /// When its state changed, or an attempt ended, last.
    pub changed: u64,
    /// When it is to be sent, if it is pending.
    pub due: u64,
    /// Why the last attempt has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Webhook {
    /// That of a job that is not submitted yet.
    pub fn new(url: &str, origin: String, form: WebhookForm) -> Webhook {
        let state = WebhookState::Waiting;
        Webhook { url: url.to_owned(), origin, form, state, attempts: 0, changed: 0, due: 0, error: None }
    }

    /// Its URL without what may hold a secret.
    pub fn shown(&self) -> &str {
        self.url.split(['?', '#']).next().unwrap_or_default()
    }
}

/// A message that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Of its job.
    pub id: String,
    /// The place that it goes to.
    pub origin: String,
    pub(super) place: Vec<u8>,
}

/// The end of an attempt to deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivered {
    /// The receiver has it.
    Accepted,
    /// It does not.
    Failed {
        /// In a line.
        error: String,
        /// Whether another attempt is of no use.
        is_final: bool,
        /// How long the receiver wants no other.
        after: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As every version has stored it.
    #[test]
    fn a_form_is_stored_by_its_name() {
        for (form, name) in [(WebhookForm::OWN, "own"), (WebhookForm::named("other"), "other")] {
            let stored = format!(
                r#"{{"url":"http://a/x","origin":"http://a","form":"{name}","state":"waiting","attempts":0,"changed":0,"due":0}}"#
            );
            let webhook = Webhook::new("http://a/x", "http://a".to_owned(), form);
            assert_eq!(serde_json::to_string(&webhook).unwrap(), stored);
            assert_eq!(serde_json::from_str::<Webhook>(&stored).unwrap(), webhook);
        }
    }

    #[test]
    fn secrets_are_lines_and_are_not_printed() {
        let secrets = WebhookSecret::parse("# new\nwhsec_abc\n\nold\n").unwrap();
        assert_eq!(secrets.iter().map(WebhookSecret::text).collect::<Vec<_>>(), ["whsec_abc", "old"]);
        assert_eq!(format!("{secrets:?}"), "[WebhookSecret, WebhookSecret]");
        assert_eq!(WebhookSecret::parse("a\nb c"), Err(2));
        assert_eq!(WebhookSecret::parse(&"x".repeat(1025)), Err(1));
    }
}
