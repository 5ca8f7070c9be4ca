//! Checks the recorder on real kernels with a real NFS server.
//!
//! Each guest runs a script of `scripts/`; the checks on its output run here. They take minutes and need root, so they are ignored by
//! default: `make test-guests` runs them.
#![allow(clippy::expect_used, clippy::unwrap_used)] // Helpers of tests, too.

mod audit;
mod block;
mod calls;
mod captured;
mod ceiling;
mod compare;
mod confined;
mod container;
mod crowd;
mod errors;
mod facts;
mod faults;
mod filters;
mod hang;
mod incidents;
mod latency;
mod lifecycle;
mod loads;
mod many;
mod matrix;
mod metrics;
mod metrics_tls;
mod modules;
mod mounts;
mod mountstats;
mod names;
mod network;
mod network_or_server;
mod oci;
mod ops;
mod overload;
#[cfg(feature = "fail-points")]
mod panics;
mod power_cut;
mod reload;
mod requests;
mod run;
mod skipped;
mod slow_disk;
mod soak;
mod storm;
mod system;
mod transports;
mod volumes;
mod workloads;
