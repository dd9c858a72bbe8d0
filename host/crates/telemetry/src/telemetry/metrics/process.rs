//! The figures of the process itself, by the names that Prometheus' own clients give them.
//!
//! In: the kernel's word, asked when the metrics are rendered. Out: families without labels; of what a system
//! does not say there is none.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, Metric, MetricFamily, MetricType};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::families::{Forget, counter_of, family, labelled};
use crate::file;
use crate::time::since_1970;

/// How a value is read.
type Read = fn(&Status) -> Option<f64>;

/// A family, and its value.
type Figure = (Desc, MetricType, Read);

/// The figures.
#[derive(Clone)]
pub(super) struct Process(Arc<Figures>);

struct Figures {
    began: SystemTime,
    all: Vec<Figure>,
}

/// The kernel's table of the process, as text.
struct Status {
    began: SystemTime,
    text: String,
}

impl Status {
    /// A row of so many KiB, or of a plain number.
    fn row(&self, name: &str) -> Option<f64> {
        let row = self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let (number, unit) = row.trim().split_once(' ').unwrap_or((row.trim(), ""));
        let number: f64 = number.parse().ok()?;
        Some(if unit == "kB" { number * 1024.0 } else { number })
    }
}

impl Process {
    /// # Errors
    /// If a name or a help text is not one.
    pub(super) fn new(names: [(&'static str, &'static str); 7]) -> Result<Process, prometheus::Error> {
        use MetricType::{COUNTER, GAUGE};
        let read: [(MetricType, Read); 7] = [
            (COUNTER, |_| {
                let time = clock_gettime(ClockId::ProcessCPUTime);
                Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
            }),
            (GAUGE, |status| status.row("VmRSS")),
            (GAUGE, |status| status.row("VmSize")),
            (GAUGE, |status| status.row("Threads")),
            // Without the one that looks.
            (GAUGE, |_| Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)),
            (GAUGE, |_| Some(getrlimit(Resource::Nofile).current.map_or(f64::INFINITY, |most| most as f64))),
            (GAUGE, |status| Some(since_1970(status.began).as_secs_f64())),
        ];
        let figure = |((name, help), (kind, read)): ((&str, &str), _)| {
            let desc = Desc::new(name.to_owned(), help.to_owned(), Vec::new(), HashMap::new())?;
            Ok((desc, kind, read))
        };
        let all = names.into_iter().zip(read).map(figure).collect::<Result<_, prometheus::Error>>()?;
        Ok(Process(Arc::new(Figures { began: SystemTime::now(), all })))
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.0.all.iter().map(|(desc, ..)| desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let text = file::text(Path::new("/proc/self/status")).unwrap_or_default();
        let status = Status { began: self.0.began, text };
        let figure = |(desc, kind, read): &Figure| {
            let value = read(&status)?;
            Some(family(desc, *kind, vec![sample(*kind, value)]))
        };
        self.0.all.iter().filter_map(figure).collect()
    }
}

fn sample(kind: MetricType, value: f64) -> Metric {
    if kind == MetricType::COUNTER {
        return counter_of(&[], value);
    }
    let (mut gauge, mut metric) = (Gauge::default(), labelled(&[]));
    gauge.set_value(value);
    metric.set_gauge(gauge);
    metric
}

impl Forget for Process {
    fn forget(&self, _: &HashSet<&str>) {}
}
