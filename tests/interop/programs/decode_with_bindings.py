"""A decoder with state bound between steps: ``python decode_with_bindings.py MODULE``."""

# mypy: ignore-errors

import importlib
import sys

import numpy as np
import onnx.parser

ort = importlib.import_module(sys.argv[1])

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
decoder (int64[B,1] token, float[B,P,4] past) => (float[B,8] logits, float[B,T,4] present)
<float[8,4] table = {0,1,2,3, 1,2,3,4, 2,3,4,5, 3,4,5,6, 4,5,6,7, 5,6,7,8, 6,7,8,9, 7,8,9,1},
 float[4,8] head = {1,0,0,2,0,0,0,1, 0,1,0,0,0,2,0,0, 0,0,1,0,0,0,1,0, 1,0,0,0,3,0,0,1}> {
  embedded = Gather(table, token)
  present = Concat<axis = 1>(past, embedded)
  axes = Constant<value_ints = [1]>()
  mean = ReduceMean<keepdims = 0>(present, axes)
  scores = MatMul(mean, head)
  logits = Softmax<axis = -1>(scores)
}"""


def choose_device() -> str:
    return "cuda" if "CUDAExecutionProvider" in ort.get_available_providers() else "cpu"


def greedy(session, steps: int, batch: int) -> list[list[int]]:
    device = choose_device()
    binding = session.io_binding()
    token = ort.OrtValue.ortvalue_from_numpy(np.ones((batch, 1), np.int64), device, 0)
    past = ort.OrtValue.ortvalue_from_shape_and_type([batch, 0, 4], np.float32, device, 0)
    said: list[list[int]] = []
    for step in range(steps):
        binding.bind_ortvalue_input("token", token)
        binding.bind_ortvalue_input("past", past)
        binding.bind_output("logits", device)
        binding.bind_output("present", device)
        binding.synchronize_inputs()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        logits, past = binding.get_outputs()
        chosen = logits.numpy().argmax(axis=-1)
        said.append([int(each) for each in chosen])
        token.update_inplace(chosen[:, None].astype(np.int64))
        print(
            step,
            past.shape(),
            past.data_type(),
            past.device_name(),
            past.tensor_size_in_bytes(),
            said[-1],
        )
    return said


def fixed_buffers(session) -> None:
    """All memory is the caller's."""
    token, past = np.full((2, 1), 3, np.int64), np.zeros((2, 2, 4), np.float32)
    logits, present = np.empty((2, 8), np.float32), np.empty((2, 3, 4), np.float32)
    binding = session.io_binding()
    for name, array in (("token", token), ("past", past)):
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    for name, array in (("logits", logits), ("present", present)):
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    for value in range(3):
        token[:] = value
        session.run_with_iobinding(binding)
        print(np.round(logits[0], 3).tolist(), present[0, -1].tolist())
    print(
        [
            each.data_ptr() == array.ctypes.data
            for each, array in zip(binding.get_outputs(), (logits, present), strict=True)
        ]
    )
    vector = binding.get_outputs_as_ortvaluevector()
    print(type(vector).__name__, len(vector), [value.shape() for value in vector])
    binding.clear_binding_outputs()
    binding.bind_output("present")
    session.run_with_iobinding(binding)
    print([array.shape for array in binding.copy_outputs_to_cpu()])
    binding.clear_binding_inputs()
    try:
        session.run_with_iobinding(binding)
    except RuntimeError as error:
        print("refused:", bool(str(error)))


def main() -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.enable_mem_pattern = False
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for each in [*session.get_inputs(), *session.get_outputs()]:
        print(each.name, each.type, each.shape)
    said = greedy(session, 4, 2)
    print(said)
    fixed_buffers(session)
    by_vector(session)


def by_vector(session) -> None:
    native = ort.capi.onnxruntime_pybind11_state
    feeds, fetches = native.OrtValueVector(), native.OrtValueVector()
    feeds.push_back(ort.OrtValue.ortvalue_from_numpy(np.zeros((1, 1), np.int64))._ortvalue)
    feeds.push_back(ort.OrtValue.ortvalue_from_numpy(np.ones((1, 1, 4), np.float32))._ortvalue)
    cpu = ort.OrtDevice.make("cpu", 0)._get_c_device()
    session.run_with_ortvaluevector(
        ort.RunOptions(), ["token", "past"], feeds, ["present", "logits"], fetches, [cpu, cpu]
    )
    print([ort.OrtValue(each).numpy().shape for each in fetches], fetches[0].data_type())
    made = session.run_with_ort_values(
        ["logits"],
        {"token": np_value([[1]], np.int64), "past": np_value(np.zeros((1, 1, 4)), np.float32)},
    )
    print([each.is_tensor() for each in made], np.asarray(made[0]).round(3).tolist())


def np_value(array, dtype):
    return ort.OrtValue.ortvalue_from_numpy(np.asarray(array, dtype))


if __name__ == "__main__":
    main()
