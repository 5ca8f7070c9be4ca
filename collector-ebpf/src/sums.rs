//! The map that requests are folded into.

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    bindings::{BPF_NOEXIST, bpf_map_type::BPF_MAP_TYPE_HASH},
    helpers::{bpf_map_lookup_elem, bpf_map_update_elem},
};
use trackiops_schemas::ring::{FOLD_ENTRIES, FoldKey, FoldValue};

/// A hash map from [`FoldKey`] to [`FoldValue`], as the loader reads it from BTF.
///
/// With the sizes of keys and values instead of their types: userspace makes its maps without types, and
/// Linux 5.15 to 6.2 takes a map with and one without for different ones.
#[repr(C)]
pub struct Sums {
    r#type: *const [i32; BPF_MAP_TYPE_HASH as usize],
    key_size: *const [i32; size_of::<FoldKey>()],
    value_size: *const [i32; size_of::<FoldValue>()],
    max_entries: *const [i32; FOLD_ENTRIES as usize],
}

impl Sums {
    /// The sum under `key`, begun if need be; `None` if there is no room for another one.
    #[inline(always)]
    pub fn entry(&self, key: &FoldKey) -> Option<*mut FoldValue> {
        if let Some(sum) = self.get(key) {
            return Some(sum);
        }
        let (zero, flags) = (FoldValue::ZERO, u64::from(BPF_NOEXIST));
        // Another CPU may be first: then its entry is there to be found.
        // SAFETY: the verifier sees to it that this is such a map.
        unsafe {
            bpf_map_update_elem(
                self.map(),
                ptr::from_ref(key).cast_mut().cast(),
                ptr::from_ref(&zero).cast_mut().cast(),
                flags,
            )
        };
        self.get(key)
    }

    #[inline(always)]
    fn get(&self, key: &FoldKey) -> Option<*mut FoldValue> {
        // SAFETY: as above.
        let sum = unsafe { bpf_map_lookup_elem(self.map(), ptr::from_ref(key).cast_mut().cast()) };
        (!sum.is_null()).then_some(sum.cast())
    }

    #[inline(always)]
    fn map(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }
}
