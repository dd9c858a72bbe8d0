//! The meaning of a request to the paths of jobs, and how the server's own paths say it.
//!
//! Place in the flow: a request's method and path become a [`JobOrder`]; [`super`] carries it out. In other
//! dialects other paths say the same, see `compat/job_dialect.rs`.

use axum::http::Method;

use crate::jobs::is_id;

/// The action that a request to the paths of jobs asks for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) enum JobOrder {
    /// A job for this path below the endpoint's.
    Submit(String),
    List,
    Look(String),
    Result(String),
    Cancel(String),
    /// A message is sent again.
    SendAgain(String),
    /// A list of inputs.
    SubmitBatch,
    LookBatch(String),
    StopBatch(String),
    /// The methods of the path.
    Methods(&'static str),
    /// Another method than these.
    NotAllowed(&'static str),
    /// No such path.
    Unknown,
}

impl JobOrder {
    /// Of a path that does not answer this method, but these.
    pub(in crate::server) fn other(method: &Method, methods: &'static str) -> JobOrder {
        match *method == Method::OPTIONS {
            true => JobOrder::Methods(methods),
            false => JobOrder::NotAllowed(methods),
        }
    }
}

/// Whether a method only reads.
pub(in crate::server) fn is_read(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

/// The names of a path below the one of the jobs: the first two, and whether there are more.
pub(in crate::server) fn names(rest: &str) -> (Option<&str>, Option<&str>, bool) {
    let mut names = rest.trim_end_matches('/').split('/').skip(1);
    (names.next(), names.next(), names.next().is_some())
}

/// The order of a path below the server's own one of the jobs. `has_paths`: of an endpoint that has jobs for
/// paths of its own.
pub(super) fn own(method: &Method, rest: &str, has_paths: bool) -> JobOrder {
    let (id, what, has_more) = names(rest);
    let is_read = is_read(method);
    if *method == Method::POST {
        return match (id, what) {
            (Some(id), Some("webhook")) if !has_more && is_id(id) => JobOrder::SendAgain(id.to_owned()),
            (None, _) => JobOrder::Submit("/".to_owned()),
            _ if has_paths => JobOrder::Submit(rest.to_owned()),
            (Some(_), None) => JobOrder::NotAllowed("DELETE, GET, HEAD, OPTIONS"),
            (Some(_), Some("result")) if !has_more => JobOrder::NotAllowed("GET, HEAD, OPTIONS"),
            _ => JobOrder::Unknown,
        };
    }
    match (id, what) {
        (None, _) if is_read => JobOrder::List,
        (Some(id), None) if is_read => JobOrder::Look(id.to_owned()),
        (Some(id), Some("result")) if is_read && !has_more => JobOrder::Result(id.to_owned()),
        (Some(id), None) if *method == Method::DELETE => JobOrder::Cancel(id.to_owned()),
        (Some(id), Some("webhook")) if !has_more && is_id(id) => JobOrder::other(method, "OPTIONS, POST"),
        (Some(_), Some(_)) if is_read => JobOrder::Unknown,
        _ => {
            let methods = match (id, what, has_paths) {
                (None, ..) | (Some(_), Some(_), true) => "GET, HEAD, OPTIONS, POST",
                (Some(_), None, true) => "DELETE, GET, HEAD, OPTIONS, POST",
                (Some(_), None, false) => "DELETE, GET, HEAD, OPTIONS",
                (Some(_), Some(_), false) => "GET, HEAD, OPTIONS",
            };
            JobOrder::other(method, methods)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_is_wanted_of_the_jobs() {
        let (id, uuid) = ("0193".to_owned(), "01936c1e-2f6b-7abc-8def-0123456789ab");
        let submit = |path: &str| JobOrder::Submit(path.to_owned());
        let (looked, cancelled) = (JobOrder::Look(id.clone()), JobOrder::Cancel(id.clone()));
        for (method, rest, expected) in [
            (Method::POST, "", submit("/")),
            (Method::POST, "/", submit("/")),
            (Method::POST, "/train/all", submit("/train/all")),
            (Method::GET, "", JobOrder::List),
            (Method::GET, "/0193", looked),
            (Method::HEAD, "/0193/result", JobOrder::Result(id)),
            (Method::GET, "/0193/result/x", JobOrder::Unknown),
            (Method::GET, "/0193/other", JobOrder::Unknown),
            (Method::DELETE, "/0193", cancelled),
            (Method::DELETE, "", JobOrder::NotAllowed("GET, HEAD, OPTIONS, POST")),
            (Method::OPTIONS, "/0193", JobOrder::Methods("DELETE, GET, HEAD, OPTIONS, POST")),
            (Method::POST, "/0193/webhook", submit("/0193/webhook")),
            (Method::POST, &format!("/{uuid}/webhook"), JobOrder::SendAgain(uuid.to_owned())),
        ] {
            assert_eq!(own(&method, rest, true), expected, "{method} {rest}");
        }
        for (method, rest, expected) in [
            (Method::POST, "/train", JobOrder::NotAllowed("DELETE, GET, HEAD, OPTIONS")),
            (Method::POST, "/0193/result", JobOrder::NotAllowed("GET, HEAD, OPTIONS")),
            (Method::POST, "/train/all", JobOrder::Unknown),
            (Method::POST, "/", submit("/")),
            (Method::OPTIONS, "/0193", JobOrder::Methods("DELETE, GET, HEAD, OPTIONS")),
        ] {
            assert_eq!(own(&method, rest, false), expected, "{method} {rest}");
        }
    }
}
