//! The one table from error codes to what each protocol calls them.
//!
//! Place in the flow: every failure of every protocol passes here. docs/reference.md has the same table, and a test
//! compares.

use axum::http::StatusCode;

use crate::error::Code;

/// HTTP's status and gRPC's for a failure.
pub(super) fn of(code: Code) -> (StatusCode, tonic::Code) {
    match code {
        Code::InvalidInput => (StatusCode::BAD_REQUEST, tonic::Code::InvalidArgument),
        Code::Unauthorized => (StatusCode::UNAUTHORIZED, tonic::Code::Unauthenticated),
        Code::NotFound => (StatusCode::NOT_FOUND, tonic::Code::NotFound),
        Code::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, tonic::Code::Unimplemented),
        Code::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, tonic::Code::ResourceExhausted),
        Code::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, tonic::Code::DeadlineExceeded),
        Code::HeadTooLarge => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, tonic::Code::ResourceExhausted),
        Code::ExpectationFailed => (StatusCode::EXPECTATION_FAILED, tonic::Code::InvalidArgument),
        Code::NotImplemented => (StatusCode::NOT_IMPLEMENTED, tonic::Code::Unimplemented),
        Code::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, tonic::Code::InvalidArgument),
        Code::Overloaded
        | Code::ShuttingDown
        | Code::ModelUnloaded
        | Code::NotReady
        | Code::PluginUnavailable => (StatusCode::SERVICE_UNAVAILABLE, tonic::Code::Unavailable),
        Code::PluginTrap
        | Code::PluginOutOfMemory
        | Code::PluginBadOutput
        | Code::PluginError
        | Code::ModelError
        | Code::Internal => (StatusCode::INTERNAL_SERVER_ERROR, tonic::Code::Internal),
        Code::PluginTimeout | Code::RequestTimeout => {
            (StatusCode::GATEWAY_TIMEOUT, tonic::Code::DeadlineExceeded)
        }
    }
}

/// gRPC's status for what a handler answered by itself over HTTP. A success that is none here is `Unknown`.
pub(super) fn of_http(status: u16) -> tonic::Code {
    match status {
        401 => tonic::Code::Unauthenticated,
        403 => tonic::Code::PermissionDenied,
        404 => tonic::Code::NotFound,
        405 | 501 => tonic::Code::Unimplemented,
        408 | 504 => tonic::Code::DeadlineExceeded,
        409 => tonic::Code::Aborted,
        412 => tonic::Code::FailedPrecondition,
        413 | 429 => tonic::Code::ResourceExhausted,
        502 | 503 => tonic::Code::Unavailable,
        400..500 => tonic::Code::InvalidArgument,
        500.. => tonic::Code::Internal,
        ..400 => tonic::Code::Unknown,
    }
}

/// Truss's code for a failure: 700 for the caller's, 600 for the model's or its handler's, 500 for the server's.
pub(super) fn truss(code: Code) -> &'static str {
    match code {
        Code::InvalidInput
        | Code::Unauthorized
        | Code::NotFound
        | Code::MethodNotAllowed
        | Code::BodyTooLarge
        | Code::BodyTimeout
        | Code::HeadTooLarge
        | Code::ExpectationFailed
        | Code::NotImplemented
        | Code::UnsupportedMediaType => "700",
        Code::NotReady
        | Code::ModelUnloaded
        | Code::PluginUnavailable
        | Code::PluginTrap
        | Code::PluginOutOfMemory
        | Code::PluginBadOutput
        | Code::PluginError
        | Code::PluginTimeout
        | Code::ModelError => "600",
        Code::Overloaded | Code::ShuttingDown | Code::RequestTimeout | Code::Internal => "500",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_the_same_table() {
        let reference = include_str!("../../../docs/reference.md");
        for code in Code::ALL {
            let (http, grpc) = of(code);
            // `InvalidArgument` is INVALID_ARGUMENT there, as in gRPC's own documents.
            let words = format!("{grpc:?}").chars().fold(String::new(), |mut name, letter| {
                if letter.is_uppercase() && !name.is_empty() {
                    name.push('_');
                }
                name.push(letter.to_ascii_uppercase());
                name
            });
            let row = format!("| `{}` | {} | {words} | ", code.name(), http.as_u16());
            assert!(reference.contains(&row), "docs/reference.md should have a row that begins with {row}");
        }
    }
}
