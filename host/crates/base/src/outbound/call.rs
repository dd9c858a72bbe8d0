//! A request that a handler has sent, written down: vocabulary of those who keep runs and give their answers
//! again.

use bytes::Bytes;

use super::OutboundError;

/// A request, and what came of it.
#[derive(Debug, Clone, Default)]
pub struct OutboundCall {
    /// Upper case.
    pub method: String,
    /// With scheme, host, path and query.
    pub url: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// As much as was sent.
    pub body: Bytes,
    /// `None` if there was none by the end of the run.
    pub answer: Option<OutboundAnswer>,
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub enum OutboundAnswer {
    /// A response.
    Response {
        /// Its status.
        status: u16,
        /// Names in lower case.
        headers: Vec<(String, String)>,
        /// As much of it as the handler has read.
        body: Bytes,
        /// Whether that is all of it.
        is_whole: bool,
    },
    /// None, and why.
    Failed(OutboundError),
}

impl OutboundCall {
    /// Its method and place, without what may hold a secret.
    pub fn shown(&self) -> String {
        let url = self.url.split(['?', '#']).next().unwrap_or_default();
        format!("{} {url}", self.method)
    }

    /// Bytes of bodies and headers.
    pub fn size(&self) -> usize {
        let headers = |headers: &[(String, String)]| -> usize {
            headers.iter().map(|(name, value)| name.len() + value.len() + 48).sum()
        };
        let answer = match &self.answer {
            Some(OutboundAnswer::Response { headers: own, body, .. }) => headers(own) + body.len(),
            Some(OutboundAnswer::Failed(_)) | None => 0,
        };
        self.method.len() + self.url.len() + headers(&self.headers) + self.body.len() + answer
    }
}

impl OutboundError {
    /// All of them, by the names that stand in files.
    pub const ALL: [(&str, OutboundError); 8] = [
        ("denied", OutboundError::Denied),
        ("prohibited", OutboundError::Prohibited),
        ("name", OutboundError::Name),
        ("too-many", OutboundError::TooMany),
        ("timed-out", OutboundError::TimedOut),
        ("certificate", OutboundError::Certificate),
        ("refused", OutboundError::Refused),
        ("broken", OutboundError::Broken),
    ];

    /// Its name in a file.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, error)| *error == self).map_or("broken", |(name, _)| name)
    }
}
