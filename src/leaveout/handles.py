"""Records of arrays passed to kernels as one address.

Numba passes each array of a tuple as seven numbers and counts references to each: with some fifty
arrays, compiling that takes most of a minute. A handle is the address of a list of words, which
say where a record's arrays lie; a kernel loads a field where it is used. All arrays are in C order,
and their owner must outlive the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.np import arrayobj
from numpy.typing import NDArray


class _Field(NamedTuple):
    place: int  # of the array's address among the words; its shape follows
    dtype: np.dtype[Any]
    ndim: int

    @property
    def type(self) -> Any:
        return types.Array(from_dtype(self.dtype), self.ndim, "C")


class _Handle(types.Type):
    """The address of a record's words."""

    def __init__(self, record: type) -> None:
        self.fields: dict[str, _Field] = {}
        self.words = 0
        for name, hint in get_type_hints(record, include_extras=True).items():
            array, *extra = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            dtype = next((e for e in extra if isinstance(e, np.dtype)), None)
            ndim = next((e for e in extra if isinstance(e, int)), 1)
            if dtype is None:
                dtype = np.dtype(get_args(get_args(array)[1])[0])
            self.fields[name] = _Field(self.words, dtype, ndim)
            self.words += 1 + ndim
        super().__init__(f"Handle({record.__module__}.{record.__name__})")


register_model(_Handle)(models.OpaqueModel)


@infer_getattr
class _Fields(AttributeTemplate):
    key = _Handle

    def generic_resolve(self, value: Any, attr: str) -> Any:  # type: ignore[override]
        field = value.fields.get(attr)
        return None if field is None else field.type


@lower_getattr_generic(_Handle)  # type: ignore[untyped-decorator, no-untyped-call]
def _load(context: Any, builder: Any, handle: _Handle, value: Any, name: str) -> Any:
    """Return an array that borrows a field's memory."""
    place, kind = handle.fields[name].place, handle.fields[name].type
    words = builder.bitcast(value, ir.IntType(64).as_pointer())
    constant = builder.module.add_metadata([])

    def word(i: int) -> Any:
        out = builder.load(builder.gep(words, [ir.IntType(64)(i)]))
        out.set_metadata("invariant.load", constant)
        return out

    array = context.make_array(kind)(context, builder)
    shape = [word(place + 1 + i) for i in range(kind.ndim)]
    size = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))
    )
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.inttoptr(word(place), array.data.type)
    arrayobj.populate_array(array, data, shape, strides, size, None)  # type: ignore[no-untyped-call]
    return array._getvalue()


class Handle:
    """How a kind of record, a named tuple of arrays, is passed to kernels.

    Fields are annotated with their array type, of one dimension unless ``Annotated`` with the
    number, or with a structured type.
    """

    def __init__(self, record: type) -> None:
        self._kind = kind = _Handle(record)
        self.length = kind.words

        def locate(_typing: Any, words: Any, start: Any) -> tuple[Any, Callable[..., Any]]:
            def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                array = context.make_array(words)(context, builder, arguments[0])
                at = builder.gep(array.data, [arguments[1]])
                return builder.bitcast(at, context.get_value_type(kind))

            return kind(words, types.intp), cast

        self.at: Any = intrinsic(locate)
        """Return the record whose words begin at a place, in a kernel."""

    def words(self, record: Any) -> NDArray[np.int64]:
        """Return a record's words: each array's address and shape."""
        out: list[int] = []
        for (name, field), array in zip(self._kind.fields.items(), record, strict=True):
            alike = array.dtype == field.dtype and array.ndim == field.ndim
            if not (alike and array.flags.c_contiguous):
                raise TypeError(f"{type(record).__name__}.{name} must be {field.type}")
            out += (array.ctypes.data, *array.shape)
        return np.array(out, np.int64)
