//! `why`: what was slow, who suffered, and what caused it.
//!
//! 1. [`track`] asks once for what each place did, interval by interval: each kind of work of each mount or device.
//! 2. [`find`] finds the times in which a track was slow, failed or stood still; [`mod@draft`] puts those of one time together.
//! 3. [`facts`] asks for the files of such a time, and of a usual time near it: who lost time ([`victims`]), whose load rose ([`load`]).
//! 4. [`cause`] judges by rules, from the clearest evidence to the vaguest, and says how sure it is.
//!
//! The first step costs in proportion to the range, the third in proportion to what was slow.

mod burst;
pub mod cause;
mod draft;
mod facts;
pub mod find;
pub mod load;
pub mod moment;
pub mod report;
pub mod track;
pub mod victims;
mod who;

pub use cause::{Cause, Confidence};
pub use moment::Moment;
pub use report::{Why, make};
