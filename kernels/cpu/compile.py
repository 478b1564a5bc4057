"""From a kernel written in Python to machine code in an object file.

A kernel is `kernel(args, step, thread, threads)`: two Pointers to int64 words and two integers,
no result, no exceptions, no allocation. Numba turns it into LLVM IR; the C entry point is added
here, everything else becomes private, and llvmlite emits an object that needs nothing of Numba.

Imported only when something has to be compiled.
"""

import types as python_types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import binding
from numba import config, njit
from numba.core import types
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.registry import cpu_target

from edgellm.errors import BackendError
from edgellm.kernels.cpu import simd, vectors
from edgellm.kernels.cpu.isa import host_isa
from edgellm.kernels.formats import codebook, scalar
from edgellm.kernels.formats.words import Table

_WORDS = vectors.Pointer(types.int64)
SIGNATURE = (_WORDS, _WORDS, types.int64, types.int64)
OPTIONS = {
    "error_model": "numpy",
    "boundscheck": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}
RAISED = "edgellm_kernel_raised"
# What format files may call, and the instruction that does it.
_REPLACEMENTS: dict[Any, Any] = {
    scalar.half: simd.half_bytes,
    **({codebook.translate8: simd.translate8} if host_isa().has_avx2 else {}),
}
# Functions of the C library that compiled code may call.
_ALLOWED_SYMBOLS = {"memset", "memcpy", "memmove", "sin", "cos", "sincos", "exp", "log1p"}


def jit_tree(function: Callable[..., Any]) -> Any:
    """`function` and the plain Python functions that it calls, compilable by Numba.

    Formats are written without Numba: a global that is a plain function or a table is replaced
    in a copy of the function.
    """
    scope = dict(function.__globals__)
    for name in set(function.__code__.co_names) & scope.keys():
        scope[name] = _compilable(scope[name])
    copy = python_types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    return njit(**OPTIONS)(copy)


def _compilable(value: Any) -> Any:
    if isinstance(value, Table):
        return value.array
    if not isinstance(value, python_types.FunctionType):
        return value
    return _REPLACEMENTS[value] if value in _REPLACEMENTS else jit_tree(value)


def kernel_object(name: str, kernel: Callable[..., None]) -> bytes:
    """Machine code of `kernel` for this processor, with the single public symbol `name`."""
    machine = target_machine()
    return bytes(machine.emit_object(kernel_module(name, kernel, machine)))


def kernel_module(name: str, kernel: Callable[..., None], machine: Any) -> Any:
    """What the machine code of `kernel` is made from: an LLVM module, optimised for `machine`."""
    dispatcher = njit(**OPTIONS)(kernel)
    with _plain_code():
        dispatcher.compile(SIGNATURE)
    compiled = dispatcher.overloads[SIGNATURE]
    inner = compiled.fndesc.llvm_func_name
    text = compiled.library.get_llvm_str() + _entry_point(name, inner)
    module = binding.parse_assembly(text)
    for function in module.functions:
        if not function.is_declaration and function.name != name:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    # Brings addresses near their use, of which the optimiser makes code that is 2 % faster.
    machine.emit_object(module)
    _optimise(module, machine)
    _check_symbols(name, module)
    return module


class _Code(CPUCodeLibrary):  # type: ignore[misc]
    """What Numba makes of a function, never run as it is."""

    def _finalize_specific(self) -> None:
        pass

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()  # which brings in the code of what it calls
        return 0


class _Codegen(JITCPUCodegen):  # type: ignore[misc]
    _library_class = _Code

    def _add_module(self, module: Any) -> None:
        pass

    def set_env(self, env_name: str, env: Any) -> None:
        pass


@contextmanager
def _plain_code() -> Iterator[None]:
    """Numba emits LLVM IR alone: it is optimised and made machine code once, here."""
    context = cpu_target.target_context
    level, codegen = config.OPT, context._internal_codegen
    config.OPT, context._internal_codegen = config._OptLevel(0), _Codegen("edgellm")
    try:
        yield
    finally:
        config.OPT, context._internal_codegen = level, codegen


def _entry_point(name: str, inner: str) -> str:
    """IR of the C function that calls Numba's, and would tell of an exception.

    The optimiser removes what cannot happen: where `RAISED` is left, the kernel can raise.
    """
    return f"""
declare void @{RAISED}()
define void @{name}(ptr %args, ptr %step, i64 %thread, i64 %threads) {{
  %result = alloca ptr
  %error = alloca ptr
  %status = call i32 @{inner}(ptr %result, ptr %error, ptr %args, ptr %step, i64 %thread, i64 %threads)
  %is_fine = icmp eq i32 %status, 0
  br i1 %is_fine, label %done, label %raised
raised:
  call void @{RAISED}()
  br label %done
done:
  ret void
}}
"""  # noqa: E501


def target_machine() -> Any:
    """Code generator for this processor; objects may be loaded anywhere in memory."""
    isa = host_isa()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=isa.cpu, features=isa.features, opt=3, reloc="pic", codemodel="default", jit=True
    )


def _optimise(module: Any, machine: Any) -> None:
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def _check_symbols(name: str, module: Any) -> None:
    """Refuses a kernel that could raise, allocate or call into Python."""
    for function in module.functions:
        if function.name == RAISED:
            raise BackendError(f"kernel {name} can raise an exception: kernels must not")
        known = function.name.startswith("llvm.") or function.name in _ALLOWED_SYMBOLS
        if function.is_declaration and not known:
            raise BackendError(
                f"kernel {name} calls {function.name}: kernels are plain C functions"
            )
