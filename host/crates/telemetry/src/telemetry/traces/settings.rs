//! The settings of tracing: OpenTelemetry's own environment variables, so that a cluster sets them for all.
//!
//! In: the environment. Out: [`Settings`]. As OpenTelemetry wants it, a value that cannot be used counts as
//! absent and is warned of; only a collector's address turns tracing on.

use std::str::FromStr;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use crate::trace::Sampler;
use crate::values::Env;

/// The settings of the environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// How spans are exported; `None`: tracing is off.
    pub export: Option<Config>,
    /// One line for each value that was not used.
    pub warnings: Vec<String>,
}

/// How traces are sampled and exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where batches are posted to.
    pub url: Uri,
    /// Headers of each export. Their values are secrets.
    pub headers: HeaderMap,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// Attributes of this server, beside its name.
    pub resource: Vec<(String, String)>,
    /// The name of this server.
    pub service: String,
    /// Which traces are recorded.
    pub sampler: Sampler,
    /// Most spans that wait.
    pub queue: usize,
    /// Most spans of one export, unless one request has more.
    pub batch: usize,
    /// How long spans wait at most for others.
    pub delay: Duration,
    /// How long an export may take with all its attempts.
    pub export_timeout: Duration,
}

/// The variables, as they are read.
struct Reader<'a> {
    env: Env<'a>,
    warnings: Vec<String>,
}

impl Settings {
    /// Reads the environment.
    pub fn read(env: Env<'_>) -> Settings {
        let mut reader = Reader { env, warnings: Vec::new() };
        let export = reader.config();
        Settings { export, warnings: reader.warnings }
    }
}

impl Reader<'_> {
    fn config(&mut self) -> Option<Config> {
        if self.text("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return None;
        }
        match self.text("OTEL_TRACES_EXPORTER").as_deref() {
            None | Some("otlp") => {}
            Some("none") => return None,
            Some(other) => {
                self.warn("OTEL_TRACES_EXPORTER", other, "`otlp` or `none`");
                return None;
            }
        }
        let url = self.url()?;
        let (protocol, text) = self.of_traces("PROTOCOL").unwrap_or_default();
        if !["", "http/protobuf"].contains(&&*text) {
            self.warn(&protocol, &text, "`http/protobuf`, which collectors take on port 4318");
        }
        if let Some((name, text)) = self.of_traces("COMPRESSION").filter(|(_, text)| text != "none") {
            self.warn(&name, &text, "`none`");
        }
        let timeout = self.of_traces("TIMEOUT");
        let timeout = timeout.and_then(|(name, text)| self.parsed::<u64>(&name, &text)).unwrap_or(10_000);
        let (mut service, mut resource) = (None, Vec::new());
        for (name, value) in self.pairs("OTEL_RESOURCE_ATTRIBUTES") {
            if name == "service.name" { service = Some(value) } else { resource.push((name, value)) }
        }
        let batch = self.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512).clamp(1, 1 << 16);
        Some(Config {
            url,
            headers: self.headers(),
            timeout: Duration::from_millis(timeout.max(1)),
            service: self.text("OTEL_SERVICE_NAME").or(service).unwrap_or_else(|| "modelhost".to_owned()),
            resource,
            sampler: self.sampler(),
            queue: self.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048).clamp(batch, 1 << 20),
            batch,
            delay: self.milliseconds("OTEL_BSP_SCHEDULE_DELAY", 5000),
            export_timeout: self.milliseconds("OTEL_BSP_EXPORT_TIMEOUT", 30_000),
        })
    }

    /// A variable's value; one that is empty counts as absent.
    fn text(&self, name: &str) -> Option<String> {
        (self.env)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The variable of traces, or of all signals, and its value.
    fn of_traces(&self, name: &str) -> Option<(String, String)> {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"].map(|own| format!("{own}{name}"));
        names.into_iter().find_map(|name| self.text(&name).map(|text| (name, text)))
    }

    fn warn(&mut self, name: &str, text: &str, expected: &str) {
        self.warnings.push(format!("`{name}` is `{text}`, which is not used; expected {expected}"));
    }

    fn parsed<T: FromStr>(&mut self, name: &str, text: &str) -> Option<T> {
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.warn(name, text, "a number");
        }
        parsed
    }

    fn number(&mut self, name: &str, default: usize) -> usize {
        self.text(name).and_then(|text| self.parsed(name, &text)).unwrap_or(default)
    }

    fn milliseconds(&mut self, name: &str, default: usize) -> Duration {
        // Far longer than any export, far shorter than what the clock's arithmetic could overflow on.
        Duration::from_millis(self.number(name, default).clamp(1, 86_400_000) as u64)
    }

    /// The address of the collector: of traces as it is, of all signals with the path of traces.
    fn url(&mut self) -> Option<Uri> {
        let (name, text) = self.of_traces("ENDPOINT")?;
        let url = match name.as_str() {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => format!("{}/v1/traces", text.trim_end_matches('/')),
            _ => text.clone(),
        };
        let url: Option<Uri> = url.parse().ok();
        let is_usable = |url: &Uri| {
            matches!(url.scheme_str(), Some("http" | "https"))
                && url.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        };
        let url = url.filter(is_usable);
        if url.is_none() {
            // What is before an `@` would be a password.
            let text = text.rsplit('@').next().unwrap_or_default();
            self.warn(&name, text, "a URL such as `http://collector:4318`; nothing is traced");
        }
        url
    }

    fn headers(&mut self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let Some((variable, _)) = self.of_traces("HEADERS") else { return headers };
        for (name, value) in self.pairs(&variable) {
            match (HeaderName::try_from(&name), HeaderValue::try_from(&value)) {
                (Ok(name), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(name, value);
                }
                _ => self.warnings.push(format!("a header of `{variable}` is not valid and is not sent")),
            }
        }
        headers
    }

    /// The pairs of a list such as `key=value,other=value`, percent-decoded.
    fn pairs(&mut self, variable: &str) -> Vec<(String, String)> {
        let text = self.text(variable).unwrap_or_default();
        let decoded = |text: &str| percent_decode_str(text.trim()).decode_utf8_lossy().into_owned();
        let mut pairs = Vec::new();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            match pair.split_once('=') {
                Some((key, value)) if !key.trim().is_empty() => pairs.push((decoded(key), decoded(value))),
                _ => self.warnings.push(format!("a part of `{variable}` is not `key=value` and is not used")),
            }
        }
        pairs
    }

    fn sampler(&mut self) -> Sampler {
        let ratio = self.text("OTEL_TRACES_SAMPLER_ARG").and_then(|text| {
            let ratio = self.parsed("OTEL_TRACES_SAMPLER_ARG", &text)?;
            if (0.0..=1.0).contains(&ratio) {
                return Some(ratio);
            }
            self.warn("OTEL_TRACES_SAMPLER_ARG", &text, "a share from 0 to 1");
            None
        });
        let Some(name) = self.text("OTEL_TRACES_SAMPLER") else { return Sampler::default() };
        Sampler::named(&name, ratio.unwrap_or(1.0)).unwrap_or_else(|| {
            self.warn(
                "OTEL_TRACES_SAMPLER",
                &name,
                "`always_on`, `always_off`, `traceidratio`, or one of these after `parentbased_`",
            );
            Sampler::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Settings {
        Settings::read(&|name| {
            variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn only_a_collectors_address_turns_tracing_on() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
        let of_traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces.example.com/in");
        for (variables, expected) in [
            (&[][..], None),
            (&[("OTEL_SERVICE_NAME", "iris")], None),
            (&[endpoint], Some("http://collector:4318/v1/traces")),
            (&[endpoint, of_traces], Some("https://traces.example.com/in")),
            (&[endpoint, ("OTEL_TRACES_EXPORTER", "otlp")], Some("http://collector:4318/v1/traces")),
            (&[endpoint, ("OTEL_TRACES_EXPORTER", "none")], None),
            (&[endpoint, ("OTEL_SDK_DISABLED", "TRUE")], None),
            (&[endpoint, ("OTEL_SDK_DISABLED", "1")], Some("http://collector:4318/v1/traces")),
        ] {
            let settings = read(variables);
            let url = settings.export.map(|export| export.url.to_string());
            assert_eq!((url.as_deref(), settings.warnings.len()), (expected, 0), "{variables:?}");
        }
    }

    #[test]
    fn every_variable_is_read() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%3Dcret, x-team = vision"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "3000"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=a%20b"),
            ("OTEL_SERVICE_NAME", "iris"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "10"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5"),
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
            ("OTEL_BSP_EXPORT_TIMEOUT", "200"),
        ]);
        let config = settings.export.unwrap();
        assert_eq!(settings.warnings, Vec::<String>::new());
        assert!(!format!("{config:?}").contains("cret"), "{config:?}");
        assert_eq!(config.headers["api-key"], "s=cret");
        assert_eq!(config.headers["x-team"], "vision");
        assert_eq!(config.service, "iris");
        assert_eq!(config.resource, [("deployment.environment.name".to_owned(), "a b".to_owned())]);
        assert_eq!(Some(config.sampler), Sampler::named("traceidratio", 0.5));
        assert_eq!((config.queue, config.batch), (10, 5));
        let times = [config.timeout, config.delay, config.export_timeout];
        assert_eq!(times.map(|time| time.as_millis()), [3000, 100, 200]);
    }

    #[test]
    fn what_cannot_be_used_is_warned_of_and_ignored() {
        let url = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        let plain = read(&[url]).export.unwrap();
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "=x"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=x"),
            ("OTEL_RESOURCE_ATTRIBUTES", "alone"),
            ("OTEL_TRACES_SAMPLER", "xray"),
            ("OTEL_TRACES_SAMPLER_ARG", "2"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "-1"),
            ("OTEL_BSP_SCHEDULE_DELAY", "1s"),
        ] {
            let settings = read(&[url, (name, value)]);
            assert_eq!((settings.export.as_ref(), settings.warnings.len()), (Some(&plain), 1), "{name}");
            assert!(settings.warnings[0].contains(name), "{:?}", settings.warnings);
        }
        for bad in ["collector:4318", "ftp://c", "http://", "http://u:secret@c:4318", "%"] {
            let settings = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", bad)]);
            assert_eq!((settings.export, settings.warnings.len()), (None, 1), "{bad}");
            assert!(!settings.warnings[0].contains("secret"), "{:?}", settings.warnings);
        }
    }
}
