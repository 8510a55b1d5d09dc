"""What programs do wrong, as functions that do it with any module that has onnxruntime's names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.interop.python_api.behaviour import CPU, MUL, X, bytes_of, model_of, native, session_of

Mistake = Callable[[Any, Path], Any]

RELU = "g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }"
TWO = "g (float[2] a, float[2] b) => (float[2] s, float[2] p) { s = Add(a, b)  p = Mul(a, b) }"
ROW = np.ones((1, 2), np.float32)

#: Name of the mistake → what makes it.
MISTAKES: dict[str, Mistake] = {}


def mistake(name: str) -> Callable[[Mistake], Mistake]:
    def add(make: Mistake) -> Mistake:
        MISTAKES[name] = make
        return make

    return add


def _add(**made: Mistake) -> None:
    MISTAKES.update({name.replace("_", " "): make for name, make in made.items()})


# --- models ---------------------------------------------------------------------------------------


def _file(content: bytes, name: str = "m.onnx") -> Mistake:
    def make(ort: Any, folder: Path) -> Any:
        (folder / name).write_bytes(content)
        return ort.InferenceSession(str(folder / name), providers=CPU)

    return make


def _model(change: Callable[[onnx.ModelProto], object], text: str = MUL) -> Mistake:
    def make(ort: Any, folder: Path) -> Any:
        model = model_of(text)
        change(model)
        return ort.InferenceSession(model.SerializeToString(), providers=CPU)

    return make


def _text(text: str, **options: Any) -> Mistake:
    return lambda ort, folder: session_of(ort, text, **options)


def _external(location: str, content: bytes | None) -> Mistake:
    def make(ort: Any, folder: Path) -> Any:
        model = model_of(MUL)
        (weight,) = model.graph.initializer
        weight.CopyFrom(
            TensorProto(name="w", data_type=1, dims=[3, 2], data_location=TensorProto.EXTERNAL)
        )
        for key, value in {"location": location, "offset": "0", "length": "24"}.items():
            weight.external_data.add(key=key, value=value)
        (folder / "m.onnx").write_bytes(model.SerializeToString())
        if content is not None:
            (folder / location).write_bytes(content)
        return ort.InferenceSession(str(folder / "m.onnx"), providers=CPU)

    return make


def _loop(model: onnx.ModelProto) -> None:
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("Add", ["x", "b"], ["a"]))
    model.graph.node.append(helper.make_node("Add", ["x", "a"], ["b"]))
    model.graph.node.append(helper.make_node("Add", ["a", "b"], ["y"]))


def _no_graph(model: onnx.ModelProto) -> None:
    model.ClearField("graph")


_add(
    a_missing_file=lambda ort, folder: ort.InferenceSession(
        str(folder / "absent.onnx"), providers=CPU
    ),
    a_missing_folder=lambda ort, folder: ort.InferenceSession(
        str(folder / "no" / "m.onnx"), providers=CPU
    ),
    a_folder_for_a_model=lambda ort, folder: ort.InferenceSession(str(folder), providers=CPU),
    an_empty_path=lambda ort, folder: ort.InferenceSession("", providers=CPU),
    a_number_for_a_model=lambda ort, folder: ort.InferenceSession(3, providers=CPU),
    no_model=lambda ort, folder: ort.InferenceSession(None, providers=CPU),
    no_bytes=lambda ort, folder: ort.InferenceSession(b"", providers=CPU),
    an_empty_file=_file(b""),
    a_file_of_text=_file(b"this is no model, but a text\n" * 20),
    a_file_cut_short=_file(bytes_of(MUL)[:-30]),
    bytes_that_are_no_model=lambda ort, folder: ort.InferenceSession(b"abcdefgh", providers=CPU),
    a_model_without_a_graph=_model(_no_graph),
    a_model_without_an_opset=_model(lambda model: model.ClearField("opset_import")),
    an_opset_of_the_future=_model(lambda model: setattr(model.opset_import[0], "version", 999)),
    an_unknown_domain=_text(
        "g (float[2] x) => (float[2] y) { y = foreign.Op(x) }", domains=', "foreign" : 1'
    ),
    an_unknown_operator=_text("g (float[2] x) => (float[2] y) { y = Foo(x) }"),
    an_input_that_nothing_makes=_text("g (float[2] x) => (float[2] y) { y = Relu(z) }"),
    an_output_that_nothing_makes=_text("g (float[2] x) => (float[2] y) { z = Relu(x) }"),
    a_value_made_twice=_text("g (float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }"),
    two_types_for_one=_text("g (float[2] x, int64[2] z) => (float[2] y) { y = Add(x, z) }"),
    a_wrong_type_of_an_output=_text("g (float[2] x) => (int64[2] y) { y = Relu(x) }"),
    a_cycle=_model(_loop),
    too_many_inputs=_text("g (float[2] x) => (float[2] y) { y = Relu(x, x) }"),
    too_few_inputs=_text("g (float[2] x) => (float[2] y) { y = Add(x) }"),
    an_unknown_attribute=_text("g (float[2] x) => (float[2] y) { y = Relu <foo = 1> (x) }"),
    a_missing_attribute=_text("g (float[2] x) => (float[2] y) { y = Cast(x) }"),
    an_attribute_of_a_wrong_type=_text(
        'g (float[2] x) => (float[2] y) { y = LeakyRelu <alpha = "a"> (x) }'
    ),
    a_type_without_a_kernel=_text("g (complex64[2] x) => (complex64[2] y) { y = Relu(x) }"),
    matrices_that_do_not_fit=_text(
        "g (float[2,3] x) => (float[2,4] y) <float[2,4] w = {1,2,3,4,5,6,7,8}> { y = MatMul(x, w) }"
    ),
    absent_external_data=_external("absent.bin", None),
    short_external_data=_external("short.bin", b"1234"),
    external_data_above_the_folder=_external("../up.bin", None),
    external_data_by_an_absolute_path=_external("/etc/hostname", None),
)


# --- arguments of sessions ------------------------------------------------------------------------


def _session(**arguments: Any) -> Mistake:
    return lambda ort, folder: ort.InferenceSession(bytes_of(MUL), **arguments)


_add(
    options_of_another_kind=_session(sess_options="fast"),
    options_of_a_run=lambda ort, folder: ort.InferenceSession(
        bytes_of(MUL), ort.RunOptions(), providers=CPU
    ),
    providers_by_a_number=_session(providers=[3], enable_fallback=0),
    a_text_of_providers=_session(providers="CPUExecutionProvider", enable_fallback=0),
    no_sequence_of_providers=_session(providers=3, enable_fallback=0),
    an_unknown_provider=_session(providers=["NoExecutionProvider"], enable_fallback=0),
    options_for_other_providers=_session(
        providers=CPU, provider_options=[{}, {}], enable_fallback=0
    ),
    provider_options_of_another_kind=_session(
        providers=CPU, provider_options=["x"], enable_fallback=0
    ),
    provider_options_twice=_session(
        providers=[(CPU[0], {})], provider_options=[{}], enable_fallback=0
    ),
    both_of_tensorrts_providers=_session(
        providers=["TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"], enable_fallback=0
    ),
)


# --- feeds ----------------------------------------------------------------------------------------


def _run(feeds: Any, names: Any = None, text: str = RELU, **options: Any) -> Mistake:
    return lambda ort, folder: session_of(ort, text, **options).run(names, feeds)


_RESHAPE = "g (float[N,2] x, int64[K] s) => (float[] y) { y = Reshape(x, s) }"
_GATHER = "g (float[4] x, int64[1] i) => (float[1] y) { y = Gather(x, i) }"
_SEQUENCE = "g (seq(float[N]) x) => (int64 y) { y = SequenceLength(x) }"
_TEXTS = "g (string[N] x) => (string[N] y) { y = Identity(x) }"

_add(
    a_missing_feed=_run({}),
    one_feed_of_two=_run({"a": np.ones(2, np.float32)}, text=TWO),
    a_feed_too_many=_run({"x": ROW, "z": ROW}),
    a_feed_by_a_wrong_name=_run({"X": ROW}),
    a_feed_by_no_name=_run({None: ROW}),
    a_feed_of_doubles=_run({"x": ROW.astype(np.float64)}),
    a_feed_of_whole_numbers=_run({"x": ROW.astype(np.int64)}),
    a_feed_of_texts=_run({"x": np.array([["a", "b"]])}),
    a_feed_of_objects=_run({"x": np.array([[None, object()]], object)}),
    a_feed_of_complex_numbers=_run({"x": ROW.astype(np.complex64)}),
    a_feed_of_dates=_run({"x": np.array([["2020-01-01", "2020-01-02"]], "datetime64[D]")}),
    a_feed_of_rank_1=_run({"x": ROW[0]}),
    a_feed_of_rank_3=_run({"x": ROW[None]}),
    a_feed_of_another_size=_run({"x": np.ones((1, 3), np.float32)}),
    a_tuple_for_an_array=_run({"x": ((1.0, 2.0),)}),
    a_text_for_an_array=_run({"x": "a"}),
    a_number_for_an_array=_run({"x": 1.0}),
    nothing_for_an_array=_run({"x": None}),
    a_set_for_an_array=_run({"x": {1.0}}),
    a_ragged_list=_run({"x": [[1.0, 2.0], [3.0]]}),
    a_map_for_an_array=_run({"x": {1: 2.0}}),
    numbers_for_texts=_run({"x": np.array([1.0])}, text=_TEXTS),
    an_array_for_a_sequence=_run({"x": np.ones(2, np.float32)}, text=_SEQUENCE),
    a_sequence_of_other_elements=_run({"x": [np.ones(2, np.int64)]}, text=_SEQUENCE),
    a_list_of_feeds=_run([ROW]),
    no_feeds=_run(None),
    an_unknown_output=_run({"x": ROW}, ["q"]),
    an_output_and_an_unknown_one=_run({"x": ROW}, ["y", "q"]),
    an_output_twice=_run({"x": ROW}, ["y", "y", "z"]),
    a_text_of_outputs=_run({"x": ROW}, "y"),
    outputs_by_numbers=_run({"x": ROW}, [0]),
    options_of_a_session_for_a_run=lambda ort, folder: session_of(ort, RELU).run(
        None, {"x": ROW}, ort.SessionOptions()
    ),
    a_reshape_that_does_not_fit=_run({"x": ROW, "s": np.array([3])}, text=_RESHAPE),
    an_index_out_of_range=_run({"x": np.ones(4, np.float32), "i": np.array([9])}, text=_GATHER),
    sizes_that_do_not_broadcast=_run(
        {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)},
        text="g (float[N] a, float[M] b) => (float[K] y) { y = Add(a, b) }",
    ),
)


@mistake("a run that was ended")
def ended_run(ort: Any, folder: Path) -> Any:
    options = ort.RunOptions()
    options.terminate = True
    return session_of(ort, RELU).run(None, {"x": ROW}, options)


@mistake("OrtValues that are arrays")
def arrays_as_values(ort: Any, folder: Path) -> Any:
    return session_of(ort, RELU).run_with_ort_values(None, {"x": ROW})


@mistake("an OrtValue of another type")
def value_of_another_type(ort: Any, folder: Path) -> Any:
    value = ort.OrtValue.ortvalue_from_numpy(ROW.astype(np.float64))
    return session_of(ort, RELU).run_with_ort_values(None, {"x": value})


@mistake("an OrtValue of another rank")
def value_of_another_rank(ort: Any, folder: Path) -> Any:
    return session_of(ort, RELU).run_with_ort_values(
        None, {"x": ort.OrtValue.ortvalue_from_numpy(ROW[0])}
    )


@mistake("an OrtValue too few")
def value_missing(ort: Any, folder: Path) -> Any:
    return session_of(ort, RELU).run_with_ort_values(None, {})


@mistake("a callback that cannot be called")
def no_callback(ort: Any, folder: Path) -> Any:
    return session_of(ort, RELU).run_async(None, {"x": ROW}, 3, None)


@mistake("vectors of other sizes than their names")
def vectors(ort: Any, folder: Path) -> Any:
    made = native(ort).OrtValueVector
    return session_of(ort, RELU).run_with_ortvaluevector(
        ort.RunOptions(), ["x"], made(), ["y"], made(), []
    )


# --- IOBinding ------------------------------------------------------------------------------------


def _binding(bind: Callable[[Any, Any], object], text: str = RELU) -> Mistake:
    def make(ort: Any, folder: Path) -> Any:
        session = session_of(ort, text)
        binding = session.io_binding()
        bind(ort, binding)
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()

    return make


def _both(ort: Any, binding: Any) -> None:
    binding.bind_cpu_input("x", ROW)
    binding.bind_output("y")


def _then(bind: Callable[[Any, Any], object]) -> Mistake:
    def both(ort: Any, binding: Any) -> None:
        _both(ort, binding)
        bind(ort, binding)

    return _binding(both)


_add(
    a_binding_of_nothing=_binding(lambda ort, binding: None),
    a_binding_without_an_input=_binding(lambda ort, binding: binding.bind_output("y")),
    a_binding_without_an_output=_binding(lambda ort, binding: binding.bind_cpu_input("x", ROW)),
    a_binding_of_an_unknown_input=_then(lambda ort, binding: binding.bind_cpu_input("q", ROW)),
    a_binding_of_an_unknown_output=_then(lambda ort, binding: binding.bind_output("q")),
    a_binding_of_a_list=_then(lambda ort, binding: binding.bind_cpu_input("x", [[1.0, 2.0]])),
    a_binding_of_another_type=_then(
        lambda ort, binding: binding.bind_cpu_input("x", ROW.astype(np.float64))
    ),
    a_binding_of_another_rank=_then(lambda ort, binding: binding.bind_cpu_input("x", ROW[0])),
    a_binding_of_another_size=_then(
        lambda ort, binding: binding.bind_cpu_input("x", np.ones((1, 3), np.float32))
    ),
    a_binding_of_an_array_as_a_value=_then(
        lambda ort, binding: binding.bind_ortvalue_input("x", ROW)
    ),
    a_binding_to_an_array_as_a_value=_then(
        lambda ort, binding: binding.bind_ortvalue_output("y", ROW)
    ),
    a_binding_to_a_tensor_of_another_size=_then(
        lambda ort, binding: binding.bind_ortvalue_output(
            "y", ort.OrtValue.ortvalue_from_numpy(np.ones((4, 4), np.float32))
        )
    ),
    a_binding_to_a_tensor_of_another_type=_then(
        lambda ort, binding: binding.bind_ortvalue_output(
            "y", ort.OrtValue.ortvalue_from_numpy(ROW.astype(np.int64))
        )
    ),
    a_binding_to_memory_without_a_type=_then(
        lambda ort, binding: binding.bind_output("y", "cpu", 0, None, None, ROW.ctypes.data)
    ),
    a_binding_to_memory_of_a_device_that_is_not_here=_then(
        lambda ort, binding: binding.bind_output(
            "y", "cuda", 0, np.float32, [1, 2], ROW.ctypes.data
        )
    ),
    a_binding_from_a_device_that_is_not_here=_then(
        lambda ort, binding: binding.bind_input("x", "cuda", 0, np.float32, [1, 2], ROW.ctypes.data)
    ),
    a_binding_to_an_unknown_device=_then(lambda ort, binding: binding.bind_output("y", "toaster")),
)


@mistake("a binding of another session")
def foreign_binding(ort: Any, folder: Path) -> Any:
    session, other = session_of(ort, RELU), session_of(ort, RELU)
    return session.run_with_iobinding(other.io_binding())


# --- OrtValues and sparse tensors -----------------------------------------------------------------


def _value(make: Callable[[Any], Any]) -> Mistake:
    return lambda ort, folder: make(ort)


_add(
    a_value_of_a_list=_value(lambda ort: ort.OrtValue.ortvalue_from_numpy([1.0])),
    a_value_of_nothing=_value(lambda ort: ort.OrtValue.ortvalue_from_numpy(None)),
    a_value_of_dates=_value(
        lambda ort: ort.OrtValue.ortvalue_from_numpy(np.array(["2020-01-01"], "datetime64[D]"))
    ),
    a_value_on_a_device_that_is_not_here=_value(
        lambda ort: ort.OrtValue.ortvalue_from_numpy(ROW, "cuda", 0)
    ),
    a_value_on_an_unknown_device=_value(
        lambda ort: ort.OrtValue.ortvalue_from_numpy(ROW, "toaster", 0)
    ),
    a_value_of_a_negative_size=_value(
        lambda ort: ort.OrtValue.ortvalue_from_shape_and_type([-1], np.float32)
    ),
    a_value_of_an_unknown_type=_value(
        lambda ort: ort.OrtValue.ortvalue_from_shape_and_type([1], 77)
    ),
    a_value_of_a_type_of_another_size=_value(
        lambda ort: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(ROW, TensorProto.INT64)
    ),
    a_value_from_no_dlpack=_value(lambda ort: ort.OrtValue.from_dlpack(3)),
    a_value_that_is_not_sparse=_value(
        lambda ort: ort.OrtValue.ortvalue_from_numpy(ROW).as_sparse_tensor()
    ),
    a_value_updated_from_a_larger_one=_value(
        lambda ort: ort.OrtValue.ortvalue_from_numpy(ROW.copy()).update_inplace(
            np.ones(9, np.float32)
        )
    ),
    a_value_updated_from_a_list=_value(
        lambda ort: ort.OrtValue.ortvalue_from_numpy(ROW.copy()).update_inplace([1.0])
    ),
    texts_by_dlpack=_value(
        lambda ort: ort.OrtValue.ortvalue_from_numpy(np.array(["a"])).__dlpack__()
    ),
    a_device_of_an_unknown_name=_value(lambda ort: ort.OrtDevice.make("toaster", 0)),
    places_that_are_too_many=_value(
        lambda ort: ort.SparseTensor.sparse_coo_from_numpy(
            [3, 3], np.ones(2, np.float32), np.array([1, 2, 3]), ort.OrtDevice.make("cpu", 0)
        )
    ),
    rows_that_are_too_few=_value(
        lambda ort: ort.SparseTensor.sparse_csr_from_numpy(
            [3, 3],
            np.ones(2, np.float32),
            np.array([1, 2]),
            np.array([0, 2]),
            ort.OrtDevice.make("cpu", 0),
        )
    ),
    memory_of_an_unknown_name=_value(
        lambda ort: ort.OrtMemoryInfo(
            "Toaster", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
        )
    ),
    an_arena_with_an_unknown_option=_value(lambda ort: ort.OrtArenaCfg({"speed": 1})),
)


# --- options --------------------------------------------------------------------------------------


def _options(use: Callable[[Any, Any], Any]) -> Mistake:
    return lambda ort, folder: use(ort, ort.SessionOptions())


def _run_options(use: Callable[[Any], Any]) -> Mistake:
    return lambda ort, folder: use(ort.RunOptions())


def _initializer_twice(ort: Any, options: Any) -> None:
    for _ in range(2):
        options.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(X))


def _provider_twice(ort: Any, options: Any) -> None:
    for _ in range(2):
        options.add_provider("CPUExecutionProvider", {})
    ort.InferenceSession(bytes_of(MUL), options)


def _entry(key: str, value: str) -> Mistake:
    def make(ort: Any, folder: Path) -> Any:
        options = ort.SessionOptions()
        options.add_session_config_entry(key, value)
        return ort.InferenceSession(bytes_of(MUL), options, providers=CPU)

    return make


@mistake("a session whose making is cancelled")
def cancelled(ort: Any, folder: Path) -> Any:
    options = ort.SessionOptions()
    options.set_load_cancellation_flag(True)
    return ort.InferenceSession(bytes_of(MUL), options, providers=CPU)


_add(
    an_unknown_option=_options(lambda ort, options: setattr(options, "intra_op_num_thread", 4)),
    an_unknown_option_of_a_run=_run_options(lambda options: setattr(options, "log_level", 4)),
    an_option_of_another_kind=_options(
        lambda ort, options: setattr(options, "enable_profiling", "yes")
    ),
    an_entry_that_was_never_set=_options(
        lambda ort, options: options.get_session_config_entry("foo")
    ),
    an_entry_of_a_run_that_was_never_set=_run_options(
        lambda options: options.get_run_config_entry("foo")
    ),
    an_entry_by_no_name=_options(lambda ort, options: options.add_session_config_entry("", "1")),
    an_entry_of_a_number=_options(lambda ort, options: options.add_session_config_entry("a", 1)),
    an_entry_that_is_too_long=_options(
        lambda ort, options: options.add_session_config_entry("a", "1" * 8193)
    ),
    an_entry_of_a_run_that_is_too_long=_run_options(
        lambda options: options.add_run_config_entry("a", "1" * 8193)
    ),
    an_initializer_twice=_options(_initializer_twice),
    an_initializer_that_is_an_array=_options(lambda ort, options: options.add_initializer("w", X)),
    more_initializers_than_names=_options(
        lambda ort, options: options.add_external_initializers(["w"], [])
    ),
    a_library_of_operators_that_is_missing=_options(
        lambda ort, options: options.register_custom_ops_library("/nonexistent/ops.so")
    ),
    a_provider_that_is_not_here=_options(
        lambda ort, options: options.add_provider("NoExecutionProvider", {})
    ),
    a_provider_twice=_options(_provider_twice),
    devices_of_no_provider=_options(lambda ort, options: options.add_provider_for_devices([], {})),
    a_policy_by_a_text=_options(lambda ort, options: options.set_provider_selection_policy("fast")),
    a_delegate_that_cannot_be_called=_options(
        lambda ort, options: options.set_provider_selection_policy_delegate("fast")
    ),
    a_dimension_by_a_text=_options(
        lambda ort, options: options.add_free_dimension_override_by_name("N", "3")
    ),
    an_adapter_that_is_none=_run_options(lambda options: options.add_active_adapter("adapter")),
    a_wrong_value_of_a_context_entry=_entry("ep.context_enable", "maybe"),
)


# --- the process, compiling, adapters -------------------------------------------------------------


def _bad_adapter(ort: Any, folder: Path) -> Any:
    (folder / "bad.adapter").write_bytes(b"no adapter" * 20)
    return ort.LoraAdapter().Load(str(folder / "bad.adapter"))


def _bad_adapter_format(ort: Any, folder: Path) -> Any:
    (folder / "bad.adapter").write_bytes(b"no adapter" * 20)
    return ort.AdapterFormat.read_adapter(str(folder / "bad.adapter"))


def _compiler(source: Any, **arguments: Any) -> Mistake:
    return lambda ort, folder: ort.ModelCompiler(ort.SessionOptions(), source, **arguments)


def _existing_output(ort: Any, folder: Path) -> Any:
    (folder / "out.onnx").write_bytes(b"")
    flags = ort.OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS
    return ort.ModelCompiler(ort.SessionOptions(), bytes_of(MUL), flags=flags).compile_to_file(
        str(folder / "out.onnx")
    )


def _nothing_compiled(ort: Any, folder: Path) -> Any:
    flags = ort.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED
    return ort.ModelCompiler(ort.SessionOptions(), bytes_of(MUL), flags=flags).compile_to_bytes()


def _failing_stream(ort: Any, folder: Path) -> Any:
    def write(content: bytes) -> None:
        raise OSError("full")

    return ort.ModelCompiler(ort.SessionOptions(), bytes_of(MUL)).compile_to_stream(write)


_add(
    a_missing_adapter=lambda ort, folder: ort.LoraAdapter().Load(str(folder / "absent.adapter")),
    a_bad_adapter=_bad_adapter,
    a_missing_adapter_to_read=lambda ort, folder: ort.AdapterFormat.read_adapter(
        str(folder / "absent.adapter")
    ),
    a_bad_adapter_to_read=_bad_adapter_format,
    a_compiler_of_a_missing_file=lambda ort, folder: ort.ModelCompiler(
        ort.SessionOptions(), str(folder / "absent.onnx")
    ).compile_to_bytes(),
    a_compiler_of_bytes_that_are_no_model=lambda ort, folder: ort.ModelCompiler(
        ort.SessionOptions(), b"abcdefgh"
    ).compile_to_bytes(),
    a_compiler_of_no_path=_compiler(""),
    a_compiler_of_no_bytes=_compiler(b""),
    a_compiler_of_a_number=_compiler(3),
    a_compiler_with_two_places_for_weights=_compiler(
        bytes_of(MUL), external_initializers_file_path="w.bin", get_initializer_location_func=print
    ),
    a_path_of_an_adapter_that_is_a_number=_value(lambda ort: ort.LoraAdapter().Load(3)),
    a_library_by_a_number=_value(lambda ort: ort.register_execution_provider_library("x", 3)),
    a_compiler_of_bytes_without_a_path=lambda ort, folder: ort.ModelCompiler(
        ort.SessionOptions(), bytes_of(MUL)
    ).compile_to_file(),
    a_compiler_whose_output_is_there=_existing_output,
    a_compiler_that_compiles_nothing=_nothing_compiled,
    a_compiler_into_a_missing_folder=lambda ort, folder: ort.ModelCompiler(
        ort.SessionOptions(), bytes_of(MUL)
    ).compile_to_file(str(folder / "no" / "out.onnx")),
    a_compiler_whose_stream_fails=_failing_stream,
    a_severity_that_is_none=_value(lambda ort: ort.set_default_logger_severity(9)),
    a_severity_by_a_text=_value(lambda ort: ort.set_default_logger_severity("high")),
    a_seed_by_a_text=_value(lambda ort: ort.set_seed("a")),
    a_seed_of_more_than_64_bits=_value(lambda ort: ort.set_seed(1 << 63)),
    a_verbosity_of_more_than_32_bits=_value(lambda ort: ort.set_default_logger_verbosity(1 << 31)),
    a_library_that_is_missing=lambda ort, folder: ort.register_execution_provider_library(
        "x", str(folder / "no.so")
    ),
    a_library_that_was_not_registered=_value(
        lambda ort: ort.unregister_execution_provider_library("nobody")
    ),
    an_allocator_of_a_text=_value(lambda ort: ort.create_and_register_allocator("cpu", None)),
    an_allocator_of_an_unknown_provider=_value(
        lambda ort: ort.create_and_register_allocator_v2(
            "NoExecutionProvider",
            ort.OrtMemoryInfo(
                "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
            ),
            {},
            None,
        )
    ),
    tensors_copied_into_fewer=_value(
        lambda ort: ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(X)], [])
    ),
    assignments_that_were_not_recorded=lambda ort, folder: session_of(
        ort, MUL
    ).get_provider_graph_assignment_info(),
    dynamic_options_that_are_none=lambda ort, folder: session_of(ort, MUL).set_ep_dynamic_options(
        {}
    ),
    an_unknown_name=_value(lambda ort: ort.InferenceSesion),
)
