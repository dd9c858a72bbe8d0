//! Why a server of objects gave no answer, and what follows from it.
//!
//! Place in the flow: [`super::wire`] makes one of each response that is no success, and hands it through
//! `object_store` as the source of an error; [`super::client`] finds it there. Invariant: its text names no
//! address, no path and no secret; what may is its detail, for the operator's log.

use std::error::Error as StdError;

use object_store::client::{HttpError, HttpErrorKind};

use crate::blobs::BlobError;
use crate::outbound::OutboundError;
use crate::text::shown;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// The server has returned an error.
    #[error("the server returned {status}{}{code}", if code.is_empty() { "" } else { " " })]
    Refused { status: u16, code: String },
    /// It has returned nothing.
    #[error("{0}")]
    Silent(OutboundError),
    /// It has returned something that is no answer, or was cut off; with a detail for the operator.
    #[error("the server sent an unexpected response")]
    Unexpected(String),
}

impl Failure {
    /// Whether another request might be served: the server is there and takes this host's credentials. To a
    /// `HEAD` it answers without a code.
    pub(super) fn is_about_the_request(&self) -> bool {
        const OF_THE_HOST: [&str; 11] = [
            "",
            "AuthenticationFailed",
            "AuthorizationFailure",
            "AuthorizationHeaderMalformed",
            "ExpiredToken",
            "InvalidAccessKeyId",
            "InvalidAuthenticationInfo",
            "InvalidToken",
            "RequestTimeTooSkewed",
            "SignatureDoesNotMatch",
            "TokenRefreshRequired",
        ];
        match self {
            Failure::Refused { status: 401, .. } => false,
            // Rights may be those of an action or of an object.
            Failure::Refused { status: 400 | 403, code } => !OF_THE_HOST.contains(&&**code),
            Failure::Refused { status, .. } => *status < 500,
            Failure::Silent(_) | Failure::Unexpected(_) => false,
        }
    }

    /// Whether the server does not take this host's credentials, as far as it says.
    pub(super) fn is_about_the_credentials(&self) -> bool {
        matches!(self, Failure::Refused { status: 400 | 401 | 403, .. }) && !self.is_about_the_request()
    }

    /// Whether the same request may be served in a moment, since the server has said so.
    pub(super) fn is_transient(&self) -> bool {
        const CODES: [&str; 7] = [
            "InternalError",
            "OperationTimedOut",
            "RequestTimeout",
            "ServerBusy",
            "ServiceUnavailable",
            "SlowDown",
            "Throttling",
        ];
        match self {
            Failure::Refused { status: 408 | 429 | 500 | 502..=504, .. } => true,
            Failure::Refused { code, .. } => CODES.contains(&&**code),
            Failure::Silent(_) | Failure::Unexpected(_) => false,
        }
    }

    /// As `object_store` has it, which decides by the kind whether the request, `is_safe` to be served twice,
    /// is sent again.
    pub(super) fn into_error(self, is_safe: bool) -> HttpError {
        let kind = match &self {
            Failure::Silent(OutboundError::Refused | OutboundError::Name) => HttpErrorKind::Connect,
            // It may have been served.
            Failure::Silent(OutboundError::Broken) if is_safe => HttpErrorKind::Request,
            _ if self.is_transient() => HttpErrorKind::Request,
            _ => HttpErrorKind::Unknown,
        };
        HttpError::new(kind, self)
    }

    /// The text for the operator.
    pub(super) fn detail(&self) -> String {
        match self {
            Failure::Unexpected(detail) if !detail.is_empty() => format!("{self}: {detail}"),
            _ => self.to_string(),
        }
    }
}

impl From<object_store::Error> for Failure {
    fn from(error: object_store::Error) -> Failure {
        let first: &(dyn StdError + 'static) = &error;
        let found = std::iter::successors(Some(first), |&cause| cause.source())
            .find_map(|cause| cause.downcast_ref::<Failure>().cloned());
        found.unwrap_or_else(|| match &error {
            // Of one among several in a request.
            object_store::Error::NotFound { .. } => Failure::Refused { status: 404, code: String::new() },
            _ => Failure::Unexpected(shown(&error.to_string())),
        })
    }
}

impl From<Failure> for BlobError {
    fn from(failure: Failure) -> BlobError {
        BlobError::Unavailable(failure.to_string())
    }
}
