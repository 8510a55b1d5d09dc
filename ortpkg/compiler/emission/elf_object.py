"""Links one relocatable ELF object into a block of position-independent code.

Objects are emitted as ELF for every operating system, so that there is one format to read. Code and
read-only data form one block, which runs wherever it is mapped, if at the start of a page.
Relocations within the block are resolved here and no others are allowed, so no code can call
anything outside the block.

Source: System V ABI (ELF-64), its supplements for x86-64 and AArch64.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import CompileError

_EM_X86_64, _EM_AARCH64 = 62, 183
_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS = 2, 4, 8
_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR = 1, 2, 4
_SHN_UNDEF = 0
_STT_SECTION = 3
_R_X86_64_PC32, _R_X86_64_PLT32 = 2, 4
_R_AARCH64_ADR_PREL_PG_HI21, _R_AARCH64_ADD_ABS_LO12_NC = 275, 277
#: Relocations of loads and stores of 1, 2, 4, 8 and 16 bytes → right shift of the page offset.
_AARCH64_LOADS = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
_AARCH64_BRANCHES = {282, 283}
_PAGE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedCode:
    """A block of code: its bytes, and the offsets of its functions by name."""

    data: bytes
    functions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    nbytes: int
    link: int
    info: int
    alignment: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    value: int
    is_global: bool


def link_object(data: bytes) -> LinkedCode:
    """Return the object's code and read-only data as one block.

    Raises:
        CompileError: if the object needs something outside itself, has writable data, or a
            relocation
            that this linker does not know.
    """
    return _Linker(data).link()


def _fault(message: str) -> CompileError:
    return CompileError(message, ep_name=LLVM_EP)


class _Linker:
    def __init__(self, data: bytes) -> None:
        self._data = data
        if data[:6] != b"\x7fELF\x02\x01":
            raise _fault("LLVM emitted no little-endian ELF-64 object")
        self._machine = struct.unpack_from("<H", data, 18)[0]
        self._sections = self._read_sections()
        self._symbols = self._read_symbols()
        self._offsets: dict[int, int] = {}

    def link(self) -> LinkedCode:
        block = bytearray()
        ordered = sorted(
            (index for index, candidate in enumerate(self._sections) if self._is_linked(candidate)),
            key=lambda index: not self._sections[index].flags & _SHF_EXECINSTR,
        )
        for index in ordered:
            section = self._sections[index]
            block += bytes(-len(block) % max(section.alignment, 1))
            self._offsets[index] = len(block)
            block += self._data[section.offset : section.offset + section.nbytes]
        for section in self._sections:
            if section.kind == _SHT_RELA and section.info in self._offsets:
                self._relocate(block, section)
        functions = {
            symbol.name: self._offsets[symbol.section] + symbol.value
            for symbol in self._symbols
            if symbol.is_global and symbol.section in self._offsets
        }
        return LinkedCode(data=bytes(block), functions=functions)

    @staticmethod
    def _is_linked(section: _Section) -> bool:
        if not section.flags & _SHF_ALLOC or section.name.startswith((".eh_frame", ".note")):
            return False
        if (section.flags & _SHF_WRITE or section.kind == _SHT_NOBITS) and section.nbytes:
            raise _fault(f"the compiled code has data that is written ({section.name})")
        return section.nbytes > 0

    def _read_sections(self) -> list[_Section]:
        (table,) = struct.unpack_from("<Q", self._data, 40)
        size, count, names = struct.unpack_from("<HHH", self._data, 58)
        raw = [
            struct.unpack_from("<IIQQQQIIQQ", self._data, table + size * index)
            for index in range(count)
        ]
        name_table = raw[names][4]
        return [
            _Section(
                name=self._text(name_table + name),
                kind=kind,
                flags=flags,
                offset=offset,
                nbytes=nbytes,
                link=link,
                info=info,
                alignment=alignment,
            )
            for name, kind, flags, _, offset, nbytes, link, info, alignment, _ in raw
        ]

    def _read_symbols(self) -> list[_Symbol]:
        table = next(candidate for candidate in self._sections if candidate.kind == _SHT_SYMTAB)
        names = self._sections[table.link].offset
        symbols = []
        for offset in range(table.offset, table.offset + table.nbytes, 24):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", self._data, offset)
            is_global = info >> 4 != 0 and info & 15 != _STT_SECTION
            symbols.append(_Symbol(self._text(names + name), section, value, is_global))
        return symbols

    def _text(self, offset: int) -> str:
        return self._data[offset : self._data.index(0, offset)].decode()

    def _relocate(self, block: bytearray, section: _Section) -> None:
        base = self._offsets[section.info]
        for offset in range(section.offset, section.offset + section.nbytes, 24):
            relative_offset, info, addend = struct.unpack_from("<QQq", self._data, offset)
            symbol = self._symbols[info >> 32]
            if symbol.section == _SHN_UNDEF or symbol.section not in self._offsets:
                raise _fault(
                    f"the compiled code needs {symbol.name or 'something'}, which is not part of it"
                )
            target = self._offsets[symbol.section] + symbol.value + addend
            self._apply(block, info & 0xFFFFFFFF, base + relative_offset, target)

    def _apply(self, block: bytearray, kind: int, offset: int, target: int) -> None:
        if self._machine == _EM_X86_64 and kind in {_R_X86_64_PC32, _R_X86_64_PLT32}:
            struct.pack_into("<i", block, offset, target - offset)
            return
        if self._machine != _EM_AARCH64:
            raise _fault(f"relocation {kind} of machine {self._machine} is not known")
        (word,) = struct.unpack_from("<I", block, offset)
        if kind == _R_AARCH64_ADR_PREL_PG_HI21:
            pages = (target // _PAGE - offset // _PAGE) & 0x1FFFFF
            word |= (pages & 3) << 29 | (pages >> 2) << 5
        elif kind == _R_AARCH64_ADD_ABS_LO12_NC:
            word |= (target % _PAGE) << 10
        elif kind in _AARCH64_LOADS:
            word |= (target % _PAGE >> _AARCH64_LOADS[kind]) << 10
        elif kind in _AARCH64_BRANCHES:
            word |= (target - offset) // 4 & 0x3FFFFFF
        else:
            raise _fault(f"relocation {kind} of AArch64 is not known")
        struct.pack_into("<I", block, offset, word)
