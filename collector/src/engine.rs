//! Executes a plan: loads the programs, attaches them, and hands out the ring and the books. The
//! only module that knows the BPF loader.

use aya::maps::{Map, MapData, MapError, RingBuf};
use aya::programs::{ProgramError, TracePoint};
use aya::{Ebpf, EbpfError, EbpfLoader, include_bytes_aligned};
use trackiops_schemas::ring::{
    BOOKS_MAP, Books, DoneOffsets, InitiateOffsets, OFFSETS_GLOBAL, RING_MAP, TaskOffsets,
    TracepointOffsets, WAKEUP_BYTES_GLOBAL,
};

use crate::books::SharedBooks;
use crate::facts::TRACEPOINTS;
use crate::plan::Plan;

/// The kernel side, as `make ebpf` built it.
static OBJECT: &[u8] = include_bytes_aligned!("../../collector-ebpf/trackiops.bpf.o");

/// Size of the ring: 233,000 requests of 64 bytes and an 8 byte header each.
pub const RING_BYTES: u32 = 16 << 20;
/// The reader is woken when the ring is a quarter full, long before its timer would let it overflow.
const WAKEUP_BYTES: u64 = RING_BYTES as u64 / 4;

/// Why the kernel side could not be started.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The kernel refused a program or a map.
    #[error("the kernel refused the BPF programs: {}", causes(.0))]
    Load(#[from] EbpfError),
    /// A program could not be attached.
    #[error("cannot attach to the tracepoint `{event}`: {}", causes(.source))]
    Attach {
        /// The tracepoint.
        event: &'static str,
        /// What the kernel said.
        source: ProgramError,
    },
    /// A map cannot be used.
    #[error("cannot use the BPF map `{name}`: {}", causes(.source))]
    Map {
        /// The map.
        name: &'static str,
        /// What the kernel said.
        source: MapError,
    },
    /// The counters cannot be mapped.
    #[error("cannot map the counters of the BPF programs into memory: {0}")]
    Books(#[source] std::io::Error),
    /// The object lacks what this program expects of it.
    #[error(
        "the built-in BPF object has no `{0}`: this build of trackiops is broken, run `make ebpf`"
    )]
    Object(&'static str),
}

/// The loader's errors keep their cause to themselves.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The kernel side at work. Dropping it detaches every probe.
pub struct Engine {
    /// Owns the programs and their links; dropped first when stopping.
    programs: Option<Ebpf>,
    /// Completed requests.
    pub ring: RingBuf<MapData>,
    books: SharedBooks,
}

impl Engine {
    /// Loads and attaches everything.
    pub fn start(plan: &Plan) -> Result<Self, EngineError> {
        let offsets = words(&plan.offsets);
        let mut programs = EbpfLoader::new()
            .override_global(OFFSETS_GLOBAL, offsets.as_slice(), true)
            .override_global(WAKEUP_BYTES_GLOBAL, &WAKEUP_BYTES, true)
            .map_max_entries(RING_MAP, RING_BYTES)
            .load(OBJECT)?;
        let ring = programs
            .take_map(RING_MAP)
            .ok_or(EngineError::Object(RING_MAP))?;
        let ring = RingBuf::try_from(ring).map_err(|source| EngineError::Map {
            name: RING_MAP,
            source,
        })?;
        let books = match programs.map(BOOKS_MAP) {
            Some(Map::Array(books)) => SharedBooks::map(books.fd()),
            _ => return Err(EngineError::Object(BOOKS_MAP)),
        }
        .map_err(EngineError::Books)?;
        // In the order in which a request meets them: one that starts while they are being attached
        // is linked or is counted without a latency, but never linked to the wrong start.
        for (category, event) in TRACEPOINTS {
            attach(&mut programs, category, event)?;
        }
        Ok(Self {
            programs: Some(programs),
            ring,
            books,
        })
    }

    /// The kernel's books. The order of reading keeps `recorded + lost <= seen`.
    pub fn books(&self) -> Books {
        self.books.read()
    }

    /// Detaches every probe; ring and books stay readable.
    pub fn detach(&mut self) {
        self.programs = None;
    }
}

fn attach(programs: &mut Ebpf, category: &str, event: &'static str) -> Result<(), EngineError> {
    let attach_error = |source| EngineError::Attach { event, source };
    let program = programs
        .program_mut(event)
        .ok_or(EngineError::Object(event))?;
    let program: &mut TracePoint = program.try_into().map_err(attach_error)?;
    program.load().map_err(attach_error)?;
    program.attach(category, event).map_err(attach_error)?;
    Ok(())
}

/// The offsets as the words of which their `repr(C)` consists.
fn words(offsets: &TracepointOffsets) -> [u32; 24] {
    let TracepointOffsets {
        initiate_read,
        initiate_write,
        task_begin,
        task_end,
        read_done,
        write_done,
    } = *offsets;
    let mut words = Vec::with_capacity(24);
    for InitiateOffsets { dev, fileid } in [initiate_read, initiate_write] {
        words.extend([dev, fileid]);
    }
    for TaskOffsets { task_id, client_id } in [task_begin, task_end] {
        words.extend([task_id, client_id]);
    }
    for DoneOffsets {
        dev,
        fhandle,
        fileid,
        offset,
        arg_count,
        res_count,
        error,
        eof,
    } in [read_done, write_done]
    {
        words.extend([
            dev, fhandle, fileid, offset, arg_count, res_count, error, eof,
        ]);
    }
    let mut array = [0; 24];
    array
        .iter_mut()
        .zip(words)
        .for_each(|(slot, word)| *slot = word);
    array
}
