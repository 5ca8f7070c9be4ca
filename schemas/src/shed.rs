//! Details that a recorder sheds while tracing has reached its ceiling.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ebpf::ceiling::shed;
use crate::row::Health;

/// A detail that can be shed. The sums of requests are never shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    /// Single calls of applications and of traced functions of programs.
    SingleCalls,
    /// How long calls take.
    CallTimes,
    /// Calls of applications.
    Calls,
    /// Activity of the page cache.
    PageCache,
    /// Parts of latencies.
    LatencyParts,
    /// Operations by file.
    FileOperations,
}

impl Detail {
    /// All of them, in the order in which they are shed.
    pub const ALL: [Self; 6] = [
        Self::SingleCalls,
        Self::CallTimes,
        Self::Calls,
        Self::PageCache,
        Self::LatencyParts,
        Self::FileOperations,
    ];

    /// Its bit of [`crate::ebpf::ceiling::shed`].
    pub fn bit(self) -> u64 {
        match self {
            Self::SingleCalls => shed::SINGLE_CALLS,
            Self::CallTimes => shed::CALL_TIMES,
            Self::Calls => shed::CALLS,
            Self::PageCache => shed::PAGE_CACHE,
            Self::LatencyParts => shed::LATENCY_PARTS,
            Self::FileOperations => shed::FILE_OPERATIONS,
        }
    }

    /// Its name in output, metrics and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::SingleCalls => "single calls",
            Self::CallTimes => "times of calls",
            Self::Calls => "calls",
            Self::PageCache => "page cache",
            Self::LatencyParts => "parts of latencies",
            Self::FileOperations => "operations of files",
        }
    }

    /// How long it was shed in a window, ms.
    pub fn shed_ms(self, health: &Health) -> u64 {
        match self {
            Self::SingleCalls => health.shed_single_calls_ms,
            Self::CallTimes => health.shed_call_times_ms,
            Self::Calls => health.shed_calls_ms,
            Self::PageCache => health.shed_cache_ms,
            Self::LatencyParts => health.shed_parts_ms,
            Self::FileOperations => health.shed_file_ops_ms,
        }
    }

    /// The counter of [`Self::shed_ms`].
    pub fn shed_ms_mut(self, health: &mut Health) -> &mut u64 {
        match self {
            Self::SingleCalls => &mut health.shed_single_calls_ms,
            Self::CallTimes => &mut health.shed_call_times_ms,
            Self::Calls => &mut health.shed_calls_ms,
            Self::PageCache => &mut health.shed_cache_ms,
            Self::LatencyParts => &mut health.shed_parts_ms,
            Self::FileOperations => &mut health.shed_file_ops_ms,
        }
    }
}

/// A set of details.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details(u64);

impl Details {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Bits of [`crate::ebpf::ceiling::shed`].
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set contains this detail.
    pub fn has(self, detail: Detail) -> bool {
        self.0 & detail.bit() != 0
    }

    /// In the order in which they are shed.
    pub fn iter(self) -> impl Iterator<Item = Detail> {
        Detail::ALL.into_iter().filter(move |one| self.has(*one))
    }

    /// The details of this set that are not in the other one.
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

impl FromIterator<Detail> for Details {
    fn from_iter<I: IntoIterator<Item = Detail>>(details: I) -> Self {
        let bits = details.into_iter().map(Detail::bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

impl fmt::Display for Details {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Detail::name).collect();
        f.write_str(&names.join(", "))
    }
}

impl Serialize for Details {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(Detail::name))
    }
}

impl<'d> Deserialize<'d> for Details {
    /// Ignores names of other versions.
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(from)?;
        let known = |name: &String| Detail::ALL.into_iter().find(|one| one.name() == name);
        Ok(names.iter().filter_map(known).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_have_bits_and_counters_of_their_own() {
        let all: Details = Detail::ALL.into_iter().collect();
        assert_eq!(all.iter().collect::<Vec<_>>(), Detail::ALL);
        let mut health = Health::default();
        for (ms, detail) in (1..).zip(Detail::ALL) {
            *detail.shed_ms_mut(&mut health) = ms;
        }
        let counted = Detail::ALL.map(|detail| detail.shed_ms(&health));
        assert_eq!(counted, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn sets_are_lists_of_names_in_json() {
        let some: Details = [Detail::Calls, Detail::SingleCalls].into_iter().collect();
        let text = r#"["single calls","calls"]"#;
        assert_eq!(serde_json::to_string(&some).unwrap(), text);
        assert_eq!(serde_json::from_str::<Details>(text).unwrap(), some);
        assert_eq!(some.to_string(), "single calls, calls");
        let later = serde_json::from_str::<Details>(r#"["calls","dreams"]"#).unwrap();
        assert_eq!(later.iter().collect::<Vec<_>>(), [Detail::Calls]);
    }
}
