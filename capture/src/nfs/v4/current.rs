//! The current file handle of a COMPOUND, and the saved one (RFC 8881, section 16.2.3.1).

use super::number;
use crate::message::{Handle, OperationCall};

/// A file of a COMPOUND, whose handle may come to be known later on.
type File = Option<usize>;

/// Follows the operations of a COMPOUND.
#[derive(Default)]
pub struct CurrentFile {
    files: Vec<Option<Handle>>,
    current: File,
    saved: File,
}

impl CurrentFile {
    /// Goes over an operation that succeeded: says in it which directory or file it is about, and returns the file that is current
    /// afterwards, which LOOKUP, OPEN and CREATE found or made. `found` is what GETFH returned.
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
                // Without a name it is about the current file.
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

    /// The file that is current.
    pub fn file(&self) -> File {
        self.current
    }

    /// Its handle, as far as it is known by now.
    pub fn handle(&self, file: File) -> Option<Handle> {
        self.files.get(file?)?.clone()
    }
}
