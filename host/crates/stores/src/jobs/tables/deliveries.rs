//! The webhooks of finished jobs: to be sent, sent, sent again.
//!
//! Place in the flow: a job that finishes comes here in the same transaction; `embedded.rs` calls the rest.
//! In: a job, or what an attempt came to. Out: entries of the table [`DELIVERIES`](super::DELIVERIES).
//! Invariant: a webhook is pending if and only if the table has an entry for it.

use redb::{ReadableTable as _, StorageError};

use super::super::record::{self, now};
use super::super::webhook::{Delivered, Delivery, Webhook, WebhookState};
use super::{Failure, Job, JobState, Tables, after, place, timed};
use crate::time::milliseconds;

/// Longest pause between two attempts, in milliseconds.
const LONGEST_PAUSE: u64 = 60 * 60 * 1000;

/// The place of a pending webhook: endpoint, NUL, origin, NUL, time, number.
fn pending(endpoint: &str, webhook: &Webhook, number: u64) -> Vec<u8> {
    let times = [webhook.due.to_be_bytes(), number.to_be_bytes()].concat();
    place(endpoint, &place(&webhook.origin, &times))
}

impl Tables<'_> {
    /// Makes the webhook of a job pending that has just finished; the caller stores the job.
    pub(super) fn deliver(&mut self, endpoint: &str, job: &mut Job) -> Result<(), StorageError> {
        let (now, number) = (now(), job.number);
        let is_cancelled = job.state == JobState::Cancelled;
        let Some(webhook) = &mut job.webhook else { return Ok(()) };
        webhook.changed = now;
        if is_cancelled {
            webhook.state = WebhookState::Cancelled;
            return Ok(());
        }
        webhook.state = WebhookState::Pending;
        webhook.attempts = 0;
        webhook.due = now;
        self.deliveries.insert(pending(endpoint, webhook, number).as_slice(), job.id.as_str())?;
        let numbers = self.numbers(endpoint)?;
        numbers.has_delivery = true;
        numbers.webhooks += 1;
        Ok(())
    }

    /// Notes what an attempt came to, of at most so many; gives the webhook's state then, `None` if it was
    /// not pending any more.
    pub(in crate::jobs) fn delivered(
        &mut self,
        endpoint: &str,
        delivery: &Delivery,
        outcome: Delivered,
        most: u32,
    ) -> Result<Option<WebhookState>, Failure> {
        if self.deliveries.remove(delivery.place.as_slice())?.is_some() {
            self.numbers(endpoint)?.webhooks -= 1;
        }
        let Some(mut job) = self.job(endpoint, &delivery.id)? else { return Ok(None) };
        let number = job.number;
        let is_it = |webhook: &&mut Webhook| {
            webhook.state == WebhookState::Pending && pending(endpoint, webhook, number) == delivery.place
        };
        let Some(webhook) = job.webhook.as_mut().filter(is_it) else { return Ok(None) };
        webhook.attempts = webhook.attempts.saturating_add(1);
        webhook.changed = now();
        match outcome {
            Delivered::Accepted => {
                webhook.state = WebhookState::Delivered;
                webhook.error = None;
            }
            Delivered::Failed { error, is_final, after } => {
                webhook.error = Some(error);
                if is_final || webhook.attempts >= most {
                    webhook.state = WebhookState::Failed;
                } else {
                    let chance = number.wrapping_mul(7919);
                    let pause = record::pause(webhook.attempts, chance, 1000, LONGEST_PAUSE);
                    let after = milliseconds(after).min(LONGEST_PAUSE);
                    webhook.due = webhook.changed.saturating_add(pause.max(after));
                    let place = pending(endpoint, webhook, number);
                    self.deliveries.insert(place.as_slice(), delivery.id.as_str())?;
                    self.numbers(endpoint)?.webhooks += 1;
                }
            }
        }
        let (state, over) = (webhook.state, webhook.changed.saturating_add(job.keep));
        self.put(endpoint, &job)?;
        if state != WebhookState::Pending {
            let place = place(endpoint, job.id.as_bytes());
            self.times.insert(timed(over, &place).as_slice(), ())?;
        }
        Ok(Some(state))
    }

    /// How many webhooks are pending.
    pub(super) fn pending(&self, endpoint: &str) -> Result<i64, StorageError> {
        let entries = self.deliveries.range(place(endpoint, &[]).as_slice()..after(endpoint).as_slice())?;
        Ok(i64::try_from(entries.count()).unwrap_or(i64::MAX))
    }

    /// Sends a job's message again that was delivered or is a dead letter; gives the job, `None` if there
    /// is no such job.
    pub(in crate::jobs) fn send_again(&mut self, endpoint: &str, id: &str) -> Result<Option<Job>, Failure> {
        let Some(mut job) = self.job(endpoint, id)? else { return Ok(None) };
        let state = job.webhook.as_ref().map(|webhook| webhook.state);
        if matches!(state, Some(WebhookState::Delivered | WebhookState::Failed)) {
            self.deliver(endpoint, &mut job)?;
            self.put(endpoint, &job)?;
        }
        Ok(Some(job))
    }
}
