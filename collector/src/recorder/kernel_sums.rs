//! Takes over the kernel's sums: of requests that found the rings full, of operations, of connections, and of calls.

use trackiops_schemas::ebpf::ring::{Books, FoldKey, FoldValue};
use trackiops_schemas::identity::TenantId;
use trackiops_schemas::ops::{OTHER_OPERATIONS, Operation, OperationSums};
use trackiops_schemas::time::UtcMs;

use crate::ceiling::Kind;
use crate::clock::MonotonicNs;
use crate::engine::EngineError;
use crate::kernel_sums::by_call::Summed;
use crate::operations::other_operations;
use crate::recorder::{RecordError, Recorder};
use crate::rollup::row_key::RowKey;

impl Recorder {
    /// Takes over the sums of requests that found the rings full.
    pub(super) fn take_folded(
        &mut self,
        books: Books,
        now: MonotonicNs,
    ) -> Result<(), RecordError> {
        if books.folded == self.folded {
            return Ok(());
        }
        let taken = self.engine.folds.take().map_err(EngineError::Folds)?;
        self.folded += taken.iter().map(|(_, sum)| sum.requests).sum::<u64>();
        self.add_folded(&taken, now);
        Ok(())
    }

    fn add_folded(&mut self, taken: &[(FoldKey, FoldValue)], now: MonotonicNs) {
        let window_ms = self.rollup.granularity().ms();
        let mut newcomers = Vec::new();
        for (key, sum) in taken {
            self.audit.see_folded(key, sum);
            let window = UtcMs(key.window.cast_signed().saturating_mul(window_ms));
            if self.rollup.add_folded(key, sum, window) {
                newcomers.push((RowKey::from(key), 0));
            }
        }
        self.names.observe(&newcomers, now);
    }

    /// Takes over the sums of operations.
    pub(super) fn take_operations(&mut self, now: MonotonicNs) -> Result<(), RecordError> {
        if self.engine.operations.is_none() {
            return Ok(());
        }
        self.take_file_operations(now)?;
        let Some(sums) = &mut self.engine.operations else {
            return Ok(());
        };
        let taken = self.operations.take(sums);
        let (mut taken, lost) = taken.map_err(EngineError::Operations)?;
        if let Some(lost) = lost {
            let window_ns = self.rollup.granularity().ms().saturating_mul(1_000_000);
            let current = self.clock.utc_ns(now).div_euclid(window_ns);
            self.add_operation(current, other_operations(), &lost);
        }
        let mut named = self
            .operations
            .name(&taken, now, |dev| self.names.whole(dev));
        // A mount may have come since mounts were followed.
        let mut has_mount = named.iter().map(|(_, of, _)| of.mount.is_some());
        taken.retain(|(key, _)| !has_mount.next().unwrap_or(true) && key.procedure != 0);
        if !taken.is_empty() {
            self.follow_mounts(now)?;
            named.retain(|(_, of, _)| of.mount.is_some() || of.op == OTHER_OPERATIONS);
            let again = self
                .operations
                .name(&taken, now, |dev| self.names.whole(dev));
            named.extend(again);
        }
        for (window, operation, sums) in named {
            self.add_operation(window.cast_signed(), operation, &sums);
        }
        Ok(())
    }

    /// Adds to the window with this number.
    fn add_operation(&mut self, window: i64, operation: Operation, sums: &OperationSums) {
        self.cost.count(Kind::Operations, sums.requests);
        if operation.op != OTHER_OPERATIONS && !self.filter.wants_operation(&operation.op) {
            return;
        }
        let start = UtcMs(window.saturating_mul(self.rollup.granularity().ms()));
        let ops = &mut self.rollup.window(start).ops;
        ops.entry(operation).or_default().merge(sums);
    }

    /// Takes over what TCP knows of connections.
    pub(super) fn take_connections(&mut self) {
        let Some(connections) = &mut self.connections else {
            return;
        };
        while let Some(readings) = connections.next() {
            for (transport, tcp) in readings.connections {
                let ops = &mut self.rollup.window(readings.at).ops;
                let row = ops.entry(Operation::connection(transport));
                row.or_default().tcp.merge(&tcp);
            }
        }
    }

    /// Takes over the sums of calls of applications.
    pub(super) fn take_calls(&mut self, now: MonotonicNs) -> Result<(), RecordError> {
        let Some(sums) = &mut self.engine.calls else {
            return Ok(());
        };
        let mut taken = sums.take().map_err(EngineError::Calls)?;
        for TenantId { cgroup, .. } in taken.iter_mut().map(|taken| &mut taken.row.tenant) {
            *cgroup = self.names.cgroup_of_thread(*cgroup);
        }
        self.audit.see_calls(&taken);
        for taken in &taken {
            let kind = match taken.what {
                Summed::PagesAdded | Summed::PagesEvicted | Summed::PagesDirtied => Kind::Pages,
                _ => Kind::Calls,
            };
            self.cost.count(kind, taken.calls.calls);
        }
        let mut newcomers = Vec::new();
        let newcomer = |row, pid| newcomers.push((row, pid));
        self.rollup.add_calls(taken, newcomer);
        self.names.observe(&newcomers, now);
        Ok(())
    }

    /// [`Self::take_operations`] for the sums by file.
    fn take_file_operations(&mut self, now: MonotonicNs) -> Result<(), RecordError> {
        let Some(sums) = &mut self.engine.file_operations else {
            return Ok(());
        };
        let mut taken = sums.take().map_err(EngineError::Operations)?;
        taken.retain(|taken| self.filter.wants_operation(taken.op.op.as_str()));
        for TenantId { cgroup, .. } in taken.iter_mut().map(|taken| &mut taken.row.tenant) {
            *cgroup = self.names.cgroup_of_thread(*cgroup);
        }
        let mut newcomers = Vec::new();
        let newcomer = |row, pid| newcomers.push((row, pid));
        self.rollup.add_operations(taken, now, newcomer);
        self.names.observe(&newcomers, now);
        Ok(())
    }
}
