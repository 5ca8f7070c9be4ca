//! Adds a recorder's windows up to steps.

use std::mem;
use std::path::{Path, PathBuf};
use std::slice;

use trackiops_query::Range;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::live::LiveWindow;
use trackiops_store::{Snapshot, StoreError};

/// Most pending windows of a step before they are summed.
const MOST_PENDING: usize = 64;

/// The pending windows of the current step.
#[derive(Debug)]
pub struct Steps {
    /// Named in errors.
    socket: PathBuf,
    /// Length of a step.
    step: Granularity,
    mounts: Vec<MountPoint>,
    pending: Vec<LiveWindow>,
    /// Start of the step of `pending`.
    start: UtcMs,
    /// End of the last window.
    end: Option<UtcMs>,
}

/// Windows of a step, as a view to ask.
#[derive(Debug)]
pub struct StepRows {
    /// The windows.
    pub view: Snapshot,
    /// The time of the step.
    pub range: Range,
    /// Its length: longer than asked for if the windows are longer.
    pub step: Granularity,
}

impl Steps {
    /// Steps of a length, of windows from `socket`.
    pub fn new(socket: &Path, step: Granularity) -> Self {
        Self {
            socket: socket.to_owned(),
            step,
            mounts: Vec::new(),
            pending: Vec::new(),
            start: UtcMs(0),
            end: None,
        }
    }

    /// Length of a step.
    pub fn length(&self) -> Granularity {
        self.step
    }

    /// Changes the length of further steps.
    pub fn set_length(&mut self, step: Granularity) {
        self.step = step;
    }

    /// End of the last known window.
    pub fn end(&self) -> Option<UtcMs> {
        self.end
    }

    /// Sets the end of the last known window, which came in another way.
    pub fn set_end(&mut self, end: Option<UtcMs>) {
        self.end = end;
    }

    /// The mounts of the recorder, and those that are gone.
    pub fn mounts(&self) -> &[MountPoint] {
        &self.mounts
    }

    /// Sets the present mounts. Rows may still come from mounts that are gone.
    pub fn set_mounts(&mut self, mounts: Vec<MountPoint>) {
        let known = mem::replace(&mut self.mounts, mounts);
        let is_gone = |mount: &MountPoint| !self.mounts.contains(mount);
        let gone: Vec<_> = known.into_iter().filter(is_gone).collect();
        self.mounts.extend(gone);
    }

    /// Adds a window. Returns the steps that end with it or before it.
    pub fn add(&mut self, window: LiveWindow) -> Result<Vec<StepRows>, StoreError> {
        let view = Snapshot::of_windows(slice::from_ref(&window), &[], &self.socket)?;
        let Some((start, end)) = view.span() else {
            return Ok(Vec::new());
        };
        let of_step = start.align(self.step);
        self.end = Some(end);
        if of_step < self.start && !self.pending.is_empty() {
            // Late requests of an earlier step.
            let late = self.rows(slice::from_ref(&window), of_step)?;
            return Ok(vec![late]);
        }
        let mut ended = Vec::new();
        if of_step != self.start {
            ended.extend(self.flush()?);
        }
        self.start = of_step;
        self.pending.push(window);
        if self.pending.len() >= MOST_PENDING {
            let sum = LiveWindow::sum(&self.pending, self.step, &self.socket)?;
            self.pending = sum.into_iter().collect();
        }
        if end >= of_step.plus(self.step) {
            ended.extend(self.flush()?);
        }
        Ok(ended)
    }

    /// Ends the current step. `None` if it has no windows.
    pub fn flush(&mut self) -> Result<Option<StepRows>, StoreError> {
        let windows = mem::take(&mut self.pending);
        match windows.is_empty() {
            true => Ok(None),
            false => self.rows(&windows, self.start).map(Some),
        }
    }

    /// Windows of the step that begins at `start`.
    fn rows(&self, windows: &[LiveWindow], start: UtcMs) -> Result<StepRows, StoreError> {
        let view = Snapshot::of_windows(windows, &self.mounts, &self.socket)?;
        // While the store cannot be written, windows become longer.
        let longer = view.granularities().into_iter().max();
        let longer = longer.filter(|longer| !self.step.is_multiple_of(*longer));
        let step = longer.unwrap_or(self.step);
        let range = Range {
            since: Some(start.align(step)),
            until: Some(start.align(step).plus(step)),
        };
        Ok(StepRows { view, range, step })
    }
}

#[cfg(test)]
mod tests {
    use trackiops_store::live::Message;
    use trackiops_testkit::recording::{Recording, of_two_files};
    use trackiops_testkit::windows::granularity;

    use super::*;
    use crate::follower::{Follower, Heard, SILENCE};

    /// Midnight of a day.
    const BEGIN: i64 = 20_000 * 86_400_000;

    fn times(steps: &[StepRows]) -> Vec<i64> {
        let since = steps.iter().filter_map(|step| step.range.since);
        since.map(|since| since.0 - BEGIN).collect()
    }

    #[test]
    fn a_step_ends_with_its_last_window_or_before_a_later_one() {
        let recording = Recording::begin();
        let mut follower = Follower::new(&recording.socket());
        follower.connect().unwrap();
        // From the third second on, and two minutes later.
        let windows = [
            of_two_files(BEGIN + 2000, 20),
            of_two_files(BEGIN + 120_000, 1),
        ];
        recording.put(&windows.concat());
        let mut steps = Steps::new(&recording.socket(), granularity("10s"));
        let (mut ended, mut received) = (Vec::new(), 0);
        while received < 21 {
            if let Heard::Message(Message::Window(window)) = follower.next(SILENCE) {
                ended.extend(steps.add(window).unwrap());
                received += 1;
            }
        }
        assert_eq!(times(&ended), [0, 10_000, 20_000]);
        assert!(ended.iter().all(|step| step.step == granularity("10s")));
        let rest = steps.flush().unwrap();
        assert_eq!(times(rest.as_slice()), [120_000]);
        assert!(steps.flush().unwrap().is_none());
    }
}
