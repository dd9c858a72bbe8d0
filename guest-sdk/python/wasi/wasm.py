"""What a WebAssembly module imports, exports and depends on: as much of the binary format as a linker's check needs."""

import pathlib

# Kinds of imports and exports.
FUNCTION, TABLE, MEMORY, GLOBAL, TAG = range(5)
CUSTOM_SECTION, IMPORT_SECTION, EXPORT_SECTION = 0, 2, 7


class Reader:
    """A position in a module's bytes."""

    def __init__(self, content: bytes, at: int = 0) -> None:
        self.content, self.at = content, at

    def byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def number(self) -> int:
        """An unsigned LEB128."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def name(self) -> str:
        length = self.number()
        self.at += length
        return self.content[self.at - length : self.at].decode()

    def skip_limits(self) -> None:
        has_maximum = self.byte() & 1
        self.number()
        if has_maximum:
            self.number()

    def skip_type(self, kind: int) -> None:
        """The type behind an import's kind."""
        if kind == FUNCTION:
            self.number()
        elif kind == TABLE:
            self.byte()
            self.skip_limits()
        elif kind == MEMORY:
            self.skip_limits()
        elif kind == GLOBAL:
            self.at += 2
        else:
            self.byte()
            self.number()


def is_module(content: bytes) -> bool:
    return content[:8] == b"\0asm\1\0\0\0"


def sections(content: bytes):
    """The identifier of each section, and a reader at its start."""
    reader = Reader(content, 8)
    while reader.at < len(content):
        kind = reader.byte()
        length = reader.number()
        yield kind, Reader(content, reader.at)
        reader.at += length


def exports(content: bytes) -> set[str]:
    names = set()
    for kind, reader in sections(content):
        if kind == EXPORT_SECTION:
            for _ in range(reader.number()):
                names.add(reader.name())
                reader.byte()
                reader.number()
    return names


def imports(content: bytes) -> set[str]:
    """The fields that are imported, whatever the module is that they are imported from."""
    names = set()
    for kind, reader in sections(content):
        if kind == IMPORT_SECTION:
            for _ in range(reader.number()):
                reader.name()
                names.add(reader.name())
                reader.skip_type(reader.byte())
    return names


def import_symbols(content: bytes, module: str) -> dict[str, str]:
    """Of each function that is imported from a module whose name starts so, the linker's symbol; the module is not stripped."""
    fields, names = [], {}
    for kind, reader in sections(content):
        if kind == IMPORT_SECTION:
            for _ in range(reader.number()):
                source, field = reader.name(), reader.name()
                what = reader.byte()
                reader.skip_type(what)
                if what == FUNCTION:
                    fields.append((source, field))
        elif kind == CUSTOM_SECTION and reader.name() == "name":
            names |= function_names(reader)
    return {field: names[at] for at, (source, field) in enumerate(fields) if source.startswith(module)}


def function_names(reader: Reader) -> dict[int, str]:
    """The functions' in a section of names, which stand behind the module's own."""
    while True:
        part, length = reader.byte(), reader.number()
        if part == 1:
            break
        reader.at += length
    return {reader.number(): reader.name() for _ in range(reader.number())}


def undefined(module: pathlib.Path, libraries: list[pathlib.Path]) -> list[str]:
    """What a shared library imports, and neither a library beside it nor the loader has."""
    content = module.read_bytes()
    known = {
        "memory", "__indirect_function_table", "__stack_pointer", "__memory_base", "__table_base",
        "__wasm_init_memory",
    }
    known |= exports(content)
    for library in libraries:
        known |= exports(library.read_bytes())
    return sorted(imports(content) - known)
