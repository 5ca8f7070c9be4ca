//! Which details are left out so that tracing takes no more of the machine than it may: a pure function of what it takes.
//!
//! [`costs`] remembers what programs and the recorder take for each event, with each number of details shed. [`controller`] decides by
//! that. Whoever measures is elsewhere (`engine::sampler`, `recorder::ceiling`).

pub mod controller;
pub mod costs;

pub use controller::{Ceiling, CeilingTimes};
pub use costs::{KINDS, Kind, Load, Rate};
