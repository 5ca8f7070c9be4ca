//! The current file handle of a COMPOUND, and the saved one (RFC 8881, section 16.2.3.1).

use super::number;
use crate::message::{Handle, OperationCall};

/// Index of a file of a COMPOUND. A later GETFH may set its handle.
type File = Option<usize>;

/// Follows the operations of a COMPOUND.
#[derive(Default)]
pub struct CurrentFile {
    files: Vec<Option<Handle>>,
    current: File,
    saved: File,
}

impl CurrentFile {
    /// Applies an operation that succeeded. Sets the file or directory of the operation, and returns the current file after it, which
    /// LOOKUP, OPEN and CREATE change. `found` is the handle that GETFH returned.
    pub fn apply(&mut self, operation: &mut OperationCall, found: Option<&Handle>) -> File {
        match operation.number {
            number::PUTFH => self.current = self.file_of(operation.handle.clone()),
            number::PUTROOTFH | number::PUTPUBFH => self.current = self.file_of(None),
            number::SAVEFH => self.saved = self.current,
            number::RESTOREFH => self.current = self.saved,
            number::GETFH => {
                if let (Some(index), Some(found)) = (self.current, found) {
                    self.files[index] = Some(found.clone());
                }
            }
            number::LOOKUP | number::LOOKUPP | number::CREATE | number::OPENATTR => {
                operation.handle = self.handle(self.current);
                self.current = self.file_of(None);
            }
            number::OPEN => {
                operation.handle = self.handle(self.current);
                // Without a name, the operation uses the current file.
                if operation.name.is_some() {
                    self.current = self.file_of(None);
                }
            }
            number::RENAME | number::LINK => {
                operation.handle = self.handle(self.saved);
                let directory = self.handle(self.current);
                if let Some(target) = &mut operation.target {
                    target.0 = directory;
                }
            }
            _ => operation.handle = self.handle(self.current),
        }
        self.current
    }

    fn file_of(&mut self, handle: Option<Handle>) -> File {
        self.files.push(handle);
        Some(self.files.len() - 1)
    }

    /// The current file.
    pub fn file(&self) -> File {
        self.current
    }

    /// The handle of a file, if it is already known.
    pub fn handle(&self, file: File) -> Option<Handle> {
        self.files.get(file?)?.clone()
    }
}
