"""Protobuf schemas as file descriptors: protoc compiles what comes as a source text."""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from headwater.core.extras import require_extra

Files = bytes
"""A serialized FileDescriptorSet: a file after those that it imports."""


def file_set(named: Iterable[tuple[str, str]]) -> Files:
    """The descriptors of texts (source, or compiled and in Base64) in the order of their imports, each with the name it
    goes by; a mistake in one is a ValueError with protoc's words. The decoder calls it once for each schema."""
    descriptors = require_extra("kafka", "google.protobuf.descriptor_pb2")
    known, sources, name = descriptors.FileDescriptorSet(), dict[str, str](), ""
    for name, text in named:
        file = _decompiled(text)
        if file is None:
            sources[name] = text
        else:
            file.name = name
            known.file.append(file)
    if not sources:
        whole: bytes = known.SerializeToString()
        return whole
    with TemporaryDirectory(prefix="headwater-proto-") as made:
        folder = Path(made)
        for source, text in sources.items():
            path = folder / _inside(source)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        arguments = []
        if known.file:
            (folder / "known").write_bytes(known.SerializeToString())
            arguments.append(f"--descriptor_set_in={folder / 'known'}")
        return _compile(folder, name, arguments)


def file_set_of(path: Path, content: bytes) -> Files:
    """The descriptors of a file: a `.proto` with those that it imports from alongside it, else a descriptor set."""
    if path.suffix != ".proto":
        require_extra("kafka", "google.protobuf.descriptor_pb2").FileDescriptorSet.FromString(content)
        return content
    return _compile(path.parent, path.name, [])


def _compile(folder: Path, name: str, arguments: list[str]) -> Files:
    standard = Path(str(require_extra("kafka", "grpc_tools").__file__)).parent / "_proto"
    with TemporaryDirectory(prefix="headwater-proto-") as made:
        out = Path(made) / "files"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={folder}", f"--proto_path={standard}"]
        command += ["--include_imports", f"--descriptor_set_out={out}", *arguments, name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ValueError(done.stderr.replace(f"{folder}/", "").strip() or "protoc can't compile it")
        return out.read_bytes()


def _inside(name: str) -> Path:
    """Where a file of that name lies in the folder that protoc reads; names come from a registry."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.name or name == "known":
        raise ValueError(f"'{name}' is no name for a file that is imported")
    return Path(path)


def _decompiled(text: str) -> Any:
    """The descriptor in a registry's compiled form; None where the text is something else."""
    descriptors = require_extra("kafka", "google.protobuf.descriptor_pb2")
    message = require_extra("kafka", "google.protobuf.message")
    try:
        return descriptors.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, message.DecodeError):
        return None
