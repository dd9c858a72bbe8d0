//! The threads that read from a store's file.
//!
//! Place in the flow: the stores of values and of jobs in files hand them what is to be read. In: reads. Out:
//! what was read.
//! Invariants: there are [`THREADS`] of them, however many ask: of tokio's own there would be one for each
//! that asks at the same moment, such as the workers of a thousand endpoints, and each keeps megabytes. They
//! end when the store is dropped.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use tokio::sync::oneshot;

/// Threads of a store. A read takes microseconds, or as long as the disk.
const THREADS: usize = 4;

type Read = Box<dyn FnOnce() + Send>;

/// Threads that read, and the way to them.
pub struct Readers(Sender<Read>);

impl Readers {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system allows no more threads.
    pub fn start(name: &str) -> io::Result<Readers> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..THREADS {
            let receiver = receiver.clone();
            Builder::new().name(format!("{name}-read")).spawn(move || serve(&receiver))?;
        }
        Ok(Readers(sender))
    }

    /// Reads on one of the threads; `None` if it has panicked.
    pub async fn read<T: Send + 'static>(&self, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (answer, outcome) = oneshot::channel();
        // A call that was dropped needs no answer.
        let read = move || drop(answer.send(read()));
        self.0.send(Box::new(read)).ok()?;
        outcome.await.ok()
    }
}

/// One thread, to the end of the store.
fn serve(receiver: &Mutex<Receiver<Read>>) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(read) = next else { return };
        // The others' reads have nothing to do with it.
        let _ = catch_unwind(AssertUnwindSafe(read));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reads_are_answered_past_one_that_panics() {
        let readers = Arc::new(Readers::start("test").unwrap());
        for _ in 0..2 * THREADS {
            assert_eq!(readers.read(|| -> u32 { panic!("the test asked for a panic") }).await, None);
        }
        let many = (0..100).map(|number| {
            let readers = readers.clone();
            tokio::spawn(async move { readers.read(move || number).await })
        });
        for (number, read) in many.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(read.await.unwrap(), Some(number));
        }
    }
}
