//! Types for unit tests. `trackiops-testkit` has the same, but with types of another copy of this crate.

use std::sync::{Arc, Mutex};

use crate::{Options, Warning};

pub(crate) fn options(host: &str) -> Options {
    Options {
        host: host.into(),
        granularities: "1s,10s,1m,1h".parse().unwrap(),
        rotate: "15m".parse().unwrap(),
        filter: None,
        source: None,
        allow_nfs_store: false,
        most_files: Options::MOST_FILES,
        keep: Default::default(),
    }
}

/// The warnings of a store.
pub(crate) type Told = Arc<Mutex<Vec<Warning>>>;

pub(crate) fn tell(told: &Told) -> impl Fn(Warning) + Send + 'static {
    let told = Arc::clone(told);
    move |warning| told.lock().unwrap().push(warning)
}
