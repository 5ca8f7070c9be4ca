//! Files and users that an import knows.

use std::sync::Arc;

use trackiops_schemas::identity::{FileAttributes, FileId, TenantId};

/// The files and users that are known so far.
pub trait Names {
    /// The attributes that rows store about a file and its user.
    fn attributes(&self, file: FileId, tenant: TenantId) -> Arc<FileAttributes>;
    /// Whether it is time to close all windows and to [`Self::forget`].
    fn is_full(&self) -> bool;
    /// Forgets all files and their names. A file that appears again gets the same id.
    fn forget(&mut self);
}
