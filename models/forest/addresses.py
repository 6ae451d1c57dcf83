"""The trees of a forest by the addresses of their arrays, so that one call reaches all of them.

Handing the arrays of a tree over takes about as long as taking a row out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import numpy as np
from numba import from_dtype, types
from numba.extending import intrinsic
from numba.np import arrayobj

from leaveout.models.forest.layout import NODE, Tree

__all__ = ["Trees", "counts_at", "nodes_at", "used_at", "words_at"]

# It has no types.
_NUMBA: Any = arrayobj


class Trees:
    """The trees of a forest, or some that follow one another.

    Parameters
    ----------
    trees : iterable of Tree
    first : int
        Which tree of the forest the first of them is.

    Attributes
    ----------
    handles : ndarray of int64, shape (trees, 11)
        The addresses of a tree's arrays, its room for nodes, its labels, its room for words of the
        arena, its slots, and which tree of the forest it is.
    """

    def __init__(self, trees: Iterable[Tree], first: int = 0) -> None:
        self._trees = list(trees)
        self._first = first
        self.handles = np.empty((len(self._trees), 11), np.int64)
        for i, tree in enumerate(self._trees):
            self[i] = tree

    def __len__(self) -> int:
        return len(self._trees)

    def __iter__(self) -> Iterator[Tree]:
        return iter(self._trees)

    def __getitem__(self, i: int) -> Tree:
        return self._trees[i]

    def __setitem__(self, i: int, tree: Tree) -> None:
        self._trees[i] = tree
        sizes = (len(tree.nodes), tree.counts.shape[1], len(tree.arena), len(tree.rows))
        self.handles[i] = (*(part.ctypes.data for part in tree), *sizes, self._first + i)


def _array_at(dtype: np.dtype[Any], dimensions: int) -> Callable[[int, tuple[int, ...]], Any]:
    """Return what makes, inside kernels, an array of an address and a shape."""
    kind = types.Array(from_dtype(dtype), dimensions, "C")

    def typed(_context: Any, _address: Any, shape: Any) -> tuple[Any, Callable[..., Any]]:
        return kind(types.int64, shape), code

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        array = _NUMBA.make_array(kind)(context, builder)
        shape = _NUMBA.cgutils.unpack_tuple(builder, arguments[1])
        item = context.get_constant(types.intp, dtype.itemsize)
        strides = [item] if dimensions == 1 else [builder.mul(item, shape[1]), item]
        data = builder.inttoptr(arguments[0], array.data.type)
        # No meminfo: the array does not own its memory.
        _NUMBA.populate_array(array, data, shape, strides, item, None)
        return array._getvalue()

    return cast(Callable[[int, tuple[int, ...]], Any], intrinsic(typed))


nodes_at = _array_at(NODE, 1)
counts_at = _array_at(np.dtype(np.int32), 2)
words_at = _array_at(np.dtype(np.int32), 1)
used_at = _array_at(np.dtype(np.int64), 1)
