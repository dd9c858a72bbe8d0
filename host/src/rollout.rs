//! What is being served, and how it is replaced: swaps, trials, rollbacks.
//!
//! Place in the flow: `server` holds [`Deployment`](deployment::Deployment)s. A request meets the endpoint in
//! one; orders of the operator, changed files, signals and breakers go to its other methods.
//! Invariants: nothing is published that has not passed every step; handler and models change together.

pub mod auto_rollback;
mod candidate;
pub mod deploy_request;
pub mod deployment;
pub mod endpoints;
pub mod error;
pub mod gate;
pub mod gate_report;
pub mod history;
mod ledger;
mod load;
mod models;
mod observers;
mod persist;
pub mod smoke;
mod swap;
pub mod trial;
pub mod watch;
