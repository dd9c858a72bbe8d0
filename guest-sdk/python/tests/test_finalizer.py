"""Handles of the host's are freed once, and `weakref.finalize` stays what it was for all others."""

import gc
import unittest
import weakref
from unittest.mock import patch

from modelhost_guest import _finalizer


class Handle:
    """As the bindings make one."""

    def __init__(self, dropped):
        self.finalizer = _finalizer.Finalize(self, _finalizer.drop_resource, dropped, 7)


class FinalizerTest(unittest.TestCase):
    def setUp(self):
        self.dropped = []
        mocked = patch.object(_finalizer, "drop_resource", lambda dropped, handle: dropped.append(handle))
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

    def test_others_get_what_they_got(self):
        owner, called = Handle(self.dropped), []
        made = _finalizer.Finalize(owner, called.append, 1)
        self.assertIsInstance(made, weakref.finalize)
        self.assertTrue(made.alive)
        del owner
        self.assertEqual((called, made.alive, made.detach()), ([1], False, None))


if __name__ == "__main__":
    unittest.main()
