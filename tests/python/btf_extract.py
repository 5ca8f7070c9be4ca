"""Reduces the BTF of a kernel and of its modules to the types that are asked for.

Usage: btf_extract.py DIRECTORY

DIRECTORY is what facts.sh wrote. Its `btf` is like /sys/kernel/btf: `vmlinux`, and beside it a file per module, which is
split BTF on top of vmlinux; and `types`, a list of names. The same files without the list are written to its
`sys/kernel/btf`, and `btf` is removed. The names are of structs, unions, enums, typedefs and functions; kernels differ, so
a name that is nowhere is no error. What a type contains comes along complete; what it only points to comes along when it
was asked for, and else as a forward declaration. Layouts stay as they are; only type ids and string offsets get other
numbers.

The format: https://docs.kernel.org/bpf/btf.html
"""

import pathlib
import shutil
import struct
import sys

# A type is a row of 32-bit words: name, info, size or type; then what its kind adds once; then what it adds `vlen` times. Here n is a name
# (offset into the strings), t a type (id), and a dot anything else.
INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT = range(1, 12)
FUNC, FUNC_PROTO, VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = range(12, 20)
WORDS = {
    INT: ("n...", ""),
    PTR: ("n.t", ""),
    ARRAY: ("n..tt.", ""),
    STRUCT: ("n..", "nt."),
    UNION: ("n..", "nt."),
    ENUM: ("n..", "n."),
    FWD: ("n..", ""),
    TYPEDEF: ("n.t", ""),
    VOLATILE: ("n.t", ""),
    CONST: ("n.t", ""),
    RESTRICT: ("n.t", ""),
    FUNC: ("n.t", ""),
    FUNC_PROTO: ("n.t", "nt"),
    VAR: ("n.t.", ""),
    DATASEC: ("n..", "t.."),
    FLOAT: ("n..", ""),
    DECL_TAG: ("n.t.", ""),
    TYPE_TAG: ("n.t", ""),
    ENUM64: ("n..", "n.."),
}
HEADER = struct.Struct("=HBBIIIII")
MAGIC, VERSION = 0xEB9F, 1
KIND_FLAG = 1 << 31  # of a forward declaration: it is of a union


def kind_of(info):
    return info >> 24 & 0x1F


def shape_of(info):
    once, repeated = WORDS[kind_of(info)]
    return once + repeated * (info & 0xFFFF)


class Btf:
    """What is in one file; ids and string offsets of split BTF go on where its base's end."""

    def __init__(self, path, base=None):
        data = path.read_bytes()
        magic, version, _, header_bytes, type_off, type_bytes, str_off, str_bytes = HEADER.unpack_from(data)
        if (magic, version) != (MAGIC, VERSION):
            sys.exit(f"{path}: not BTF of version {VERSION} in this machine's byte order")
        self.base = base
        self.first_id = base.end_id if base else 1
        self.first_string = base.end_string if base else 0
        self.strings = data[header_bytes + str_off :][:str_bytes]
        self.end_string = self.first_string + str_bytes
        words = memoryview(data)[header_bytes + type_off :][:type_bytes].cast("I")
        self.types = []
        at = 0
        while at < len(words):
            info = words[at + 1]
            if kind_of(info) not in WORDS:
                sys.exit(f"{path}: type {self.first_id + len(self.types)} is of the unknown kind {kind_of(info)}")
            end = at + len(shape_of(info))
            self.types.append(words[at:end])
            at = end
        self.end_id = self.first_id + len(self.types)
        # Ids of the needed types, and whether their content is needed, too.
        self.needed = {}

    def string(self, offset):
        if offset < self.first_string:
            return self.base.string(offset)
        start = offset - self.first_string
        return self.strings[start : self.strings.index(b"\0", start)]

    def find(self, names):
        """Ids of this file's complete types of those names."""
        for number, words in enumerate(self.types, self.first_id):
            if kind_of(words[1]) in (STRUCT, UNION, ENUM, ENUM64, TYPEDEF, FUNC) and self.string(words[0]) in names:
                yield number

    def need(self, names):
        """Marks the types of those names, and all that they need, here and in the base."""
        queue = [(number, True) for number in self.find(names)]
        while queue:
            number, whole = queue.pop()
            if number == 0:  # void
                continue
            owner = self if number >= self.first_id else self.base
            words = owner.types[number - owner.first_id]
            kind = kind_of(words[1])
            if kind in (STRUCT, UNION) and not self.string(words[0]):
                whole = True  # There is no forward declaration without a name.
            if owner.needed.get(number, -1) >= whole:
                continue
            owner.needed[number] = whole
            if kind in (STRUCT, UNION) and not whole:
                continue
            # A pointer or function does not contain the types that it names; an array does, even behind a pointer.
            within = kind == ARRAY or whole and kind not in (PTR, FUNC_PROTO)
            queue += [(word, within) for word, role in zip(words, shape_of(words[1])) if role == "t"]


class Extract:
    """The needed types of one file under new numbers."""

    def __init__(self, btf, base=None):
        self.btf, self.base = btf, base
        needed = sorted(btf.needed)
        first = base.end_id if base else 1
        self.end_id = first + len(needed)
        self.ids = dict(base.ids) if base else {0: 0}
        self.ids.update(zip(needed, range(first, self.end_id)))
        self.first_string = base.first_string + len(base.strings) if base else 0
        self.strings = bytearray() if base else bytearray(b"\0")
        self.offsets = dict(base.offsets) if base else {b"": 0}
        self.words = [word for number in needed for word in self.type(number)]

    def type(self, number):
        words = self.btf.types[number - self.btf.first_id]
        name, info = words[0], words[1]
        if kind_of(info) in (STRUCT, UNION) and not self.btf.needed[number]:
            return [self.offset(name), FWD << 24 | (KIND_FLAG if kind_of(info) == UNION else 0), 0]
        new = {"n": self.offset, "t": self.ids.__getitem__, ".": int}
        return [new[role](word) for word, role in zip(words, shape_of(info))]

    def offset(self, old):
        text = self.btf.string(old)
        if text not in self.offsets:
            self.offsets[text] = self.first_string + len(self.strings)
            self.strings += text + b"\0"
        return self.offsets[text]

    def write(self, path):
        types = struct.pack(f"={len(self.words)}I", *self.words)
        header = HEADER.pack(MAGIC, VERSION, 0, HEADER.size, 0, len(types), len(types), len(self.strings))
        path.write_bytes(header + types + self.strings)


def main(directory):
    source, target = pathlib.Path(directory) / "btf", pathlib.Path(directory) / "sys/kernel/btf"
    target.mkdir(parents=True)
    names = set((source / "types").read_bytes().split())
    vmlinux = Btf(source / "vmlinux")
    modules = sorted(path.name for path in source.iterdir() if path.name not in ("vmlinux", "types"))
    split = {name: Btf(source / name, vmlinux) for name in modules}
    for btf in [vmlinux, *split.values()]:
        btf.need(names)
    base = Extract(vmlinux)
    base.write(target / "vmlinux")
    for name, btf in split.items():
        Extract(btf, base).write(target / name)
    shutil.rmtree(source)


main(*sys.argv[1:])
