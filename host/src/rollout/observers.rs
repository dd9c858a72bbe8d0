//! The list of observers of a deployment's runs. A new one is a file and a line here.
//!
//! Place in the flow: taken by a request that is about to run.

use super::deployment::Deployment;
use super::trial::TrialObserver;
use crate::capture::observers::{RecorderObserver, SamplesObserver};
use crate::endpoint::observers::breaker::BreakerObserver;
use crate::endpoint::observers::debug_log::DebugLogObserver;
use crate::endpoint::observers::metrics::MetricsObserver;
use crate::endpoint::observers::trace::TraceObserver;
use crate::endpoint::observers::tracker::TrackerObserver;
use crate::endpoint::observers::{EndedRun, Observer, RunStart};

macro_rules! observers {
    ($deployment:ident: $($(#[$attribute:meta])* $name:ident: $observer:ty = $new:expr;)*) => {
        /// One of each, for one run, statically dispatched, in the order in which they are asked and told.
        pub struct Observers<'a> {
            $($(#[$attribute])* $name: $observer),*
        }

        impl Deployment {
            /// The observers of one run.
            pub fn observers(&self) -> Observers<'_> {
                let $deployment = self;
                Observers { $($name: $new),* }
            }
        }

        impl Observer for Observers<'_> {
            fn begin(&mut self, start: &mut RunStart<'_>) {
                $(self.$name.begin(start);)*
            }

            fn end(self, run: &EndedRun<'_>) {
                $(self.$name.end(run);)*
            }
        }
    };
}

observers! {
    deployment:
    /// First: it may choose another generation.
    trial: TrialObserver<'a> = TrialObserver::new(&deployment.trial);
    recorder: RecorderObserver<'a> = RecorderObserver(deployment.recorder.as_ref());
    samples: SamplesObserver<'a> = SamplesObserver::new(deployment.samples.as_ref());
    metrics: MetricsObserver = MetricsObserver;
    trace: TraceObserver = TraceObserver;
    tracker: TrackerObserver = TrackerObserver;
    debug_log: DebugLogObserver = DebugLogObserver;
    /// After the metrics: it compares faults with requests that were counted.
    breaker: BreakerObserver = BreakerObserver::default();
}
