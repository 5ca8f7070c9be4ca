//! Messages of commands that must not wait for stderr: a stopped terminal, or a pipe without an active reader, blocks its writers.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Most messages that wait. Beyond that, the newest are dropped.
const MOST_WAITING: usize = 256;
/// Time limit for the last messages.
const LAST_WORDS: Duration = Duration::from_millis(300);

static QUEUE: OnceLock<Queue> = OnceLock::new();

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<String>,
    dropped: u64,
    is_writing: bool,
}

/// From now on, a separate thread writes messages.
pub fn start() -> io::Result<()> {
    if QUEUE.get().is_none() {
        let queue = QUEUE.get_or_init(Queue::default);
        let builder = Builder::new().name("stderr".to_owned());
        // It gives up capabilities like any other thread, whenever it starts.
        trackiops_threads::spawn(builder, move || -> () { queue.write() })?;
    }
    Ok(())
}

/// Puts a message into the queue. Returns the message if the queue was never started.
pub fn put(message: String) -> Result<(), String> {
    let Some(queue) = QUEUE.get() else {
        return Err(message);
    };
    let mut state = queue.lock();
    if state.waiting.len() < MOST_WAITING {
        state.waiting.push_back(message);
        queue.changed.notify_all();
    } else {
        state.dropped += 1;
    }
    Ok(())
}

/// Waits briefly until all messages are written.
pub fn finish() {
    if let Some(queue) = QUEUE.get() {
        let is_busy = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        let state = queue.lock();
        drop(queue.changed.wait_timeout_while(state, LAST_WORDS, is_busy));
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> ! {
        let mut state = self.lock();
        loop {
            state.is_writing = false;
            let Some(message) = state.waiting.pop_front() else {
                self.changed.notify_all();
                let waited = self
                    .changed
                    .wait_while(state, |state| state.waiting.is_empty());
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.is_writing = true;
            let dropped = match state.waiting.is_empty() {
                true => mem::take(&mut state.dropped),
                false => 0,
            };
            drop(state);
            let mut text = message;
            if dropped > 0 {
                text += &format!("{dropped} messages were dropped: stderr was not read\n");
            }
            let _ = io::stderr().write_all(text.as_bytes());
            state = self.lock();
        }
    }
}
