"""What decides the last digits of a training besides its recipe: processor, instructions, libraries.

The same code rounds differently with other vector instructions or another version of a matrix library, and a
training may amplify one rounding: `docs/studies.md`.
"""

from __future__ import annotations

import platform
import re
from pathlib import Path

_LIBRARIES = {
    "mkl": r"Math Kernel Library Version (\S+)",
    "onednn": r"MKL-DNN v(\S+)",
    "blas": r"BLAS_INFO=(\w+)",
}
"""Where torch's own description states the version of each library."""
_CPU_INFO = Path("/proc/cpuinfo")


def machine_of(device: str) -> dict[str, str]:
    """Return the processor or GPU, instruction set, threads and libraries that a training on `device` uses.

    What the system does not state is left out.
    """
    import torch

    built = torch.__config__.show()
    libraries = {name: match[1] for name, form in _LIBRARIES.items() if (match := re.search(form, built))}
    if torch.device(device).type == "cuda":
        libraries |= {"gpu": torch.cuda.get_device_name(device), "cuda": str(torch.version.cuda)}
    else:
        libraries["threads"] = "1"  # a run is trained on one thread: see `training.loop`
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        **libraries,
    }


def _processor() -> str:
    """Return the processor's name; that of the operating system's own words where Linux has none."""
    try:
        names = re.findall(r"(?m)^model name\s*:\s*(.+)$", _CPU_INFO.read_text(encoding="utf-8"))
    except OSError:
        names = []
    return names[0].strip() if names else platform.processor()
