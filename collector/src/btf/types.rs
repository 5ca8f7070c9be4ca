//! Parser of the types in a BTF file (Documentation/bpf/btf.rst of Linux,
//! include/uapi/linux/btf.h).
//!
//! It never reads beyond the file: damaged types yield an error or `None`. It
//! takes eight bytes of memory for each type, which has twelve or more in the file.

use std::ops::Range;

/// The begin of a file: magic, version 1, no flags.
const MAGIC: [u8; 4] = [0x9f, 0xeb, 1, 0];
/// The magic of big-endian machines, which are not supported.
const MAGIC_BIG_ENDIAN: [u8; 2] = [0xeb, 0x9f];
/// Bytes of the header that are read.
const HEADER: usize = 24;
/// Bytes that each type has; some kinds have more after them.
const TYPE: usize = 12;
/// Bytes of a member of a structure or a union.
const MEMBER: usize = 12;
/// Bytes of a value of an enumeration.
const VALUE: usize = 8;
/// Bytes of a parameter of a function.
const PARAMETER: usize = 8;
/// Most consecutive typedefs and qualifiers that are followed.
const MOST_LINKS: usize = 64;

/// Why a file is not usable as BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedBtf {
    /// It does not begin like BTF, or has an unknown version.
    #[error("it does not begin like BTF of version 1")]
    Header,
    /// It is big-endian.
    #[error("it has the byte order of another kind of machine")]
    ByteOrder,
    /// It is shorter than its header says.
    #[error("it is shorter than its header says")]
    Short,
    /// A type extends beyond the end of all types.
    #[error("type {0} is cut off")]
    CutOff(u32),
    /// A type is of a kind that Linux 7.2 does not have, so its length is not known.
    #[error("type {0} is of the unknown kind {1}")]
    Kind(u32, u8),
}

/// The types of a kernel, or those that a module adds.
#[derive(Clone, Debug)]
pub struct Btf<'b> {
    /// The kernel's types, if these are a module's. The module's numbers and names continue the
    /// kernel's.
    base: Option<&'b Btf<'b>>,
    types: &'b [u8],
    names: &'b [u8],
    /// The number of the first type. 0 is `void`, which is in no file.
    first: u32,
    /// Where each type begins in `types`.
    places: Vec<u32>,
    /// Numbers by kind, so that a search for a name looks at few of a kernel's hundred thousand
    /// types.
    of_kind: [Vec<u32>; KINDS],
}

impl<'b> Btf<'b> {
    /// The types of a kernel.
    pub fn parse(file: &'b [u8]) -> Result<Self, MalformedBtf> {
        Self::after(None, file)
    }

    /// The types that a module adds to those of its kernel.
    pub fn parse_module(file: &'b [u8], kernel: &'b Btf<'b>) -> Result<Self, MalformedBtf> {
        Self::after(Some(kernel), file)
    }

    fn after(base: Option<&'b Btf<'b>>, file: &'b [u8]) -> Result<Self, MalformedBtf> {
        if file.starts_with(&MAGIC_BIG_ENDIAN) {
            return Err(MalformedBtf::ByteOrder);
        }
        if !file.starts_with(&MAGIC) || file.len() < HEADER {
            return Err(MalformedBtf::Header);
        }
        let of_header = |at: usize| word(file, at).ok_or(MalformedBtf::Header);
        let body = file
            .get(of_header(4)? as usize..)
            .ok_or(MalformedBtf::Short)?;
        let section = |at: usize| {
            let start = of_header(at)? as usize;
            let end = start.checked_add(of_header(at + 4)? as usize);
            let section = end.and_then(|end| body.get(start..end));
            section.ok_or(MalformedBtf::Short)
        };
        let (types, names) = (section(8)?, section(16)?);
        let first = base.map_or(1, Btf::end);
        let mut places = Vec::with_capacity(types.len() / (2 * TYPE));
        let mut of_kind = [const { Vec::new() }; KINDS];
        let mut place = 0;
        while place < types.len() {
            let id = first.saturating_add(places.len() as u32);
            places.push(place as u32);
            let info = word(types, place + 4).ok_or(MalformedBtf::CutOff(id))?;
            let kind = kind_of(info);
            let kind = Kind::new(kind).ok_or(MalformedBtf::Kind(id, kind))?;
            of_kind[kind as usize].push(id);
            place += TYPE + kind.bytes_after(count_of(info));
            if place > types.len() {
                return Err(MalformedBtf::CutOff(id));
            }
        }
        Ok(Self {
            base,
            types,
            names,
            first,
            places,
            of_kind,
        })
    }

    /// The numbers of these types, without those of a module's kernel.
    pub fn numbers(&self) -> Range<u32> {
        self.first..self.end()
    }

    fn end(&self) -> u32 {
        self.first.saturating_add(self.places.len() as u32)
    }

    /// A type by its number; `None` for `void` as well.
    pub fn get(&self, number: u32) -> Option<Type<'b>> {
        if let (true, Some(base)) = (number < self.first, self.base) {
            return base.get(number);
        }
        let index = number.checked_sub(self.first)?;
        let place = *self.places.get(index as usize)?;
        Type::at(self.types, place as usize)
    }

    /// A name by its offset in the names of the kernel and its module. Returns the bytes before the
    /// zero.
    pub fn name(&self, place: u32) -> Option<&'b [u8]> {
        let name = self.names_from(place)?;
        Some(&name[..name.iter().position(|byte| *byte == 0)?])
    }

    fn names_from(&self, place: u32) -> Option<&'b [u8]> {
        let place = place as usize;
        match self.base {
            Some(base) if place < base.names.len() => base.names_from(place as u32),
            Some(base) => self.names.get(place - base.names.len()..),
            None => self.names.get(place..),
        }
    }

    /// Whether the name at that offset is `name`.
    #[inline]
    pub fn is_named(&self, place: u32, name: &str) -> bool {
        let rest = self.names_from(place).unwrap_or_default();
        // Few names have the same length, so most comparisons end here.
        rest.get(name.len()) == Some(&0) && rest.starts_with(name.as_bytes())
    }

    /// The first type of that kind and name: a module's own, or else its kernel's.
    pub fn find(&self, kind: Kind, name: &str) -> Option<(u32, Type<'b>)> {
        let own = self.find_own(kind, name);
        own.or_else(|| self.base?.find(kind, name))
    }

    /// The first type of that kind and name, without those of a module's kernel.
    pub fn find_own(&self, kind: Kind, name: &str) -> Option<(u32, Type<'b>)> {
        self.of_kind[kind as usize].iter().find_map(|number| {
            let place = *self.places.get((number - self.first) as usize)? as usize;
            let is_it = self.is_named(word(self.types, place)?, name);
            is_it.then_some((*number, Type::at(self.types, place)?))
        })
    }

    /// The type behind typedefs and qualifiers.
    pub fn plain(&self, number: u32) -> Option<Type<'b>> {
        let mut found = self.get(number)?;
        for _ in 0..MOST_LINKS {
            match found.kind {
                Kind::Typedef | Kind::Const | Kind::Volatile | Kind::Restrict | Kind::TypeTag => {
                    found = self.get(found.target()?)?;
                }
                _ => return Some(found),
            }
        }
        None
    }
}

/// How many [`Kind`]s there are.
const KINDS: usize = 19;

/// The kind of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // as in C
#[rustfmt::skip]
pub enum Kind {
    Int, Pointer, Array, Struct, Union, Enum, Forward, Typedef, Volatile, Const, Restrict, Function, Prototype, Variable,
    Section, Float, DeclarationTag, TypeTag, Enum64,
}

impl Kind {
    fn new(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Int,
            2 => Self::Pointer,
            3 => Self::Array,
            4 => Self::Struct,
            5 => Self::Union,
            6 => Self::Enum,
            7 => Self::Forward,
            8 => Self::Typedef,
            9 => Self::Volatile,
            10 => Self::Const,
            11 => Self::Restrict,
            12 => Self::Function,
            13 => Self::Prototype,
            14 => Self::Variable,
            15 => Self::Section,
            16 => Self::Float,
            17 => Self::DeclarationTag,
            18 => Self::TypeTag,
            19 => Self::Enum64,
            _ => return None,
        })
    }

    /// Bytes after the first [`TYPE`]. `count` is the number of members, values, parameters or variables.
    fn bytes_after(self, count: usize) -> usize {
        match self {
            Self::Int | Self::Variable | Self::DeclarationTag => 4,
            Self::Array => 12,
            Self::Struct | Self::Union => MEMBER * count,
            Self::Section | Self::Enum64 => 12 * count,
            Self::Enum => VALUE * count,
            Self::Prototype => PARAMETER * count,
            _ => 0,
        }
    }
}

/// A type.
#[derive(Clone, Copy, Debug)]
pub struct Type<'b> {
    /// Its kind.
    pub kind: Kind,
    /// Offset of its name; 0 if it has none.
    pub name: u32,
    /// Whether the offsets of members also hold the sizes of bit-fields.
    has_bits: bool,
    /// Its size, or the number of another type.
    size_or_type: u32,
    after: &'b [u8],
}

impl<'b> Type<'b> {
    fn at(types: &'b [u8], place: usize) -> Option<Self> {
        let info = word(types, place + 4)?;
        let kind = Kind::new(kind_of(info))?;
        let after = place + TYPE;
        Some(Self {
            kind,
            name: word(types, place)?,
            has_bits: info >> 31 == 1,
            size_or_type: word(types, place + 8)?,
            after: types.get(after..after + kind.bytes_after(count_of(info)))?,
        })
    }

    /// Its size in bytes, if the kind has one.
    pub fn size(&self) -> Option<u32> {
        use Kind::{Enum, Enum64, Float, Int, Section, Struct, Union};
        matches!(
            self.kind,
            Int | Struct | Union | Enum | Enum64 | Float | Section
        )
        .then_some(self.size_or_type)
    }

    /// The type that it refers to: the target of a pointer, typedef or qualifier, the prototype or
    /// result of a function, or the element of an array.
    pub fn target(&self) -> Option<u32> {
        use Kind::{Array, Enum, Enum64, Float, Forward, Int, Section, Struct, Union};
        match self.kind {
            Array => word(self.after, 0),
            Int | Struct | Union | Enum | Enum64 | Float | Section | Forward => None,
            _ => Some(self.size_or_type),
        }
    }

    /// How many elements an array has.
    pub fn elements(&self) -> Option<u32> {
        match self.kind {
            Kind::Array => word(self.after, 8),
            _ => None,
        }
    }

    /// The members of a structure or a union.
    pub fn members(&self) -> impl Iterator<Item = TypeMember> + use<'b> {
        let is_compound = matches!(self.kind, Kind::Struct | Kind::Union);
        let members = if is_compound { self.after } else { &[] };
        let has_bits = self.has_bits;
        members.as_chunks::<MEMBER>().0.iter().filter_map(move |m| {
            let bits = word(m, 8)?;
            Some(TypeMember {
                name: word(m, 0)?,
                number: word(m, 4)?,
                bit_offset: if has_bits { bits & 0xff_ffff } else { bits },
            })
        })
    }

    /// The names of an enumeration's values, as offsets, and the values. 64-bit enumerations are not read.
    pub fn values(&self) -> impl Iterator<Item = (u32, u32)> + use<'b> {
        let is_enum = self.kind == Kind::Enum;
        let values = if is_enum { self.after } else { &[] };
        let values = values.as_chunks::<VALUE>().0.iter();
        values.filter_map(|value| Some((word(value, 0)?, word(value, 4)?)))
    }

    /// The types of a function's parameters. The last is 0 if there may be more.
    pub fn parameters(&self) -> impl Iterator<Item = u32> + use<'b> {
        let is_prototype = self.kind == Kind::Prototype;
        let parameters = if is_prototype { self.after } else { &[] };
        let parameters = parameters.as_chunks::<PARAMETER>().0.iter();
        parameters.filter_map(|parameter| word(parameter, 4))
    }
}

/// A member of a structure or a union.
#[derive(Clone, Copy, Debug)]
pub struct TypeMember {
    /// Offset of its name, which is empty if it is anonymous.
    pub name: u32,
    /// The number of its type.
    pub number: u32,
    /// Bits from the structure's start, also for bit-fields.
    pub bit_offset: u32,
}

fn kind_of(info: u32) -> u8 {
    (info >> 24) as u8 & 0x1f
}

/// The number of members, values, parameters or variables that follow.
fn count_of(info: u32) -> usize {
    (info & 0xffff) as usize
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
