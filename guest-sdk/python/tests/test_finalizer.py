"""Handles of the host's are freed once, and `weakref.finalize` stays what it was for all others."""

import copy
import gc
import unittest
import weakref
from unittest.mock import patch

from modelhost_guest import _finalizer


def drop(dropped, handle):
    dropped.append(handle)


class Handle:
    """As the bindings make one."""

    def __init__(self, dropped):
        self.finalizer = weakref.finalize(self, _finalizer.drop_resource, dropped, 7)


class FinalizerTest(unittest.TestCase):
    def setUp(self):
        self.dropped = []
        for mocked in (
            patch.object(_finalizer, "drop_resource", drop),
            patch.object(weakref.finalize, "__new__", _finalizer._new, create=True),
        ):
            mocked.start()
            self.addCleanup(mocked.stop)

    def test_a_handle_that_nobody_has_is_freed(self):
        Handle(self.dropped)
        self.assertEqual(self.dropped, [7])

    def test_so_is_one_in_a_circle(self):
        handle = Handle(self.dropped)
        handle.itself = handle
        del handle
        gc.collect()
        self.assertEqual(self.dropped, [7])

    def test_a_detached_one_is_not_and_gives_its_call_once(self):
        handle = Handle(self.dropped)
        _, drop, arguments, _ = handle.finalizer.detach()
        self.assertEqual((drop, arguments), (_finalizer.drop_resource, (self.dropped, 7)))
        self.assertIsNone(handle.finalizer.detach())
        del handle
        self.assertEqual(self.dropped, [])

    def test_the_collector_and_a_release_free_it_once(self):
        class Owner:
            def __del__(self):
                # As the bindings release it.
                if held := self.handle.finalizer.detach():
                    held[1](*held[2])

        for order in (("handle", "owner"), ("owner", "handle")):
            made = {kind: Handle(self.dropped) if kind == "handle" else Owner() for kind in order}
            made["owner"].handle, made["handle"].owner = made["handle"], made["owner"]
            del made
            gc.collect()
        self.assertEqual(self.dropped, [7, 7])

    def test_copies_free_nothing(self):
        handle = Handle(self.dropped)
        copies = [copy.copy(handle.finalizer), copy.deepcopy(handle.finalizer)]
        self.assertEqual([it.detach() for it in copies], [None, None])
        del copies
        self.assertEqual(self.dropped, [])

    def test_others_get_what_they_got(self):
        owner, called = Handle(self.dropped), []

        class Own(weakref.finalize):
            def __init__(self, owner):
                super().__init__(owner, called.append, 2)

        made, own = weakref.finalize(owner, called.append, 1), Own(owner)
        self.assertIs(type(made), weakref.finalize)
        self.assertTrue(made.alive and own.alive)
        del owner
        self.assertEqual((sorted(called), made.alive, made.detach()), ([1, 2], False, None))


if __name__ == "__main__":
    unittest.main()
