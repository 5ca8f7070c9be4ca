//! Finds the loads of kernel memory in a program's verifier log (`log_level` 2), which has the type of each pointer, instruction by instruction.
//!
//! ```text
//! 0: R1=ctx() R10=fp0
//! 0: (79) r6 = *(u64 *)(r1 +0)          ; R1=ctx() R6_w=trusted_ptr_folio()
//! 3: (79) r1 = *(u64 *)(r6 +24)         ; R1_w=ptr_address_space() R6=trusted_ptr_folio()
//! from 2 to 9: R0=0 R6=trusted_ptr_folio() R10=fp0
//! caller:
//!  R6=trusted_ptr_folio() R10=fp0
//! callee:
//!  frame1: R1=ptr_inode() R10=fp0
//! ```

use std::collections::BTreeSet;

/// A load from a pointer to a structure of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoggedLoad {
    /// The structure, by the verifier's name.
    pub structure: String,
    /// Offset from its begin, and bytes loaded.
    pub offset: i64,
    pub size: u32,
    /// Whether the verifier trusts the pointer, so that the load has no fault handler (`convert_ctx_accesses`, kernel/bpf/verifier.c).
    pub is_plain: bool,
}

/// The loads in a log.
#[derive(Debug, Default)]
pub struct Logged {
    pub loads: BTreeSet<LoggedLoad>,
    /// Loads that were not understood, or whose pointer's type is unknown.
    pub unknown: BTreeSet<String>,
}

/// Opcodes of loads from memory (`BPF_LDX`), which begin an instruction in the log.
const LOADS: [&str; 7] = ["(61)", "(69)", "(71)", "(79)", "(81)", "(89)", "(91)"];
/// Registers of a program.
const REGISTERS: usize = 11;
/// Functions that call each other (`MAX_CALL_FRAMES`).
const FRAMES: usize = 8;

/// The types of all registers, by the verifier's names.
#[derive(Default)]
struct State {
    frames: [[Option<String>; REGISTERS]; FRAMES],
    /// The function that the verifier follows.
    frame: usize,
}

/// Prefixes of instruction lists that Linux 7.2 logs before it follows the program.
const LISTS: [&str; 3] = ["subprog#", "stack use/def ", "Live regs before insn"];

/// Reads a whole log.
pub fn read(log: &str) -> Logged {
    let (mut state, mut logged) = (State::default(), Logged::default());
    // Lists of instructions come first, before the verifier follows the program.
    let mut is_list = true;
    for line in log.lines() {
        let line = line.trim_start();
        if LISTS.iter().any(|list| line.starts_with(list)) {
            is_list = true;
        } else if let Some(way) = line.strip_prefix("from ") {
            // `from 2 to 9: ` is followed by the whole state there.
            if let Some((_, known)) = way.split_once(": ") {
                state.begin(known);
                is_list = false;
            }
        } else if let Some((number, rest)) = line.split_once(": ")
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            if rest.starts_with('(') {
                let (instruction, known) = rest.split_once(';').unwrap_or((rest, ""));
                if !is_list {
                    state.step(instruction.trim_end(), known, &mut logged);
                }
            } else if rest.starts_with(['R', 'f']) {
                state.learn(rest);
                is_list = false;
            }
        } else if line.starts_with("frame") || line.starts_with('R') {
            state.learn(line);
        }
    }
    logged
}

impl State {
    /// Replaces the state of the current function.
    fn begin(&mut self, known: &str) {
        self.frame = frame_of(known);
        if let Some(frame) = self.frames.get_mut(self.frame) {
            *frame = Default::default();
        }
        self.learn(known);
    }

    /// Updates the state of some registers.
    fn learn(&mut self, known: &str) {
        self.frame = frame_of(known);
        let Some(frame) = self.frames.get_mut(self.frame) else {
            return;
        };
        for word in known.split_whitespace() {
            if let Some((name, of)) = word.split_once('=')
                && let Some(name) = name.strip_prefix('R')
                && let Ok(number) = name.trim_end_matches(|c: char| !c.is_ascii_digit()).parse()
                && let Some(register) = frame.get_mut::<usize>(number)
            {
                *register = Some(of.to_owned());
            }
        }
    }

    /// Reads an instruction and the state after it.
    fn step(&mut self, instruction: &str, known: &str, logged: &mut Logged) {
        if let Some(load) = Load::parse(instruction) {
            let before = || self.frames.get(self.frame)?.get(load.base)?.clone();
            // If the register keeps its value, the state after the instruction is more recent.
            let after = || {
                let mut after = Self::default();
                after.learn(known);
                after.frames.get(after.frame)?.get(load.base)?.clone()
            };
            let base = match load.base == load.target {
                true => before(),
                false => after().or_else(before),
            };
            match base.as_deref().map(|base| load.of(base)) {
                Some(Some(found)) => {
                    logged.loads.insert(found);
                }
                Some(None) => {}
                None => {
                    logged.unknown.insert(instruction.to_owned());
                }
            }
        } else if LOADS.iter().any(|code| instruction.starts_with(code)) {
            logged.unknown.insert(instruction.to_owned());
        }
        if !known.trim().is_empty() {
            self.learn(known);
        }
    }
}

/// The number of the function that a state belongs to.
fn frame_of(known: &str) -> usize {
    let frame = known.trim_start().strip_prefix("frame");
    let number = frame.and_then(|frame| frame.split_once(':')?.0.parse().ok());
    number.unwrap_or(0)
}

/// A load instruction: `(79) r1 = *(u64 *)(r6 +24)`.
struct Load {
    target: usize,
    base: usize,
    offset: i64,
    size: u32,
}

impl Load {
    fn parse(instruction: &str) -> Option<Self> {
        let (_, text) = instruction.strip_prefix('(')?.split_once(") ")?;
        let (target, from) = text.trim_end().split_once(" = *(")?;
        let (kind, place) = from.split_once(" *)(")?;
        let (base, offset) = place.strip_suffix(')')?.split_once(' ')?;
        let register = |name: &str| name.trim_start_matches(['r', 'w']).parse().ok();
        let bits: u32 = kind.trim_start_matches(['u', 's']).parse().ok()?;
        Some(Self {
            target: register(target)?,
            base: register(base)?,
            offset: offset.trim_start_matches('+').parse().ok()?,
            size: bits / 8,
        })
    }

    /// The load from a register of this type, if that points to a structure of the kernel: `trusted_ptr_folio(off=8,imm=0)`.
    fn of(&self, base: &str) -> Option<LoggedLoad> {
        let (name, more) = base.split_once('(').unwrap_or((base, ""));
        let (kind, structure) = match name.strip_prefix("ptr_") {
            Some(structure) => ("", structure),
            None => name.split_once("_ptr_")?,
        };
        let begin = more.trim_end_matches(')').split(',');
        let begin = begin.filter_map(|part| part.strip_prefix("off="));
        let begin: i64 = begin.filter_map(|off| off.parse().ok()).next().unwrap_or(0);
        let is_untrusted = kind.split('_').any(|word| word == "untrusted");
        Some(LoggedLoad {
            structure: structure.trim_start_matches("or_null_").to_owned(),
            offset: begin + self.offset,
            size: self.size,
            is_plain: !kind.is_empty() && !is_untrusted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(structure: &str, offset: i64, size: u32, is_plain: bool) -> LoggedLoad {
        LoggedLoad {
            structure: structure.to_owned(),
            offset,
            size,
            is_plain,
        }
    }

    #[test]
    fn a_load_has_the_type_of_its_pointer_at_that_moment() {
        let logged = read(
            "func#0 @0\n\
            0: R1=ctx() R10=fp0\n\
            0: (79) r6 = *(u64 *)(r1 +0)          ; R1=ctx() R6_w=trusted_ptr_folio()\n\
            1: (15) if r6 == 0x0 goto pc+9        ; R6_w=trusted_ptr_folio()\n\
            2: (79) r1 = *(u64 *)(r6 +24)         ; R1_w=ptr_address_space(off=8,imm=0) R6_w=trusted_ptr_folio()\n\
            3: (79) r1 = *(u64 *)(r1 +16)         ; R1_w=untrusted_ptr_inode()\n\
            4: (69) r2 = *(u16 *)(r1 +0)          ; R1_w=untrusted_ptr_inode() R2_w=scalar()\n\
            5: (61) r0 = *(u32 *)(r10 -8)         ; R0_w=scalar() R10=fp0\n\
            from 1 to 11: R6=trusted_ptr_folio(off=4) R10=fp0\n\
            11: (bf) r1 = r6                      ; R1_w=trusted_ptr_folio(off=4) R6=trusted_ptr_folio(off=4)\n\
            12: (61) r1 = *(u32 *)(r1 +68)        ; R1_w=scalar()\n",
        );
        let expected = [
            load("address_space", 24, 8, false),
            load("folio", 24, 8, true),
            load("folio", 72, 4, true),
            load("inode", 0, 2, false),
        ];
        assert_eq!(Vec::from_iter(logged.loads), expected);
        assert!(logged.unknown.is_empty(), "{:?}", logged.unknown);
    }

    #[test]
    fn functions_have_registers_of_their_own() {
        let logged = read(
            "7: (85) call pc+3\n\
            caller:\n R6=rcu_ptr_or_null_cred(id=1) R10=fp0\n\
            callee:\n frame1: R1=ptr_request() R10=fp0\n\
            11: frame1: R1=ptr_request() R10=fp0\n\
            11: (79) r6 = *(u64 *)(r1 +8)         ; frame1: R1=ptr_request() R6_w=scalar()\n\
            12: (95) exit\n\
            returning from callee:\n frame1: R0=scalar() R6=scalar() R10=fp0\n\
            to caller at 8:\n R0=scalar() R6=rcu_ptr_cred() R10=fp0\n\
            8: (61) r6 = *(u32 *)(r6 +8)          ; R6_w=scalar()\n\
            9: (61) r6 = *(u32 *)(r9 +8)          ; R6_w=scalar()\n",
        );
        let expected = [load("cred", 8, 4, true), load("request", 8, 8, false)];
        assert_eq!(Vec::from_iter(logged.loads), expected);
        assert_eq!(logged.unknown.len(), 1, "of r9 nothing is known");
    }

    #[test]
    fn linux_7_2_lists_instructions_first_and_knows_only_live_registers() {
        let logged = read(
            "subprog#0: analyzing (depth 0)...\n\
            subprog#0:\n  0: (bf) r6 = r1\n  1: (79) r7 = *(u64 *)(r6 +0)\n\
            Live regs before insn:\n      0: .12345.... (bf) r6 = r1\n\
            0: R1=ctx() R10=fp0\n\
            0: (79) r6 = *(u64 *)(r1 +0)          ; R6=trusted_ptr_folio()\n\
            1: (79) r7 = *(u64 *)(r6 +24)         ;\n\
            2: (79) r7 = *(u64 *)(r6 +32)         ; frame1:\n\
            3: (79) r7 = what comes with Linux 8  ;\n",
        );
        let expected = [load("folio", 24, 8, true), load("folio", 32, 8, true)];
        assert_eq!(Vec::from_iter(logged.loads), expected);
        assert_eq!(logged.unknown.len(), 1);
    }
}
