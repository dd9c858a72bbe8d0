//! Names and help texts of all metrics.
//!
//! Place in the flow: [`super`] makes a family of each, docs/reference.md lists them. In: nothing. Out: a row
//! a family.

/// Names and help texts, in the order of docs/reference.md.
pub const METRICS: [(&str, &str); 60] = [
    ("modelhost_requests_total", "Requests by endpoint and outcome: `ok`, `cancelled` or an error code."),
    (
        "modelhost_request_duration_seconds",
        "Time from a request's arrival to the end of its response, and of work after it, by endpoint.",
    ),
    ("modelhost_stage_duration_seconds", "Time a request spent in a stage, by endpoint and stage."),
    (
        "modelhost_batch_requests",
        "Requests that shared one run of the model, by endpoint; the count is that of answered runs.",
    ),
    (
        "modelhost_batch_calls",
        "Requests that a handler was given together by one call, by endpoint; the count is that of calls.",
    ),
    ("modelhost_requests_in_flight", "Requests that hold a permit now, by endpoint."),
    ("modelhost_requests_queued", "Requests that wait for a permit now, by endpoint."),
    (
        "modelhost_memory_bytes",
        "Bytes of bodies, tensors and answers that `server.memory` counts now, by endpoint.",
    ),
    (
        "modelhost_plugin_instances",
        "Sandboxes alive now, those of draining generations included, by endpoint.",
    ),
    ("modelhost_plugin_instances_created_total", "Sandboxes made since the start, by endpoint."),
    (
        "modelhost_plugin_generation",
        "Number of the current generation, handler and models, by endpoint; 1 is the first.",
    ),
    (
        "modelhost_plugin_swaps_total",
        "Attempts to publish another generation, by endpoint and outcome: `published`, `refused`.",
    ),
    ("modelhost_plugin_faults_total", "Requests that a handler failed, by endpoint and kind of fault."),
    (
        "modelhost_plugin_bypassed_total",
        "Requests that were answered without the handler because it failed, by endpoint.",
    ),
    (
        "modelhost_plugin_breaker_open",
        "1 while the current generation's handler is not called because it failed too often, by endpoint.",
    ),
    (
        "modelhost_recordings_total",
        "Recordings of requests, by endpoint and outcome: `written`, `dropped`, `refused` for what a recording cannot hold.",
    ),
    (
        "modelhost_plugin_info",
        "1; the labels hold which handler has which role at an endpoint: `current`, `candidate`, `previous`. 0 where there is none.",
    ),
    (
        "modelhost_trial_requests_total",
        "Requests by endpoint, mode of the trial and outcome: `same`, `differs`, `failed`, `dropped`; of a canary's own `ok`, `error`.",
    ),
    (
        "modelhost_trial_share",
        "Share of the requests that the candidate takes part in, by endpoint; 0 without one.",
    ),
    ("modelhost_predictions_total", "Predictions by endpoint and class, where a tracker of classes is set."),
    (
        "modelhost_prediction_value",
        "Values that were predicted, by endpoint, where a tracker of values is set.",
    ),
    ("modelhost_prediction_value_min", "Smallest predicted value since the start, by endpoint."),
    ("modelhost_prediction_value_max", "Largest predicted value since the start, by endpoint."),
    (
        "modelhost_prediction_untracked_total",
        "Responses in which the tracker found no prediction of its kind, by endpoint.",
    ),
    (
        "modelhost_kv_operations_total",
        "Operations of handlers on their buckets, by endpoint, operation and outcome: `ok`, `error`.",
    ),
    ("modelhost_kv_store_up", "1 if the Redis in which the endpoint keeps values can be reached, else 0."),
    (
        "modelhost_blob_operations_total",
        "Operations of handlers on their objects, by endpoint, operation and outcome: `ok`, `error`.",
    ),
    (
        "modelhost_blob_store_up",
        "1 if the server in whose bucket the endpoint keeps objects answers and takes the credentials, else 0.",
    ),
    ("modelhost_sequences", "Sequences whose state is kept now, by endpoint."),
    ("modelhost_sequence_bytes", "Bytes of the sequences' state, by endpoint."),
    (
        "modelhost_response_cache_requests_total",
        "Requests at endpoints with a response cache, by endpoint and outcome: `hit`, `collapsed` into an equal one at the same time, `miss`, `bypass`.",
    ),
    (
        "modelhost_response_cache_lookup_seconds_total",
        "Time of the lookups in the response cache, by endpoint and outcome.",
    ),
    ("modelhost_response_cache_evictions_total", "Cached answers that made way for others, by endpoint."),
    ("modelhost_response_cache_bytes", "Bytes that the response cache holds now, by endpoint."),
    ("modelhost_websockets_open", "WebSockets that are open now, by endpoint."),
    (
        "modelhost_websocket_messages_total",
        "Messages over WebSockets, by endpoint and direction: `received`, `sent`.",
    ),
    (
        "modelhost_websocket_closes_total",
        "WebSockets that were closed, by endpoint and code; 1006: the client went without a close.",
    ),
    ("modelhost_jobs", "Jobs that are not finished now, by endpoint and state: `queued`, `running`."),
    (
        "modelhost_jobs_oldest_seconds",
        "Age of the oldest job that waits for a place, by endpoint; 0 if none does.",
    ),
    (
        "modelhost_jobs_submitted_total",
        "Submissions of jobs, by endpoint and outcome: `stored`, `repeated` by their idempotency key, `refused`.",
    ),
    (
        "modelhost_jobs_ended_total",
        "Jobs that have ended, by endpoint and outcome: `completed`, `failed` and not tried again, `cancelled`.",
    ),
    (
        "modelhost_job_attempts_total",
        "Attempts at jobs, by endpoint and outcome: `completed`, `failed`, `cancelled`, `postponed` because the server did not take them.",
    ),
    (
        "modelhost_job_webhooks_total",
        "Attempts to deliver webhooks of jobs, by endpoint and outcome: `delivered`, `failed`, `dead` if no other follows.",
    ),
    (
        "modelhost_job_webhooks_pending",
        "Webhooks of jobs that are to be sent now, for the first time or again, by endpoint.",
    ),
    ("modelhost_jobs_store_up", "1 if the Redis in which the endpoint's jobs are can be reached, else 0."),
    (
        "modelhost_job_operations_total",
        "What handlers ask of their endpoint's jobs, by endpoint, operation and outcome: `ok`, `error`.",
    ),
    (
        "modelhost_handler_series_refused_total",
        "What handlers count themselves and is dropped, by endpoint: beyond `limits.series`, or of a name that has another kind.",
    ),
    (
        "modelhost_trace_spans_total",
        "Spans of traced requests by outcome: `exported`, or `dropped` because the queue was full or the collector did not take them; none without tracing.",
    ),
    (
        "modelhost_access_log_lines_total",
        "Lines of the access log by outcome: `written`, or `dropped` because the queue was full or the file took nothing; none without one.",
    ),
    (
        "modelhost_config_reloads_total",
        "Attempts to serve another configuration, by outcome: `applied`, `unchanged`, `incomplete` if a part of it is not served, `refused`.",
    ),
    (
        "modelhost_config_last_reload_successful",
        "1 if the last attempt to serve another configuration was carried out, or there was none; else 0.",
    ),
    (
        "modelhost_config_last_reload_success_timestamp_seconds",
        "When the configuration that is served was taken, in seconds since 1970.",
    ),
    (
        "process_cpu_seconds_total",
        "Seconds of CPU time that the process has used, in user mode and in the kernel.",
    ),
    ("process_resident_memory_bytes", "Bytes of the process's memory that are in RAM."),
    (
        "process_virtual_memory_bytes",
        "Bytes of the process's address space; most of it is reserved for sandboxes and not used.",
    ),
    ("process_threads", "Threads of the process."),
    ("process_open_fds", "Files, sockets and pipes that the process has open."),
    ("process_max_fds", "Files, sockets and pipes that the process may have open."),
    ("process_start_time_seconds", "When the process began, in seconds since 1970."),
    ("modelhost_build_info", "Always 1; the label holds the version."),
];
