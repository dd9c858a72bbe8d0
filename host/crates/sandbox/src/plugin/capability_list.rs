//! The list of what handlers may use of the host. A new capability is a folder in `capabilities/` and an
//! entry here.
//!
//! Place in the flow: read by the compiler alone. Of each entry `capabilities.rs` makes a field of what
//! endpoints, handlers and instances hold, and a step of every loop over them; of one whose calls are logged,
//! `host_call_log/` makes a list and a kind of result, `capture/record/format/recording.rs` a member of a
//! recording.
//! Invariant: the order is that of a recording's members and of the rows of `inspect`; a name is that of the
//! setting.

/// Gives the list to the macro of this name: for each capability its name, its type, what it is; and, if its
/// calls are logged, their type and the name of their results.
#[macro_export]
macro_rules! each_capability {
    ($then:ident) => {
        $then! {
            models: Models = "The endpoint's models.";
            outbound: Outbound = "Requests, to where the endpoint lets them go.";
            kv: Kv = "Values, in the buckets that the endpoint grants.",
                logs ::modelhost_stores::kv::KvCall as Kv = "An operation on a bucket, likewise.";
            jobs: Jobs = "Jobs of the endpoint, where it has some.",
                logs ::modelhost_stores::jobs::handler::JobCall as Jobs = "A call for its endpoint's jobs, likewise.";
            blobs: Blobs = "Objects, in the containers that the endpoint grants.";
            metrics: Metrics = "Metrics that the handler makes itself.";
            config: Config = "Settings by name.";
        }
    };
}

pub use each_capability;
