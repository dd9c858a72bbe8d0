//! Error codes in the words of each protocol.
//!
//! Place in the flow: every failure of every protocol passes here. The table itself is in `error/code.rs`.

use axum::http::StatusCode;

use crate::error::Code;

/// HTTP's status and gRPC's for a failure.
pub(super) fn of(code: Code) -> (StatusCode, tonic::Code) {
    // The numbers of the rows are statuses; a test compares.
    let http = StatusCode::from_u16(code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (http, tonic::Code::from_i32(code.grpc() as i32))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

    #[test]
    fn the_reference_has_the_rows_of_the_codes() {
        let row = |code: Code| {
            let (http, grpc) = of(code);
            assert_eq!(format!("{grpc:?}"), format!("{:?}", code.grpc()), "the number of a status of gRPC");
            assert_eq!(http.as_u16(), code.http());
            // `InvalidArgument` is INVALID_ARGUMENT there, as in gRPC's own documents.
            let words = format!("{grpc:?}").chars().fold(String::new(), |mut name, letter| {
                if letter.is_uppercase() && !name.is_empty() {
                    name.push('_');
                }
                name.push(letter.to_ascii_uppercase());
                name
            });
            format!("| `{}` | {} | {words} | {} |", code.name(), http.as_u16(), code.meaning())
        };
        reference::hold("| code | HTTP | gRPC | meaning |\n|---|---|---|---|\n", "\n\n", Code::ALL.map(row));
    }
}
