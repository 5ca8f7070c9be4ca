//! Decides which details to shed so that tracing stays below its ceiling: a pure function of measurements.
//!
//! [`costs`] remembers the cost of an event for programs and recorder, with each number of details shed. [`controller`] decides from
//! these costs. The measurements are made elsewhere (`engine::sampler`, `recorder::ceiling`).

pub mod controller;
pub mod costs;

pub use controller::{Ceiling, CeilingTimes};
pub use costs::{KINDS, Kind, Load, Rate};
