//! Keeps the last windows of a recorder in limited memory.

use std::collections::VecDeque;

use trackiops_store::live::LiveWindow;

/// The last windows of a recorder.
#[derive(Debug)]
pub(crate) struct RecentWindows {
    windows: VecDeque<LiveWindow>,
    bytes: usize,
    most_windows: usize,
    most_bytes: usize,
}

impl RecentWindows {
    pub fn new(most_windows: usize, most_bytes: usize) -> Self {
        Self {
            windows: VecDeque::new(),
            bytes: 0,
            most_windows,
            most_bytes,
        }
    }

    /// Adds a window, and drops the oldest beyond the limits.
    pub fn add(&mut self, window: LiveWindow) {
        self.bytes += window.bytes();
        self.windows.push_back(window);
        while self.windows.len() > self.most_windows || self.bytes > self.most_bytes {
            let dropped = self.windows.pop_front();
            self.bytes -= dropped.map_or(0, |window| window.bytes());
        }
        self.windows.make_contiguous();
    }

    /// The windows, oldest first.
    pub fn as_slice(&self) -> &[LiveWindow] {
        self.windows.as_slices().0
    }
}
