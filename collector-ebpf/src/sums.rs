//! The maps that requests and operations are added up in.

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    bindings::{BPF_NOEXIST, bpf_map_type::BPF_MAP_TYPE_HASH},
    helpers::{bpf_map_lookup_elem, bpf_map_update_elem},
};

/// A hash map, as the loader reads it from BTF.
///
/// It gives sizes of keys and values instead of types: userspace makes its maps without types, and Linux 5.15
/// to 6.2 treats a map with types and one without as different.
#[repr(C)]
pub struct Sums<const KEY: usize, const VALUE: usize, const ENTRIES: usize> {
    r#type: *const [i32; BPF_MAP_TYPE_HASH as usize],
    key_size: *const [i32; KEY],
    value_size: *const [i32; VALUE],
    max_entries: *const [i32; ENTRIES],
}

impl<const KEY: usize, const VALUE: usize, const ENTRIES: usize> Sums<KEY, VALUE, ENTRIES> {
    /// The sum under `key`, which begins as `begin` if it is new; `None` if there is no room for another one.
    #[inline(always)]
    pub fn entry<K, V>(&self, key: &K, begin: *const V) -> Option<*mut V> {
        if let Some(sum) = self.get(key) {
            return Some(sum);
        }
        self.begin(key, begin);
        self.get(key)
    }

    /// Begins a sum, unless another CPU was first: then the lookup finds that CPU's entry.
    #[inline(always)]
    pub fn begin<K, V>(&self, key: &K, begin: *const V) {
        const { assert!(size_of::<K>() == KEY && size_of::<V>() == VALUE) };
        // SAFETY: `map` is the address of this map. The assertion and the verifier check the sizes.
        unsafe {
            bpf_map_update_elem(
                self.map(),
                ptr::from_ref(key).cast_mut().cast(),
                begin.cast_mut().cast(),
                u64::from(BPF_NOEXIST),
            )
        };
    }

    /// The sum under `key`.
    #[inline(always)]
    pub fn get<K, V>(&self, key: &K) -> Option<*mut V> {
        const { assert!(size_of::<K>() == KEY && size_of::<V>() == VALUE) };
        // SAFETY: `map` is the address of this map. The assertion and the verifier check the sizes.
        let sum = unsafe { bpf_map_lookup_elem(self.map(), ptr::from_ref(key).cast_mut().cast()) };
        (!sum.is_null()).then_some(sum.cast())
    }

    #[inline(always)]
    fn map(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }
}
