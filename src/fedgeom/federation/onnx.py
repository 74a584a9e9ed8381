"""Models as ONNX files: the same numbers, for programs that know nothing of fedgeom.

Steps of preparation (`Step.onnx`) and models (`Model.onnx_scores`) add what they compute to a `Graph`. It computes in
double precision, as they do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError

OPSET = 18
ML_OPSET = 3
ML = "ai.onnx.ml"
"""The operators for text and tables; all runtimes have them."""


class Graph:
    """What an ONNX file computes, while it is put together; values have names."""

    def __init__(self) -> None:
        try:
            import onnx  # an extra
        except ImportError as error:
            raise InputError('ONNX files need the extra onnx: pip install "fedgeom[onnx]"') from error
        self.onnx = onnx
        self.inputs: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"value_{self._count}"

    def input(self, name: str, width: int, *, text: bool = False) -> str:
        """Add an input of rows, (rows, width), of numbers or of text."""
        kind = self.onnx.TensorProto.STRING if text else self.onnx.TensorProto.DOUBLE
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, ["rows", width]))
        return name

    def constant(self, values: npt.ArrayLike) -> str:
        """Add an array that never changes: numbers in double precision, all else as it is."""
        array = np.asarray(values)
        array = array.astype(object) if array.dtype.kind == "U" else array
        array = array.astype(np.float64) if array.dtype.kind == "f" else array
        name = self._name()
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator over named values, and return the name of what it yields."""
        name = self._name()
        node = self.onnx.helper.make_node(operator, list(inputs), [name], domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def columns(self, rows: str, places: npt.ArrayLike) -> str:
        """Return some columns of rows, by their numbers."""
        return self.add("Gather", rows, self.constant(np.asarray(places, np.int64)), axis=1)

    def beside(self, *parts: str) -> str:
        """Return columns side by side."""
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=1)

    def affine(self, rows: str, weights: npt.ArrayLike, shift: npt.ArrayLike) -> str:
        """Return rows·weights + shift."""
        turned = self.add("MatMul", rows, self.constant(np.asarray(weights, np.float64)))
        return self.add("Add", turned, self.constant(np.asarray(shift, np.float64)))

    def as_numbers(self, values: str) -> str:
        """Return truths or single numbers in double precision."""
        return self.add("Cast", values, to=self.onnx.TensorProto.DOUBLE)

    def codes(self, words: str, known: tuple[str, ...], rest: float) -> str:
        """Return the number of each word among those that are known, (rows, 1); ``rest`` for all others."""
        found = self.add(
            "LabelEncoder",
            words,
            domain=ML,
            keys_strings=list(known),
            values_floats=[float(at) for at in range(len(known))],
            default_float=rest,
        )
        return self.as_numbers(found)

    def to_bytes(self, scores: str, classes: npt.NDArray[Any], about: str) -> bytes:
        """Return the file: it gives the ``label`` and the ``probabilities`` that follow from scores of classes."""
        helper = self.onnx.helper
        best = self.add("ArgMax", scores, axis=1, keepdims=0)
        self.nodes.append(helper.make_node("Gather", [self.constant(classes), best], ["label"], axis=0))
        self.nodes.append(helper.make_node("Softmax", [scores], ["probabilities"], axis=1))
        proto = self.onnx.TensorProto
        kind = {"i": proto.INT64, "b": proto.BOOL, "f": proto.DOUBLE}.get(classes.dtype.kind, proto.STRING)
        outputs = [
            helper.make_tensor_value_info("label", kind, ["rows"]),
            helper.make_tensor_value_info("probabilities", proto.DOUBLE, ["rows", len(classes)]),
        ]
        graph = helper.make_graph(self.nodes, "fedgeom", self.inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=9, producer_name="fedgeom", doc_string=about
        )
        self.onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))
