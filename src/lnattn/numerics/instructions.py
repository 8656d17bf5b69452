"""Instructions of the processor for which numba has no name.

They are written in the compiler's own language, so every processor has them: in one instruction or
in a few. `no_type_check` keeps the tests' shape checker away from what numba compiles.
"""

from __future__ import annotations

from typing import no_type_check

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

#: How many numbers `negatives` looks at.
AT_ONCE = 64


@intrinsic
@no_type_check
def fetch_ahead(_, array, place):
    """Ask for the cache line of array[place], which will be read soon; nobody waits for it.

    array: contiguous, of one axis. A place beyond its end is no error: nothing is read.
    """

    def prefetch(context, builder, signature, arguments):
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        line = builder.bitcast(_place(context, builder, signature, arguments), pointer)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        # To be read (0), into the nearest cache (3), as data (1).
        builder.call(function, [line, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(array, place), prefetch


@intrinsic
@no_type_check
def negatives(_, array, place):
    """Which of array[place : place + 64] are below zero: bit j of the answer is array[place + j].

    array: int32, contiguous, of one axis; all 64 numbers must be there.
    """
    if not (isinstance(array, types.Array) and array.dtype == types.int32 and array.ndim == 1):
        return None

    def signs(context, builder, signature, arguments):
        numbers = ir.VectorType(ir.IntType(32), AT_ONCE)
        first = _place(context, builder, signature, arguments)
        these = builder.load(builder.bitcast(first, numbers.as_pointer()), align=4)
        below = builder.icmp_signed("<", these, ir.Constant(numbers, [0] * AT_ONCE))
        return builder.bitcast(below, ir.IntType(AT_ONCE))

    return types.uint64(array, place), signs


@intrinsic
@no_type_check
def lowest_bit(_, bits):
    """Place of the lowest bit of a uint64 that is set, from 0; `bits` must not be 0."""
    if bits != types.uint64:
        return None

    def count(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(bits), count


@no_type_check
def _place(context, builder, signature, arguments):
    """Pointer to array[place] for an intrinsic of these two arguments."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])
