//! Tables with a row for each request: CSV or Parquet.

mod listed;
mod mapping;
mod requests;
mod table;
mod values;

pub use listed::ListedNames;
pub use mapping::{ColumnsError, Mapping, MappingError};
pub use requests::{Imported, import};
pub use values::ValueError;
