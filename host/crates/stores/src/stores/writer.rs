//! The thread that alone writes to a store's file.
//!
//! Place in the flow: the stores of values and of jobs in files hand it what is to be written. In: writes.
//! Out: they, in the order in which they came, to the loop of the store.
//! Invariants: what was taken is written before the thread ends; that ends when the writer is closed or
//! dropped.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use arc_swap::ArcSwapOption;

/// A thread that writes, and the way to it.
pub struct Writer<T> {
    /// None once it is closed.
    sender: ArcSwapOption<Sender<T>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<T: Send + 'static> Writer<T> {
    /// Starts the thread. `write` receives until there is nothing to receive any more, and closes the file.
    ///
    /// # Errors
    /// The system allows no more threads.
    pub fn start(name: &str, write: impl FnOnce(&Receiver<T>) + Send + 'static) -> io::Result<Writer<T>> {
        let (sender, receiver) = channel();
        let thread = Builder::new().name(name.to_owned()).spawn(move || write(&receiver))?;
        Ok(Writer { sender: ArcSwapOption::from_pointee(sender), thread: Mutex::new(Some(thread)) })
    }

    /// Hands something over to be written; `None` if the writer is closed.
    pub fn send(&self, write: T) -> Option<()> {
        self.sender.load().as_ref()?.send(write).ok()
    }

    /// Writes what waits and closes the file: one that was not closed is read whole by the next start. What
    /// comes later is not taken. Takes as long as the disk does.
    pub fn close(&self) {
        self.sender.store(None);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // It has nothing to tell.
        let _ = thread.map(JoinHandle::join);
    }
}
