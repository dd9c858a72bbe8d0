"""Containers without a host, and Potassium's store in S3."""

import unittest
from contextlib import nullcontext
from types import SimpleNamespace

from modelhost_guest import BlobError, blobs
from modelhost_guest.store import S3Config, Store


class BlobsTest(unittest.TestCase):
    def setUp(self):
        blobs.forget()
        self.container = blobs.open()

    def test_objects_are_kept_by_container(self):
        self.container.set("k/1", "0123456789")
        self.assertEqual(blobs.open("default").get("k/1"), b"0123456789")
        self.assertIsNone(blobs.open("other").get("k/1"))
        self.assertIsNone(self.container.get("none"))
        for start, end, expected in [(2, 4, b"23"), (8, 99, b"89"), (5, 5, b""), (99, 100, b"")]:
            self.assertEqual(self.container.get_range("k/1", start, end), expected)
        self.assertIsNone(self.container.get_range("none", 5, 5))
        self.assertEqual(self.container.info("k/1").size, 10)
        self.assertIsNone(self.container.info("none"))
        self.container.set("k/2", b"x")
        self.assertEqual((self.container.names(), self.container.names(most=1)), (["k/1", "k/2"], ["k/1"]))
        self.container.delete("k/1")
        self.container.delete("k/1")
        self.assertEqual(self.container.names(), ["k/2"])
        self.container.clear()
        self.assertEqual(self.container.names(), [])

    def test_an_object_is_there_when_it_has_ended(self):
        with self.container.writer("k") as writer:
            writer.write("ab")
            self.assertIsNone(self.container.get("k"))
            writer.write(b"c")
        with self.container.reader("k") as reader:
            self.assertEqual((reader.size, reader.read(2), reader.read(), reader.read(1)), (3, b"ab", b"c", b""))
        with self.assertRaises(KeyError):
            with self.container.writer("k") as writer:
                writer.write("half")
                raise KeyError
        self.assertEqual(self.container.get("k"), b"abc")

    def test_what_is_written_is_copied_once(self):
        copied = []

        class Content(bytes):
            def __getitem__(self, at):
                copied.append(at)
                return super().__getitem__(at)

        class Stream:
            rooms, written = [0, 300_000, 5, 1 << 20] * 2, []

            def check_write(self):
                return self.rooms.pop(0)

            def subscribe(self):
                return nullcontext(SimpleNamespace(block=lambda: None))

            def write(self, piece):
                assert type(piece) is bytes
                self.written.append(piece)

        content = Content(bytes(range(256)) * 3000)
        blobs._Output(None, Stream()).write(content)
        self.assertEqual(([len(it) for it in Stream.written], b"".join(Stream.written)), ([262144, 5, 262144, 243707], content))
        self.assertEqual(copied, [])

    def test_what_cannot_be_used_is_refused(self):
        with self.assertRaisesRegex(BlobError, "a name of 0 bytes, expected 1 to 512"):
            self.container.set("", b"")
        with self.assertRaisesRegex(TypeError, "bytes or a text, and not int"):
            self.container.set("k", 1)

    def test_potassiums_store(self):
        for encoding, value in [("json", {"a": [1, None]}), ("pickle", {1: (2, b"x")})]:
            store = Store(backend="s3", config=S3Config(keys=("id", "key"), bucket="b", encoding=encoding))
            store.set(encoding, value, ttl=1)
            self.assertEqual((store.get(encoding), store.get("none")), (value, None))
        self.assertEqual(blobs.open().names(), ["json", "pickle"])
        with self.assertRaisesRegex(BlobError, "the object `json`"):
            Store(backend="s3", config=S3Config(encoding="pickle")).get("json")


if __name__ == "__main__":
    unittest.main()
