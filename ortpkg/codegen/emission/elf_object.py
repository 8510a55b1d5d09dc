"""Links one relocatable ELF object into a block of position-independent code.

Objects are emitted as ELF for every operating system, so that one format is read. Text and
read-only data come to lie in one block, which is right wherever it is mapped, as long as that is at
the start of a page: relocations within it are resolved here, and nothing else is allowed, so that
no code calls what is not in the block.

Source: System V ABI (ELF-64), its supplements for x86-64 and AArch64.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from ortpkg.ep_names import LLVM_EP
from ortpkg.errors import CompileError

_EM_X86_64, _EM_AARCH64 = 62, 183
_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS = 2, 4, 8
_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR = 1, 2, 4
_SHN_UNDEF = 0
_STT_SECTION = 3
_R_X86_64_PC32, _R_X86_64_PLT32 = 2, 4
_R_AARCH64_ADR_PREL_PG_HI21, _R_AARCH64_ADD_ABS_LO12_NC = 275, 277
#: Loads and stores of 1, 2, 4, 8 and 16 bytes: how far the offset within a page is shifted.
_AARCH64_LOADS = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
_AARCH64_BRANCHES = {282, 283}
_PAGE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedCode:
    """A block of code: its bytes, and where its functions begin."""

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
    """The object's code and read-only data as one block.

    Raises CompileError where the object needs something from outside of it, has data that is
    written, or a relocation that this linker does not know.
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
        self._places: dict[int, int] = {}

    def link(self) -> LinkedCode:
        block = bytearray()
        ordered = sorted(
            (index for index, each in enumerate(self._sections) if self._is_kept(each)),
            key=lambda index: not self._sections[index].flags & _SHF_EXECINSTR,
        )
        for index in ordered:
            section = self._sections[index]
            block += bytes(-len(block) % max(section.alignment, 1))
            self._places[index] = len(block)
            block += self._data[section.offset : section.offset + section.nbytes]
        for section in self._sections:
            if section.kind == _SHT_RELA and section.info in self._places:
                self._relocate(block, section)
        functions = {
            symbol.name: self._places[symbol.section] + symbol.value
            for symbol in self._symbols
            if symbol.is_global and symbol.section in self._places
        }
        return LinkedCode(data=bytes(block), functions=functions)

    @staticmethod
    def _is_kept(section: _Section) -> bool:
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
        table = next(each for each in self._sections if each.kind == _SHT_SYMTAB)
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
        base = self._places[section.info]
        for offset in range(section.offset, section.offset + section.nbytes, 24):
            place, info, addend = struct.unpack_from("<QQq", self._data, offset)
            symbol = self._symbols[info >> 32]
            if symbol.section == _SHN_UNDEF or symbol.section not in self._places:
                raise _fault(
                    f"the compiled code needs {symbol.name or 'something'}, which is not part of it"
                )
            target = self._places[symbol.section] + symbol.value + addend
            self._apply(block, info & 0xFFFFFFFF, base + place, target)

    def _apply(self, block: bytearray, kind: int, place: int, target: int) -> None:
        if self._machine == _EM_X86_64 and kind in {_R_X86_64_PC32, _R_X86_64_PLT32}:
            struct.pack_into("<i", block, place, target - place)
            return
        if self._machine != _EM_AARCH64:
            raise _fault(f"relocation {kind} of machine {self._machine} is not known")
        (word,) = struct.unpack_from("<I", block, place)
        if kind == _R_AARCH64_ADR_PREL_PG_HI21:
            pages = (target // _PAGE - place // _PAGE) & 0x1FFFFF
            word |= (pages & 3) << 29 | (pages >> 2) << 5
        elif kind == _R_AARCH64_ADD_ABS_LO12_NC:
            word |= (target % _PAGE) << 10
        elif kind in _AARCH64_LOADS:
            word |= (target % _PAGE >> _AARCH64_LOADS[kind]) << 10
        elif kind in _AARCH64_BRANCHES:
            word |= (target - place) // 4 & 0x3FFFFFF
        else:
            raise _fault(f"relocation {kind} of AArch64 is not known")
        struct.pack_into("<I", block, place, word)
