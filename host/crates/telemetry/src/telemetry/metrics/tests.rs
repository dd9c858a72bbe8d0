//! The metrics as they are rendered: from when there are series, and no count lost.

use std::collections::BTreeMap;
use std::thread;

use super::*;

/// Every series, in the format of the tests.
pub(super) const WHOLE: MetricsView = MetricsView { format: MetricsFormat::Prometheus, is_whole: true };

/// Every sample of a rendering: its value by its series, as in `name{label="value"}`.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let mut samples = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(samples.insert(series, value.parse().unwrap()).is_none(), "twice: {line}");
    }
    samples
}

#[test]
fn what_every_endpoint_counts_begins_at_zero() {
    let metrics = Metrics::new().unwrap();
    let _iris = metrics.endpoint("iris");
    let text = metrics.render(WHOLE);
    // Those of what not every endpoint has, or not yet: durations begin with the first request.
    let families = [
        "access_log",
        "batch",
        "blob",
        "handler_series",
        "job",
        "kv",
        "prediction",
        "recordings",
        "request_duration",
        "response_cache",
        "sequence",
        "stage_duration",
        "trace_spans",
        "trial_requests",
        "websocket",
    ];
    let begins_late = |name: &str| families.iter().any(|it| name.starts_with(&format!("modelhost_{it}")));
    for (name, help) in METRICS.into_iter().filter(|(name, _)| !begins_late(name)) {
        assert!(text.contains(&format!("# HELP {name} {help}\n# TYPE {name} ")), "{name}");
    }
    let mut samples = samples(&text);
    assert_eq!(
        samples.remove(&*format!(r#"modelhost_build_info{{version="{}"}}"#, env!("CARGO_PKG_VERSION"))),
        Some(1.0)
    );
    assert!(samples["process_cpu_seconds_total"] > 0.0 && samples["process_open_fds"] > 2.0, "{text}");
    samples.retain(|series, _| !series.starts_with("process_"));
    // The start is a success.
    assert_eq!(samples.remove("modelhost_config_last_reload_successful"), Some(1.0));
    assert!(samples.remove("modelhost_config_last_reload_success_timestamp_seconds") > Some(0.0));
    assert!(samples.values().all(|&value| value == 0.0), "{text}");
    for outcome in ["ok", "cancelled"].into_iter().chain(Code::ALL.map(Code::name)) {
        let series = format!(r#"modelhost_requests_total{{endpoint="iris",outcome="{outcome}"}}"#);
        assert!(samples.contains_key(&*series), "{series}");
    }
    assert!(!text.contains("duration"), "{text}");
    let other = metrics.endpoint("other");
    other.durations(Instant::now(), Duration::ZERO, true, [].into_iter());
    let text = metrics.render(WHOLE);
    for stage in Stage::ALL {
        let series = |name: &str| {
            format!("modelhost_stage_duration_seconds_count{{endpoint=\"{name}\",stage=\"{stage}\"}} 0\n")
        };
        assert!(text.contains(&series("other")) && !text.contains(&series("iris")), "{text}");
    }
}

#[test]
fn threads_lose_no_count() {
    const THREADS: u32 = 8;
    const REQUESTS: u32 = 1_000;
    let metrics = Metrics::new().unwrap();
    let iris = metrics.endpoint("iris");
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..REQUESTS {
                    iris.ok(200);
                    iris.error(Code::Internal);
                    iris.cancelled();
                    let stages = [(Stage::Admit, 10), (Stage::Infer, 31_000_000)];
                    iris.durations(
                        Instant::now(),
                        Duration::from_micros(30),
                        true,
                        stages.map(|(stage, time)| (stage, Duration::from_micros(time))).into_iter(),
                    );
                }
            });
        }
    });
    let text = metrics.render(WHOLE);
    let samples = samples(&text);
    let all = f64::from(THREADS * REQUESTS);
    for (series, value) in [
        (r#"requests_total{endpoint="iris",outcome="ok"}"#, all),
        (r#"requests_total{endpoint="iris",outcome="internal"}"#, all),
        (r#"requests_total{endpoint="iris",outcome="cancelled"}"#, all),
        (r#"requests_total{endpoint="iris",outcome="model_error"}"#, 0.0),
        (r#"request_duration_seconds_bucket{endpoint="iris",le="0.000025"}"#, 0.0),
        (r#"request_duration_seconds_bucket{endpoint="iris",le="0.00005"}"#, all),
        (r#"request_duration_seconds_bucket{endpoint="iris",le="30"}"#, all),
        (r#"request_duration_seconds_bucket{endpoint="iris",le="+Inf"}"#, all),
        (r#"request_duration_seconds_sum{endpoint="iris"}"#, 0.24),
        (r#"request_duration_seconds_count{endpoint="iris"}"#, all),
        (r#"stage_duration_seconds_bucket{endpoint="iris",stage="admit",le="0.00001"}"#, all),
        (r#"stage_duration_seconds_sum{endpoint="iris",stage="admit"}"#, 0.08),
        (r#"stage_duration_seconds_bucket{endpoint="iris",stage="infer",le="30"}"#, 0.0),
        (r#"stage_duration_seconds_bucket{endpoint="iris",stage="infer",le="+Inf"}"#, all),
        (r#"stage_duration_seconds_sum{endpoint="iris",stage="infer"}"#, 31.0 * all),
        (r#"stage_duration_seconds_count{endpoint="iris",stage="infer"}"#, all),
        (r#"stage_duration_seconds_count{endpoint="iris",stage="pre_inference"}"#, 0.0),
    ] {
        assert_eq!(samples.get(&*format!("modelhost_{series}")), Some(&value), "{series} in {text}");
    }
}

#[test]
fn endpoints_are_counted_apart_and_each_once() {
    let metrics = Metrics::new().unwrap();
    let (iris, iris_again, wine) =
        (metrics.endpoint("iris"), metrics.endpoint("iris"), metrics.endpoint("wine"));
    iris.ok(200);
    iris_again.ok(200);
    wine.ok(200);
    let text = metrics.render(WHOLE);
    assert_eq!(text.matches("# TYPE modelhost_requests_total counter\n").count(), 1);
    assert_eq!(text.matches("# TYPE modelhost_plugin_faults_total counter\n").count(), 1);
    let samples = samples(&text);
    assert_eq!(samples[r#"modelhost_requests_total{endpoint="iris",outcome="ok"}"#], 2.0);
    assert_eq!(samples[r#"modelhost_requests_total{endpoint="wine",outcome="ok"}"#], 1.0);
}

#[test]
fn instances_are_alive_until_dropped() {
    let metrics = Metrics::new().unwrap();
    let instances = metrics.endpoint("iris").instances;
    let first = instances.made();
    let _second = instances.made();
    drop(first);
    let text = metrics.render(WHOLE);
    let samples = samples(&text);
    assert_eq!(samples[r#"modelhost_plugin_instances{endpoint="iris"}"#], 1.0);
    assert_eq!(samples[r#"modelhost_plugin_instances_created_total{endpoint="iris"}"#], 2.0);
}

#[test]
fn a_lean_endpoint_has_forty_series_at_most_and_none_another_value() {
    let metrics = Metrics::new().unwrap();
    let (iris, _idle) = (metrics.endpoint("iris"), metrics.endpoint("idle"));
    for micros in [30, 300, 3_000, 300_000, 40_000_000] {
        iris.ok(200);
        iris.run(1);
        let stages = Stage::ALL.map(|stage| (stage, Duration::from_micros(micros / 5)));
        iris.durations(Instant::now(), Duration::from_micros(micros), true, stages.into_iter());
    }
    iris.plugins.set([Some("aa".into()), None, None]);
    [Code::InvalidInput, Code::Overloaded].into_iter().for_each(|code| iris.error(code));
    let (whole, lean) = (metrics.render(WHOLE), metrics.render(MetricsView { is_whole: false, ..WHOLE }));
    let count =
        |name: &str| lean.lines().filter(|line| line.contains(&format!("endpoint=\"{name}\""))).count();
    assert!(count("iris") <= 40 && count("idle") < count("iris"), "{lean}");
    let all = samples(&whole);
    for (series, value) in samples(&lean).into_iter().filter(|(series, _)| series.starts_with("modelhost")) {
        assert_eq!(all.get(series), Some(&value), "{series}");
    }
    for series in [
        r#"requests_total{endpoint="iris",outcome="overloaded"} 1"#,
        r#"requests_total{endpoint="idle",outcome="ok"} 0"#,
        r#"request_duration_seconds_bucket{endpoint="iris",le="0.00005"} 1"#,
        r#"request_duration_seconds_bucket{endpoint="iris",le="5"} 4"#,
        r#"request_duration_seconds_bucket{endpoint="iris",le="+Inf"} 5"#,
        r#"stage_duration_seconds_count{endpoint="iris",stage="infer"} 5"#,
    ] {
        assert!(lean.contains(&format!("modelhost_{series}\n")), "{series} in {lean}");
    }
    assert!(lean.contains("# TYPE modelhost_stage_duration_seconds summary\n"), "{lean}");
}

#[test]
fn openmetrics_has_the_same_samples_and_traces_beside_them() {
    let metrics = Metrics::new().unwrap();
    let iris = metrics.endpoint("iris");
    iris.ok(200);
    for (micros, trace) in [(30, 1), (3_000, 2), (40_000_000, 3)] {
        iris.durations(Instant::now(), Duration::from_micros(micros), true, [].into_iter());
        iris.exemplar(TraceId([trace; 16]), Duration::from_micros(micros));
    }
    // One that is too early to be another.
    iris.exemplar(TraceId([9; 16]), Duration::from_micros(31));
    for is_whole in [true, false] {
        let view = |format| MetricsView { format, is_whole };
        let text = metrics.render(view(MetricsFormat::OpenMetrics));
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
        for line in [
            r#"# TYPE modelhost_requests counter"#,
            r#"modelhost_requests_total{endpoint="iris",outcome="ok"} 1.0"#,
            r#"modelhost_request_duration_seconds_bucket{endpoint="iris",le="1.0"} 2.0"#,
            r#"modelhost_request_duration_seconds_count{endpoint="iris"} 3.0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        for (bound, trace) in [("0.00005", "01"), ("0.005", "02"), ("+Inf", "03")] {
            let bucket =
                format!("modelhost_request_duration_seconds_bucket{{endpoint=\"iris\",le=\"{bound}\"}} ");
            let found = text.lines().find(|line| line.starts_with(&bucket)).unwrap();
            assert!(found.contains(&format!(" # {{trace_id=\"{}\"}} ", trace.repeat(16))), "{found}");
        }
        assert_eq!(text.matches("trace_id").count(), 3, "{text}");
        let plain = metrics.render(view(MetricsFormat::Prometheus));
        let bare = |line: &str| -> (String, f64) {
            let sample = line.split(" # ").next().unwrap();
            let (series, value) = sample.rsplit_once(' ').unwrap();
            (series.replace(".0\"}", "\"}"), value.parse().unwrap())
        };
        let of_text = |text: &str| -> BTreeMap<String, f64> {
            let lines = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("process_"));
            lines.map(bare).collect()
        };
        assert_eq!(of_text(&text), of_text(&plain));
    }
}
