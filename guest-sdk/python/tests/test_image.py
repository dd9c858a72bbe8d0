"""Pictures without a library."""

import unittest

from modelhost_guest import ImageError, InvalidInput, Tensor, image


class Pictures(unittest.TestCase):
    def tearDown(self):
        image.answer_with(None)

    def test_a_picture_is_what_the_test_says(self):
        with self.assertRaisesRegex(RuntimeError, "answer_with"):
            image.prepare(b"file")
        image.answer_with(lambda file: image.Picture(Tensor([[[[len(file)]]]], "UINT8"), 3, 2))
        picture = image.prepare(b"file", 1, datatype="UINT8")
        self.assertEqual((picture.tensor.tolist(), picture.width, picture.height), ([[[[4]]]], 3, 2))
        self.assertEqual(image.tensor(b"fi", (1, 1)).shape, (1, 1, 1, 1))

    def test_what_is_said_wrongly_is_told(self):
        for wrong in ({"fit": "crop"}, {"filter": "cubic"}, {"datatype": "FP64"}, {"layout": "CHW"}):
            with self.assertRaisesRegex(ValueError, "is none of"):
                image.prepare(b"file", **wrong)

    def test_a_file_that_is_no_picture_is_the_callers(self):
        self.assertIsInstance(ImageError("invalid", "broken"), InvalidInput)
