//! Completes the programs that read kernel memory by plain loads: puts ids and offsets of the
//! running kernel into their instructions. The BPF loader supports neither calls of kernel
//! functions nor loads from offsets that are not known at build time.

use object::{Object as _, ObjectSection as _, SectionKind};
use trackiops_schemas::ebpf::ring::{CAST_CALL, CAST_FILE, CAST_OFFSETS, CAST_TYPE, DIRECT_WORDS};

use crate::btf::CastBtfIds;

/// Bytes of an instruction: its code, the registers, an offset of 2, and an operand of 4.
const INSTRUCTION: usize = 8;
/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;
/// Registers of a call of a kernel function by its number in BTF: the source is
/// `BPF_PSEUDO_KFUNC_CALL`.
const KERNEL_FUNCTION: u8 = if cfg!(target_endian = "little") {
    0x20
} else {
    0x02
};
/// `BPF_ALU | BPF_MOV | BPF_K` and `BPF_ALU64 | BPF_MOV | BPF_K`.
const MOVES: [u8; 2] = [0xb4, 0xb7];
/// `BPF_LDX | BPF_MEM` of 4, 2, 1 and 8 bytes.
const LOADS: [u8; 4] = [0x61, 0x69, 0x71, 0x79];

/// The object with these programs complete; `None` if an offset is too large for an instruction. Without `cast`, only
/// programs that call no kernel function are complete.
pub fn complete(
    object: &[u8],
    cast: Option<CastBtfIds>,
    offsets: &[u32; DIRECT_WORDS],
) -> Option<Vec<u8>> {
    let file = object::File::parse(object).ok()?;
    let mut bytes = object.to_vec();
    for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
        let (start, length) = section.file_range()?;
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        let (instructions, _) = bytes.get_mut(start..end)?.as_chunks_mut();
        for instruction in instructions {
            complete_one(instruction, cast, offsets)?;
        }
    }
    Some(bytes)
}

fn complete_one(
    instruction: &mut [u8; INSTRUCTION],
    cast: Option<CastBtfIds>,
    offsets: &[u32; DIRECT_WORDS],
) -> Option<()> {
    let [code, registers, o0, o1, i0, i1, i2, i3] = *instruction;
    let (mut registers, mut offset) = (registers, i16::from_ne_bytes([o0, o1]));
    let mut operand = u32::from_ne_bytes([i0, i1, i2, i3]);
    if let Some(cast) = cast
        && code == CALL
        && operand == CAST_CALL
    {
        (registers, operand) = (KERNEL_FUNCTION, cast.function);
    } else if let Some(cast) = cast
        && MOVES.contains(&code)
        && let Some(of) = match operand {
            CAST_TYPE => Some(cast.words),
            CAST_FILE => Some(cast.file),
            _ => None,
        }
    {
        operand = of;
    } else if LOADS.contains(&code) && offset >= CAST_OFFSETS {
        let number = usize::try_from((offset - CAST_OFFSETS) / 8).ok()?;
        offset = i16::try_from(*offsets.get(number)?).ok()?;
    }
    let ([o0, o1], [i0, i1, i2, i3]) = (offset.to_ne_bytes(), operand.to_ne_bytes());
    *instruction = [code, registers, o0, o1, i0, i1, i2, i3];
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::BtfType;
    use crate::engine::OBJECT;

    const CAST: CastBtfIds = CastBtfIds {
        function: 0x0123_4567,
        words: 0x0765_4321,
        file: 0x0765_4322,
        events: Some(
            [BtfType {
                number: 1,
                module: None,
            }; 3],
        ),
        block: None,
        cache: None,
        syscalls: None,
        has_releases: false,
    };

    /// How often these bytes are in the object.
    fn count(object: &[u8], bytes: &[u8]) -> usize {
        object.windows(bytes.len()).filter(|w| *w == bytes).count()
    }

    fn call(registers: u8, function: u32) -> Vec<u8> {
        [&[CALL, registers, 0, 0][..], &function.to_ne_bytes()].concat()
    }

    #[test]
    fn every_stand_in_of_the_object_is_replaced() {
        let mut offsets = [0; DIRECT_WORDS];
        offsets.iter_mut().zip(0x100..).for_each(|(o, n)| *o = n);
        let complete = complete(OBJECT, Some(CAST), &offsets).unwrap();
        assert_eq!(complete.len(), OBJECT.len());
        let calls = count(OBJECT, &call(0, CAST_CALL));
        assert!(calls > 0);
        assert_eq!(
            count(&complete, &call(KERNEL_FUNCTION, CAST.function)),
            calls
        );
        for (stand_in, of) in [(CAST_TYPE, CAST.words), (CAST_FILE, CAST.file)] {
            let types = count(OBJECT, &stand_in.to_ne_bytes());
            assert!(types > 0);
            assert_eq!(count(&complete, &of.to_ne_bytes()), types);
        }
        // Only in programs: tables have bytes that look the same.
        let stand_in = |object: &[u8]| {
            let file = object::File::parse(object).unwrap();
            let programs = file.sections().filter(|s| s.kind() == SectionKind::Text);
            let is_one = |i: &[u8; INSTRUCTION]| {
                LOADS.contains(&i[0]) && i16::from_ne_bytes([i[2], i[3]]) >= CAST_OFFSETS
            };
            programs
                .flat_map(|program| program.data().unwrap().as_chunks().0)
                .filter(|i| is_one(i))
                .count()
        };
        assert!(stand_in(OBJECT) > 0);
        assert_eq!(stand_in(&complete), 0);
    }

    #[test]
    fn an_offset_that_fits_no_instruction_is_refused() {
        let offsets = [1 << 15; DIRECT_WORDS];
        assert_eq!(complete(OBJECT, Some(CAST), &offsets), None);
    }
}
