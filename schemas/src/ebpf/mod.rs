//! Types that the kernel side shares with userspace.
//!
//! * [`ring`]: the record of a request, the offsets of this kernel, and the books;
//! * [`op_sums`] and [`file_op_sums`]: sums of every other operation, by procedure and by file;
//! * [`app_sums`]: sums of the calls by which applications read and write;
//! * [`paths`]: the names of files;
//! * [`ceiling`]: details that are shed;
//! * [`left_out`]: sums of the requests that a filter excludes;
//! * [`spans`]: calls of traced functions of programs;
//! * [`offsets`]: structures whose fields are all offsets.

pub mod app_sums;
pub mod block;
pub mod cache;
pub mod ceiling;
pub mod file_op_sums;
pub mod left_out;
pub mod local;
pub mod offsets;
pub mod op_sums;
pub mod paths;
pub mod ring;
pub mod spans;
pub mod syscalls;
