"""Protobuf schemas as source texts and in compiled form."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from headwater.sources.kafka.proto import file_set, file_set_of
from headwater.sources.kafka.protobuf import MessageType, message_class

MONEY = 'syntax = "proto3"; package shop; message Money { sint64 cents = 1; }'
ORDER = """
syntax = "proto3";
package shop;
import "shared/money.proto";
import "google/protobuf/timestamp.proto";
option java_package = "com.shop";
message Order {
  reserved 4, 6 to 8;
  Money total = 1 [deprecated = true];
  google.protobuf.Timestamp at = 2;
  map<string, Money> parts = 3;
  oneof how { string card = 9; bool cash = 10; }
}
service Orders { rpc Get (Order) returns (Order); }
"""


def fields_of(files: bytes, message: str) -> list[str]:
    return [field.name for field in message_class(MessageType(files, message)).DESCRIPTOR.fields]


def compiled(name: str, text: str) -> str:
    (file,) = FileDescriptorSet.FromString(file_set([(name, text)])).file
    return base64.b64encode(file.SerializeToString()).decode()


def test_imports_come_as_text_or_compiled() -> None:
    for money in (MONEY, compiled("money.proto", MONEY)):
        files = file_set([("shared/money.proto", money), ("main.proto", ORDER)])
        assert fields_of(files, "shop.Order") == ["total", "at", "parts", "card", "cash"]
        # Records tell a message by its number in the last file.
        assert FileDescriptorSet.FromString(files).file[-1].name == "main.proto", (
            "messages are told by their number in it"
        )
    both = [("shared/money.proto", compiled("money.proto", MONEY)), ("main.proto", compiled_order())]
    assert fields_of(file_set(both), "shop.Order") == ["total", "at", "parts", "card", "cash"]


def compiled_order() -> str:
    files = FileDescriptorSet.FromString(file_set([("shared/money.proto", MONEY), ("main.proto", ORDER)]))
    return base64.b64encode(files.file[-1].SerializeToString()).decode()


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto2"; package p; message M { optional group G = 1 { optional int32 x = 2; } extensions 9; }',
        'edition = "2023"; package p; message M { int32 g = 1; }',
    ],
)
def test_groups_and_editions(text: str) -> None:
    assert fields_of(file_set([("m.proto", text)]), "p.M") == ["g"]


def test_a_file_imports_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "money.proto").write_text(MONEY)
    order = tmp_path / "order.proto"
    order.write_text(ORDER)
    files = file_set_of(order, order.read_bytes())
    assert fields_of(files, "shop.Order") == ["total", "at", "parts", "card", "cash"]
    compiled_set = tmp_path / "order.desc"
    compiled_set.write_bytes(files)
    assert file_set_of(compiled_set, compiled_set.read_bytes()) == files


def test_a_mistake_is_told_with_its_line_and_without_our_folders(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"main\.proto:2:\d+: ") as caught:
        file_set([("main.proto", 'syntax = "proto3";\nmessage M { int32 = 1; }')])
    assert "/" not in str(caught.value).split(":")[0]
    with pytest.raises(ValueError, match=r"nowhere\.proto: File not found"):
        file_set([("main.proto", 'syntax = "proto3"; import "nowhere.proto";')])


@pytest.mark.parametrize("name", ["../out.proto", "/etc/out.proto", "a/../../out.proto", "known", ""])
def test_an_import_never_leaves_its_folder(name: str) -> None:
    with pytest.raises(ValueError, match="no name for a file"):
        file_set([(name, MONEY), ("main.proto", ORDER)])
