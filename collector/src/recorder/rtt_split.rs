//! Splits the time between transmission and reply in the rows of a window that closes.

use trackiops_schemas::level::IoLevel;

use crate::recorder::Recorder;
use crate::rollup::OpenWindow;

impl Recorder {
    /// Splits the time into network and server where bounds tell them apart.
    pub(super) fn split_rtt(&mut self, window: &mut OpenWindow) {
        let OpenWindow {
            start,
            rows,
            settled,
            ops,
            covered_ns,
            ..
        } = window;
        // The connections' other requests are not known.
        if !self.filter.operations.is_empty() {
            return;
        }
        let mut paths = self.rtt_split.paths(*start, *covered_ns, ops);
        if paths.is_empty() {
            return;
        }
        let rows = rows.iter_mut();
        let rows = rows.map(|(key, row)| (key.level, key.file.dev, row));
        let settled = settled.iter_mut();
        let settled = settled.map(|of| (of.file.level, of.file.id.dev, &mut of.row));
        for (_, dev, row) in rows
            .chain(settled)
            .filter(|(level, ..)| *level == IoLevel::Wire)
        {
            paths.split_row(self.names.whole(dev), row, ops);
        }
        paths.split_operations(ops);
    }
}
