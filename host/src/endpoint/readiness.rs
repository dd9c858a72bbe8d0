//! What an application says of its readiness, asked once for all who want to know at a time.
//!
//! Place in the flow: `server/readiness.rs` asks. In: a question that takes a while. Out: its answer, which
//! is that of all who came while it was asked.
//! Invariant: however many want to know, and go away again, one question is asked at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// The state of one endpoint.
#[derive(Debug)]
pub struct Readiness {
    /// The question that is asked now.
    asking: Mutex<Option<watch::Receiver<Option<bool>>>>,
    last: AtomicBool,
}

impl Default for Readiness {
    fn default() -> Readiness {
        Readiness { asking: Mutex::default(), last: AtomicBool::new(true) }
    }
}

impl Readiness {
    /// The answer that was given last; at first, that it is ready.
    pub fn last(&self) -> bool {
        self.last.load(Ordering::Relaxed)
    }

    /// The answer to the question that is asked now, or to a new one that `ask` begins with what it has to
    /// answer by.
    pub async fn told(&self, ask: impl FnOnce(Answer)) -> bool {
        let mut outcome = {
            let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            // One that was given up has no sender, and no answer.
            let under_way = asking.as_ref().filter(|asked| asked.has_changed().is_ok_and(|is_told| !is_told));
            match under_way {
                Some(asked) => asked.clone(),
                None => {
                    let (answer, asked) = watch::channel(None);
                    *asking = Some(asked.clone());
                    ask(Answer(answer));
                    asked
                }
            }
        };
        let told = outcome.wait_for(Option::is_some).await;
        told.is_ok_and(|told| *told == Some(true))
    }
}

/// The way to answer a question.
#[derive(Debug)]
pub struct Answer(watch::Sender<Option<bool>>);

impl Answer {
    /// Tells all who wait for it.
    pub fn tell(self, readiness: &Readiness, is_ready: bool) {
        readiness.last.store(is_ready, Ordering::Relaxed);
        self.0.send_replace(Some(is_ready));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn those_who_come_while_it_is_asked_share_the_answer() {
        let readiness = Arc::new(Readiness::default());
        assert!(readiness.last());
        let (give, mut given) = tokio::sync::mpsc::unbounded_channel();
        let told = |readiness: &Arc<Readiness>| {
            let (readiness, give) = (readiness.clone(), give.clone());
            tokio::spawn(async move { readiness.told(|answer| give.send(answer).unwrap()).await })
        };
        for (is_ready, waiting) in [(false, 3), (true, 1)] {
            let mut all = vec![told(&readiness)];
            let answer = given.recv().await.unwrap();
            all.extend((1..waiting).map(|_| told(&readiness)));
            // All of them wait, but for those who give up.
            tokio::task::yield_now().await;
            told(&readiness).abort();
            answer.tell(&readiness, is_ready);
            for one in all {
                assert_eq!(one.await.unwrap(), is_ready);
            }
            assert_eq!(readiness.last(), is_ready);
        }
        // A question that comes to no end is no answer, and the next one is asked anew.
        let lost = told(&readiness);
        drop(given.recv().await.unwrap());
        assert!(!lost.await.unwrap());
        let next = told(&readiness);
        given.recv().await.unwrap().tell(&readiness, true);
        assert!(next.await.unwrap());
    }
}
