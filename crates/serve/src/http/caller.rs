//! The other end of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The other end of a connection. Each request has it in its extensions.
#[derive(Clone, Debug, Default)]
pub struct Caller(Arc<AtomicBool>);

impl Caller {
    /// Notes that the caller has proved its right to ask.
    pub fn is_known_now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
