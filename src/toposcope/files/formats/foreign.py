"""Formats that are not read: how each is recognised, and what converts it to one that is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, Folder
from toposcope.files.formats.orbax import is_installed
from toposcope.files.labels import step_of


class ForeignFormatError(SourceError):
    """The weights are in a form that is not read here; the message names it, and what converts it."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A format that is not read: the ends of its files' names, and what converts it."""

    name: str
    remedy: str
    ends: tuple[str, ...] = ()


_SAVEZ = "save its arrays by name with numpy.savez as step_N.npz"

GGUF = Foreign(
    "GGUF, llama.cpp's format",
    "read the checkpoint that it was made from, or convert it with transformers: "
    "AutoModelForCausalLM.from_pretrained(FOLDER, gguf_file=NAME).save_pretrained(OUT)",
    (".gguf",),
)
GGML = Foreign(
    "ggml, a former format of llama.cpp",
    "read the checkpoint that it was made from, or convert it with llama.cpp's "
    "convert_llama_ggml_to_gguf.py and then as GGUF",
)
LLM_C = Foreign(
    "a file of llm.c",
    "convert it with llm.c's dev/eval/export_hf.py --input FILE --output OUT, and name OUT step_N",
)
STABLE_BASELINES = Foreign(
    "an archive of Stable-Baselines3",
    "unzip policy.pth out of each into a folder of its own: unzip FILE policy.pth -d step_N",
)
ORBAX = Foreign(
    "a checkpoint of Orbax (JAX)",
    "install what reads its arrays: pip install 'toposcope[orbax]'",
)
T5X = Foreign(
    "a checkpoint of T5X (zarr arrays)",
    f"restore it with t5x.checkpoints.load_t5x_checkpoint(FOLDER) and {_SAVEZ}",
)
MSGPACK = Foreign(
    "msgpack, Flax's format",
    f"read it with flax.serialization.msgpack_restore(open(FILE, 'rb').read()) and {_SAVEZ}",
    (".msgpack",),
)
TENSORFLOW = Foreign(
    "a TensorFlow checkpoint",
    f"read it with tensorflow.train.load_checkpoint(PREFIX) and {_SAVEZ}",
    (".index", ".ckpt.meta"),
)
SAVED_MODEL = Foreign(
    "a TensorFlow SavedModel",
    f"read its folder variables with tensorflow.train.load_checkpoint('variables/variables') and {_SAVEZ}",
)
HDF5 = Foreign(
    "HDF5 (Keras or TensorFlow)",
    f"open it with h5py.File(FILE), read its datasets with visititems and {_SAVEZ}",
    (".h5", ".hdf5"),
)
KERAS = Foreign(
    "a Keras archive",
    f"load it with keras.saving.load_model(FILE) and {_SAVEZ}: weight.path is each one's name",
    (".keras",),
)
ONNX = Foreign(
    "ONNX",
    f"load it with onnx.load(FILE), take onnx.numpy_helper.to_array of each graph.initializer and {_SAVEZ}",
    (".onnx",),
)
NEMO = Foreign(
    "a .nemo archive (tar)",
    "unpack it with tar xf FILE and read its model_weights.ckpt or model_weights folder",
    (".nemo",),
)
PADDLE = Foreign("PaddlePaddle's .pdparams", f"load it with paddle.load(FILE) and {_SAVEZ}", (".pdparams",))
ARRAYS = Foreign(
    "a checkpoint of zarr arrays (Levanter, Paxml)",
    f"restore it with the trainer that wrote it, or open each array with zarr.open, and {_SAVEZ}",
)
ZARR = Foreign(
    "a distributed checkpoint of Megatron-LM in zarr arrays",
    "start its training once with Megatron-LM's --ckpt-convert-format torch_dist --ckpt-convert-save OUT",
)
DISTCP = Foreign(
    "shards of PyTorch's distributed checkpoint without their .metadata",
    "saving was interrupted, or the hidden file was not copied: copy .metadata as well",
    (".distcp",),
)
TFLITE = Foreign(
    "TensorFlow Lite, a form for running a model",
    "read the checkpoint that it was made from",
    (".tflite",),
)
COREML = Foreign(
    "Core ML, a form for running a model", "read the checkpoint that it was made from", (".mlmodel",)
)
RUST = Foreign("a file of rust-bert (LibTorch)", "read the checkpoint that it was made from", (".ot",))
OPENVINO = Foreign(
    "OpenVINO, a form for running a model",
    "read the checkpoint that it was made from",
    ("openvino_model.bin",),
)
MINDSPORE = Foreign(
    "a checkpoint of MindSpore",
    f"load it with mindspore.load_checkpoint(FILE), take asnumpy() of each parameter and {_SAVEZ}",
)
PICKLE = Foreign(
    "a plain pickle, which is never run",
    "save the weights with safetensors.torch.save_file or torch.save(model.state_dict(), FILE)",
    (".pkl", ".pickle", ".joblib"),
)

_BY_END = (
    GGUF, MSGPACK, ONNX, NEMO, PADDLE, KERAS, HDF5, TENSORFLOW, DISTCP, TFLITE, COREML, RUST,
    OPENVINO,
)  # fmt: skip
_GGML_MAGIC = (b"lmgg", b"fmgg", b"tjgg", b"algg")
"""ggml, ggmf, ggjt and ggla, written as little-endian numbers."""
_PROTOBUF = b"\n"
"""How MindSpore's message of parameters begins: its first field, a message of its own."""
_LLM_C_MAGIC = (20240326, 20240527)
"""The first numbers of llm.c's models and of its states of optimisers (train_gpt2.cu)."""
_ZIP_END, _POLICY = 1 << 14, b"policy.pth"
"""How many bytes at the end of an archive, where its directory is, are searched for the weights' name."""
_DEEPEST = 4
"""How many folders deep the arrays of a tree lie at most, below the folder that is asked."""
_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_ORBAX = frozenset(["_METADATA", "_CHECKPOINT_METADATA", "manifest.ocdbt", "orbax.checkpoint"])
_FLAX_STEP = re.compile(r"checkpoint_\d+")
_OPTIMIZER_FILE = re.compile(r"(optimizer|optim)[\w.-]*\.(pt|pth|bin|safetensors)")
_LARGEST_MAP = 0x8F
_TENSORFLOW_DATA = re.compile(r"\.data-\d{5}-of-\d{5}$")


OPTIMIZER_ALONE = "only an optimizer's state is here"
"""What the error for a file without weights says: beside weights such a file is usual."""


def refusal(where: str, form: Foreign) -> ForeignFormatError:
    """Return the error for a file or folder in a foreign format."""
    return ForeignFormatError(f"{where}: is {form.name}, which is not read here; {form.remedy}")


def optimizer_alone(where: str) -> ForeignFormatError:
    """Return the error for a checkpoint that holds an optimizer's state and no weights."""
    return ForeignFormatError(
        f"{where}: {OPTIMIZER_ALONE}, no weights; save the model as well: model.safetensors, or "
        "model.state_dict() with torch.save"
    )


def foreign_file(name: str, head: bytes) -> Foreign | None:
    """Return the foreign format of a file by its name and first bytes; None for others.

    >>> foreign_file("small.gguf", b"").name, foreign_file("ggml-model.bin", b"tjgg").name[:4]
    ("GGUF, llama.cpp's format", 'ggml')
    """
    if head[:4] in _GGML_MAGIC:
        return GGML
    if head.startswith(_HDF5_MAGIC):
        return HDF5
    if head.startswith(b"GGUF"):
        return GGUF
    if name.endswith(".ckpt") and head.startswith(_PROTOBUF):
        return MINDSPORE
    if name.endswith(".bin") and int.from_bytes(head[:4], "little") in _LLM_C_MAGIC:
        return LLM_C
    return next((form for form in (*_BY_END, PICKLE) if name.lower().endswith(form.ends or (" ",))), None)


def foreign_name(name: str) -> Foreign | None:
    """Return the format, not read here, of the weights that a file of this name holds; None for others.

    A pickle may hold anything, and an index may be one of a database.

    >>> foreign_name("small.GGUF").ends, foreign_name("m.data-00000-of-00001").name, foreign_name("meta.pkl")
    (('.gguf',), 'a TensorFlow checkpoint', None)
    """
    if name in _ORBAX:
        return None if is_installed() else ORBAX
    if _TENSORFLOW_DATA.search(name) is not None:
        return TENSORFLOW
    forms = (form for form in _BY_END if form is not TENSORFLOW)
    return next((form for form in forms if name.lower().endswith(form.ends)), None)


def foreign_folder(folder: Folder) -> ForeignFormatError | None:
    """Return the error for a folder that holds weights in a foreign format only; None for any other."""
    files, folders = folder.files(), folder.folders()
    if _ORBAX & set(files):
        return refusal(folder.label, ORBAX)
    if "saved_model.pb" in files:
        return refusal(folder.label, SAVED_MODEL)
    if _zarr(folder, folders):
        arrays = T5X if "checkpoint" in files else ZARR if "common.pt" in files else ARRAYS
        return refusal(folder.label, arrays)
    if (archive := next(filter(_is_policy(folder), files), None)) is not None:
        return refusal(f"{folder.label}/{archive}", STABLE_BASELINES)
    for name in files:
        form = next((form for form in _BY_END if name.lower().endswith(form.ends)), None)
        if form is TENSORFLOW and not any(other.startswith(name.removesuffix(".index")) and ".data-" in other
                                          for other in files):  # fmt: skip
            continue
        if form is not None:
            return refusal(f"{folder.label}/{name}", form)
    if (flax := next(filter(_is_flax(folder), files), None)) is not None:
        return refusal(f"{folder.label}/{flax}", MSGPACK)
    if (state := next(filter(_OPTIMIZER_FILE.fullmatch, files), None)) is not None:
        return optimizer_alone(f"{folder.label}/{state}")
    return None


def _zarr(folder: Folder, folders: list[str], depth: int = 1) -> bool:
    """Return whether one of the first subfolders is an array of zarr, or a tree of such arrays."""
    inner = [folder.sub(name) for name in folders[:3] if step_of(name) is None]
    if any({".zarray", "zarr.json"} & set(inner_folder.files()) for inner_folder in inner):
        return True
    return depth < _DEEPEST and any(
        _zarr(inner_folder, inner_folder.folders(), depth + 1) for inner_folder in inner
    )


def _is_policy(folder: Folder) -> Callable[[str], bool]:
    """Return a test of names: Stable-Baselines3 writes an archive with a file of the policy's weights."""
    return lambda name: name.endswith(".zip") and foreign_archive(folder.open(name)) is not None


def foreign_archive(blob: Blob) -> Foreign | None:
    """Return the foreign format of a zip archive by the names in it; None for others."""
    names = blob.read(max(0, blob.size - _ZIP_END), blob.size).tobytes()
    return STABLE_BASELINES if _POLICY in names else None


def _is_flax(folder: Folder) -> Callable[[str], bool]:
    """Return a test of names: `flax.training.checkpoints` writes a msgpack map as checkpoint_N."""

    def test(name: str) -> bool:
        if not _FLAX_STEP.fullmatch(name):
            return False
        blob = folder.open(name)
        head = blob.read(0, min(blob.size, 1)).tobytes()
        return bool(head) and (0x80 <= head[0] <= _LARGEST_MAP or head[0] in (0xDE, 0xDF))

    return test
