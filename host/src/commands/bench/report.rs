//! Measurements as a table, a picture and sentences for a terminal, or as JSON.
//!
//! In: [`Results`]. Out: text.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Tally, is_success};
use super::{Measured, Plan};

/// Rows of the picture.
const ROWS: u32 = 14;
/// Columns of a full bar.
const BAR: f64 = 30.0;
/// Columns of a bar with its figure.
const COLUMN: usize = BAR as usize + 8;

/// The measurements of a run.
pub(super) struct Results {
    pub(super) plan: Plan,
    pub(super) measured: Vec<Measured>,
}

/// A percentile's name and part.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

impl Results {
    /// For a person.
    pub(super) fn text(&self) -> String {
        let mut text = self.method();
        text.push_str("\n\n");
        text.push_str(&self.table());
        for measured in &self.measured {
            text.extend(errors(measured).map(|line| format!("\n{line}")));
        }
        text.push_str("\n\n");
        text.push_str(&self.picture());
        if let [one, other] = self.measured.as_slice() {
            text.push_str("\n\n");
            text.push_str(&comparison(one, other));
        }
        text
    }

    /// How the requests were sent.
    fn method(&self) -> String {
        let Plan { connections, rate, warm_up, duration, .. } = self.plan;
        let how = match rate {
            None => {
                "closed loop: each connection sends the next request when the last is answered".to_owned()
            }
            Some(rate) => {
                format!("open loop: {rate} requests a second; a latency begins when its request is due")
            }
        };
        let turns = if self.measured.len() > 1 { ", in turns" } else { "" };
        format!(
            "{connections} connections, {} after {} of warm-up{turns}\n{how}",
            time(duration),
            time(warm_up)
        )
    }

    fn table(&self) -> String {
        let width = self.measured.iter().map(|measured| measured.name.chars().count()).max().unwrap_or(0);
        let mut lines = vec![format!(
            "{:width$}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>8}",
            "", "req/s", "p50", "p90", "p99", "max", "errors"
        )];
        lines.extend(self.measured.iter().map(|measured| {
            let total = measured.total();
            let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|part| milliseconds(total.latencies.quantile(part)));
            let (max, errors) = (milliseconds(total.latencies.max()), total.sent() - total.succeeded());
            let (name, rate) = (&measured.name, total.rate());
            format!("{name:width$}  {rate:>10.1}  {p50:>10}  {p90:>10}  {p99:>10}  {max:>10}  {errors:>8}")
        }));
        lines.join("\n")
    }

    /// How many requests took how long, target beside target.
    fn picture(&self) -> String {
        let totals: Vec<Tally> = self.measured.iter().map(Measured::total).collect();
        let least = totals.iter().map(|total| total.latencies.min()).min().unwrap_or_default();
        let most = totals.iter().map(|total| total.latencies.quantile(0.999)).max().unwrap_or_default();
        let edges = edges(least, most);
        let longest = edges.len().saturating_sub(1);
        let columns: Vec<Vec<f64>> = totals.iter().map(|total| parts(total, &edges)).collect();
        let highest = columns.iter().flatten().copied().fold(0.0, f64::max);
        let names = self.measured.iter().map(|measured| format!("{:COLUMN$}", measured.name));
        let mut lines = vec![format!("{:>12}  share of requests", "latency")];
        if self.measured.len() > 1 {
            let names = names.collect::<Vec<_>>().join("  ");
            lines.push(format!("{:12}  {names}", "").trim_end().to_owned());
        }
        for (row, edge) in edges.iter().enumerate() {
            let label = match row == longest {
                true => format!("> {}", milliseconds(*edge)),
                false => format!(">= {}", milliseconds(*edge)),
            };
            let bars: Vec<String> =
                columns.iter().map(|column| bar(column.get(row).copied().unwrap_or(0.0), highest)).collect();
            lines.push(format!("{label:>12}  {}", bars.join("  ")).trim_end().to_owned());
        }
        lines.join("\n")
    }

    /// For a program.
    pub(super) fn json(&self) -> Value {
        let Plan { connections, rate, warm_up, duration, timeout } = self.plan;
        json!({
            "loop": if rate.is_some() { "open" } else { "closed" },
            "connections": connections,
            "rate": rate,
            "warm_up_seconds": warm_up.as_secs_f64(),
            "duration_seconds": duration.as_secs_f64(),
            "timeout_seconds": timeout.as_secs_f64(),
            "targets": self.measured.iter().map(target).collect::<Vec<_>>(),
        })
    }
}

fn target(measured: &Measured) -> Value {
    let total = measured.total();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mut latency: serde_json::Map<String, Value> = PERCENTILES
        .iter()
        .map(|(name, part)| ((*name).to_owned(), json!(ms(total.latencies.quantile(*part)))))
        .collect();
    latency.insert("min".to_owned(), json!(ms(total.latencies.min())));
    latency.insert("max".to_owned(), json!(ms(total.latencies.max())));
    json!({
        "target": measured.name,
        "requests": total.sent(),
        "requests_before": measured.before,
        "succeeded": total.succeeded(),
        "unsent": total.unsent,
        "seconds": total.took.as_secs_f64(),
        "requests_per_second": total.rate(),
        "rounds_per_second": measured.rounds.iter().map(Tally::rate).collect::<Vec<_>>(),
        "latency_ms": latency,
        "statuses": total.statuses,
        "failures": total.failures,
    })
}

/// The lower edges of the picture's rows, each as many times the one before.
fn edges(least: Duration, most: Duration) -> Vec<Duration> {
    let (least, most) = (least.as_secs_f64().max(1e-9), most.as_secs_f64().max(1e-9));
    // Rows narrower than a twentieth show noise.
    let step = (most / least).powf(1.0 / f64::from(ROWS)).max(1.05);
    let edge = |row: u32| Duration::from_secs_f64(least * step.powi(i32::try_from(row).unwrap_or(0)));
    (0..=ROWS).map(edge).take_while(|edge| edge.as_secs_f64() <= most * 1.000_001).collect()
}

/// The part of the requests in each row.
fn parts(total: &Tally, edges: &[Duration]) -> Vec<f64> {
    let latencies = &total.latencies;
    let mut below: Vec<u64> = edges.iter().skip(1).map(|edge| latencies.below(*edge)).collect();
    below.push(latencies.len());
    let mut before = 0;
    let count = |below: u64| {
        let count = below.saturating_sub(before);
        before = below;
        count as f64 / latencies.len().max(1) as f64
    };
    below.into_iter().map(count).collect()
}

/// A bar for a part, the highest of which is a full one, with its figure.
fn bar(part: f64, highest: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part / highest.max(1e-9) * BAR * 8.0).round() as usize;
    let bar = "█".repeat(eighths / 8) + EIGHTHS.get(eighths % 8).unwrap_or(&"");
    let figure = if part > 0.0 { format!(" {:.1} %", part * 100.0) } else { String::new() };
    format!("{:COLUMN$}", format!("{bar}{figure}"))
}

/// The requests that failed, if any did.
fn errors(measured: &Measured) -> impl Iterator<Item = String> {
    let total = measured.total();
    let statuses = total.statuses.iter().filter(|(status, _)| !is_success(**status));
    let statuses = statuses.map(|(status, count)| format!("{count} × status {status}"));
    let failures = total.failures.iter().map(|(cause, count)| format!("{count} × {cause}"));
    let found: Vec<String> = statuses.chain(failures).collect();
    let name = &measured.name;
    let errors = (!found.is_empty()).then(|| format!("{name}: {}", found.join(", ")));
    let unsent = (total.unsent > 0).then(|| {
        format!("{name}: {} requests were due and not sent, as no connection was free", total.unsent)
    });
    errors.into_iter().chain(unsent)
}

/// The second target against the first.
fn comparison(one: &Measured, other: &Measured) -> String {
    let rounds = one.rounds.iter().zip(&other.rounds);
    let ratios: Vec<f64> = rounds.map(|(one, other)| change(one.rate(), other.rate())).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (a, b) = (one.total(), other.total());
    let quantile = |part| {
        let [a, b] = [&a, &b].map(|total| total.latencies.quantile(part).as_secs_f64());
        change(a, b)
    };
    format!(
        "{} against {}: req/s {:+.1} % (rounds {least:+.1} to {most:+.1} %), p50 {:+.1} %, p99 {:+.1} %",
        other.name,
        one.name,
        change(a.rate(), b.rate()),
        quantile(0.5),
        quantile(0.99),
    )
}

/// By how many percent it is more.
fn change(from: f64, to: f64) -> f64 {
    (to / from.max(1e-9) - 1.0) * 100.0
}

fn milliseconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    let digits = if ms < 10.0 { 3 } else { 1 };
    format!("{ms:.digits$} ms")
}

fn time(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(milliseconds: impl Iterator<Item = u64>) -> Tally {
        let mut tally = Tally { took: Duration::from_secs(1), ..Tally::default() };
        for ms in milliseconds {
            tally.latencies.record(Duration::from_millis(ms));
            *tally.statuses.entry(200).or_default() += 1;
        }
        tally
    }

    fn results() -> Results {
        let plan = Plan {
            connections: 4,
            rate: None,
            warm_up: Duration::from_secs(1),
            duration: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
        };
        let mut failing = tally(2..=101);
        failing.statuses.insert(503, 7);
        failing.failures.insert("timeout", 2);
        let measured = [("old", tally(1..=100)), ("new", failing)].map(|(name, round)| Measured {
            name: name.to_owned(),
            before: 1,
            rounds: vec![round],
        });
        Results { plan, measured: measured.into() }
    }

    #[test]
    fn the_text_has_a_table_errors_a_picture_and_a_comparison() {
        let text = results().text();
        for expected in [
            "4 connections, 1s after 1s of warm-up, in turns\nclosed loop: ",
            "old       100.0     49.9 ms     89.9 ms     98.8 ms    100.0 ms         0",
            "\nnew: 7 × status 503, 2 × timeout\n",
            "latency  share of requests\n              old         ",
            "new against old: req/s +0.0 % (rounds +0.0 to +0.0 %), p50 +2.",
        ] {
            assert!(text.contains(expected), "`{expected}` in\n{text}");
        }
    }

    #[test]
    fn the_rows_of_the_picture_hold_all_requests() {
        let total = tally(1..=1000);
        let edges = edges(total.latencies.min(), total.latencies.quantile(0.999));
        let parts = parts(&total, &edges);
        assert_eq!(parts.len(), edges.len());
        assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{parts:?}");
        // All the same: one row.
        let same = tally([5; 9].into_iter());
        assert_eq!(super::edges(same.latencies.min(), same.latencies.quantile(0.999)).len(), 1);
    }

    #[test]
    fn the_json_has_every_request() {
        let json = results().json();
        assert_eq!(json["targets"][1]["requests"], 109);
        assert_eq!(json["targets"][1]["statuses"], json!({"200": 100, "503": 7}));
        assert_eq!(json["targets"][0]["latency_ms"]["max"], 100.0);
    }
}
