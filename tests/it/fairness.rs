//! Handlers whose calls compute for a while, asked by crowds, beside others: a crowd waits for itself, and not its neighbours.
//!
//! Bounds are ratios of what one host took for both, so that they hold on any machine.

use std::time::Duration;

use e2e::load::{Answer, Pattern, alone};
use e2e::setup::{Endpoint, Setup};

/// Thousands of rounds: short calls that stay on their thread, some that get one of their own, and calls that are long.
const ROUNDS: [fn(&str) -> String; 3] = [|_| "500".to_owned(), |_| "2000".to_owned(), |_| "12000".to_owned()];

/// A crowd without a pause.
fn crowd(url: &str, path: &'static str, clients: usize, body: fn(&str) -> String) -> Pattern {
    Pattern { clients, pause: Duration::ZERO, body, ..Pattern::new(url, path) }
}

fn middle(answers: &[Answer]) -> Duration {
    answers.iter().for_each(|answer| _ = answer.ok());
    let mut latencies: Vec<Duration> = answers.iter().map(|answer| answer.latency).collect();
    latencies.sort();
    latencies[latencies.len() / 2]
}

#[test]
fn a_crowd_of_calls_that_compute_waits_for_itself() {
    let _alone = alone();
    let host =
        Setup::of([Endpoint::new("crowd").guest("compute"), Endpoint::new("echo").guest("echo")]).serve();
    for rounds in ROUNDS {
        let crowd = crowd(&host.url, "/crowd", 64, rounds).start();
        crowd.wait_for_more(64);
        let neighbour = Pattern::new(&host.url, "/echo").start();
        neighbour.wait_for_more(100);
        let (neighbour, crowd) = (middle(&neighbour.stop()), middle(&crowd.stop()));
        let text = format!("{} rounds: the neighbour {neighbour:?}, the crowd {crowd:?}", rounds(""));
        eprintln!("{text}");
        assert!(neighbour * 6 < crowd, "{text}");
    }
}
