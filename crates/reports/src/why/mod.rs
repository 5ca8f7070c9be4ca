//! `why`: when something was slow, who suffered, and the cause.
//!
//! 1. [`track`] asks once for the tracks of all places: each kind of work of each mount or device, by interval.
//! 2. [`find`] finds the times in which a track was slow, failed or stood still; [`mod@draft`] joins the times of one moment.
//! 3. [`facts`] asks for the files of such a time and of a usual time near it: who lost time ([`victims`]), whose load rose ([`load`]).
//! 4. [`cause`] judges by rules, from the clearest evidence to the vaguest, and states its confidence.
//! 5. If a load is the cause, [`process`] looks for the process behind it.
//!
//! The cost of the first step grows with the range; the cost of the third one grows with the slow times.

mod burst;
pub mod cause;
mod draft;
mod facts;
pub mod find;
pub mod load;
pub mod moment;
pub mod process;
mod quiet;
pub mod report;
mod still;
pub mod track;
pub mod victims;
mod who;

pub use cause::{Cause, Confidence};
pub use moment::Moment;
pub use report::{Why, make};
