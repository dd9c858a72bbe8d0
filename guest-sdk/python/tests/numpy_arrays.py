"""Tensors and numpy's arrays: `python -m unittest numpy_arrays`, where numpy is; on this machine, and inside a component."""

import unittest

import numpy as np
from modelhost_guest import InvalidInput, Response, Signature, Tensor, TensorSpec, models
from modelhost_guest._arrays import fitted
from modelhost_guest._tensor import tensors

NUMBERS = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "INT8": np.int8,
    "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip


def signature(*specs):
    return Signature([TensorSpec(*spec) for spec in specs], [])


class ToArrays(unittest.TestCase):
    def test_numbers_are_views(self):
        for datatype, kind in NUMBERS.items():
            tensor = Tensor([[0, 1, 1], [1, 0, 1]], datatype) if datatype[0] != "F" else Tensor([[0.0, 1.5, -2.0], [1.0, 0.25, 3.0]], datatype)
            for array in (tensor.numpy(), np.asarray(tensor)):
                self.assertEqual((array.dtype, array.shape, array.tolist()), (np.dtype(kind), (2, 3), tensor.tolist()), datatype)
                self.assertTrue(np.shares_memory(array, np.frombuffer(tensor.data, np.uint8)), datatype)
                self.assertFalse(array.flags.writeable)
            row = tensor[1].numpy()
            self.assertEqual((row.tolist(), np.shares_memory(row, array)), (tensor.tolist()[1], True), datatype)

    def test_scalars_and_empty_ones(self):
        self.assertEqual(Tensor(2.5).numpy().shape, ())
        self.assertEqual(Tensor.raw(b"", "FP32", (0, 3)).numpy().shape, (0, 3))

    def test_halves_and_texts(self):
        array = Tensor([1.0, -2.5, 1e30], "BF16").numpy()
        self.assertEqual((array.dtype, array[:2].tolist()), (np.float32, [1.0, -2.5]))
        array = Tensor([["a", "ü"], ["", "b\0"]]).numpy()
        self.assertEqual((array.dtype, array.tolist()), (object, [[b"a", "ü".encode()], [b"", b"b\0"]]))

    def test_types_and_copies_that_are_asked_for(self):
        tensor = Tensor([1.0, 2.0])
        self.assertEqual(np.asarray(tensor, np.float64).dtype, np.float64)
        copy = np.array(tensor)
        copy[0] = 7
        self.assertEqual(tensor.tolist(), [1.0, 2.0])
        with self.assertRaises(ValueError):
            tensor.__array__(np.float64, copy=False)
        self.assertEqual(float(np.sum(tensor)), 3.0)


class OfArrays(unittest.TestCase):
    def test_each_type(self):
        for datatype, kind in NUMBERS.items():
            array = np.array([[0, 1], [1, 0]], kind)
            tensor = Tensor(array, name="x")
            self.assertEqual((tensor.datatype, tensor.shape, tensor.data), (datatype, (2, 2), array.tobytes()), datatype)
            self.assertEqual(Tensor(array.astype(array.dtype.newbyteorder(">"))).data, array.tobytes(), datatype)

    def test_any_layout(self):
        whole = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        for array in (whole[:, ::-1], whole[::-1, :, ::2], whole.T, np.broadcast_to(whole[0, 0], (5, 4)), np.asfortranarray(whole), whole[:0]):
            tensor = Tensor(array)
            self.assertEqual((tensor.shape, tensor.tolist()), (array.shape, array.tolist()))
        tensor = Tensor(whole)
        whole[:] = 0
        self.assertEqual(tensor.tolist()[1][2][3], 23.0, "the tensor is no view of what the handler may change")

    def test_scalars_and_lists_of_arrays(self):
        self.assertEqual((Tensor(np.float32(2)).shape, Tensor(np.float32(2)).datatype), ((), "FP32"))
        tensor = Tensor([np.array([1, 2], np.uint8), np.array([3, 4], np.uint8)])
        self.assertEqual((tensor.shape, tensor.datatype, tensor.tolist()), ((2, 2), "UINT8", [[1, 2], [3, 4]]))
        self.assertEqual(Tensor([np.int64(3), np.int64(4)]).datatype, "INT64")
        with self.assertRaisesRegex(InvalidInput, "rows are not of one length"):
            Tensor([np.zeros(2), np.zeros(3)])

    def test_texts(self):
        for array in (np.array(["a", "ü"]), np.array(["a", "ü"], object), np.array([b"a", "ü".encode()])):
            self.assertEqual((Tensor(array).datatype, Tensor(array).strings()), ("BYTES", ["a", "ü"]))

    def test_conversions(self):
        for array, datatype, expected in [
            (np.array([1.5, 2.0]), "FP32", [1.5, 2.0]),
            (np.array([1.0, 65520.0]), "FP16", [1.0, float("inf")]),
            (np.array([1, 2], np.int8), "INT64", [1, 2]),
            (np.array([0, 1]), "BOOL", [False, True]),
            (np.array([True]), "INT64", [1]),
            (np.array([1.00390625, float("inf")], np.float32), "BF16", [1.0, float("inf")]),
        ]:
            tensor = Tensor(array, datatype)
            self.assertEqual((tensor.datatype, tensor.tolist()), (datatype, expected))
        for array, datatype in [
            (np.array([1.0]), "INT64"), (np.array([300]), "UINT8"), (np.array([-1]), "UINT64"), (np.array([2]), "BOOL"),
            (np.array([True]), "FP32"), (np.array(["1"]), "INT64"),
        ]:  # fmt: skip
            with self.assertRaises(InvalidInput, msg=(array, datatype)):
                Tensor(array, datatype)
        self.assertEqual(Tensor(np.array([np.nan], np.float32), "BF16").data, b"\xc0\x7f")
        values = np.array([0.1, -7.3, 3e38, 1e-40], np.float32)
        self.assertEqual(Tensor(values, "BF16").data, Tensor(values.tolist(), "BF16").data)

    def test_what_is_no_tensor(self):
        for array, error, text in [
            (np.array([1j]), TypeError, "complex128"),
            (np.array(["2026-01-01"], "M8[D]"), TypeError, "datetime64"),
            (np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), TypeError, "is no tensor's"),
            (np.array([object()]), InvalidInput, "objects"),
            (np.ma.array([1.0, 2.0], mask=[0, 1]), TypeError, "masked"),
        ]:
            with self.assertRaisesRegex(error, text):
                Tensor(array)


class Defaults(unittest.TestCase):
    """numpy's own choice of a type."""

    def test_whole_numbers_go_to_a_model_that_takes_int64(self):
        array = np.array([[1, -2]], np.int32)
        for given in (array, {"ids": array}, [Tensor(array, name="ids")], Tensor(array)):
            [tensor] = fitted(tensors(given), lambda: signature(("ids", "INT64", (1, 2))))
            self.assertEqual((tensor.datatype, tensor.tolist()), ("INT64", [[1, -2]]))
        for kept, spec in [(Tensor(array, "INT32"), "INT64"), (Tensor(array), "INT32"), (Tensor([1], "INT32"), "INT64")]:
            self.assertEqual(fitted([kept], lambda spec=spec: signature(("ids", spec, (1, 2))))[0].datatype, "INT32")
        two = fitted(tensors({"a": array, "b": array}), lambda: signature(("a", "INT64", ()), ("b", "INT32", ())))
        self.assertEqual([it.datatype for it in two], ["INT64", "INT32"])

    def test_float64_is_told_of(self):
        with self.assertRaisesRegex(TypeError, r"input `x` of the model takes FP32, .*`dtype=np.float32`"):
            fitted(tensors({"x": np.array([1.0])}), lambda: signature(("x", "FP32", (1,))))
        [kept] = fitted(tensors({"x": np.array([1.0])}), lambda: signature(("x", "FP64", (1,))))
        self.assertEqual(kept.datatype, "FP64")

    def test_the_signature_is_asked_for_only_then(self):
        given = tensors([np.zeros(2, np.float32), Tensor([1], "INT32")])
        self.assertIs(fitted(given, lambda: self.fail("asked")), given)

    def test_a_model_takes_arrays_by_name(self):
        seen = []
        models.answer_with({"m": lambda inputs: seen.extend(inputs) or {"y": inputs["a"].numpy() * 2}})
        try:
            outputs = models.infer(a=np.array([1.5], np.float32), b=[[1, 2]])
            self.assertEqual([(it.name, it.datatype, it.shape) for it in seen], [("a", "FP32", (1,)), ("b", "INT64", (1, 2))])
            self.assertEqual(np.asarray(outputs["y"]).tolist(), [3.0])
            with self.assertRaises(TypeError):
                models.infer(np.zeros(1), b=1)
        finally:
            models.answer_with(None)


class Answers(unittest.TestCase):
    def test_arrays_and_scalars_are_json(self):
        body = Response(json={"a": np.array([[1.5, np.nan]]), "b": np.int64(3), "c": np.float32(0.5), "d": np.bool_(True)}).body
        self.assertEqual(bytes(body), b'{"a":[[1.5,null]],"b":3,"c":0.5,"d":true}')


if __name__ == "__main__":
    unittest.main()
