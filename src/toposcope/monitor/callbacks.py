"""A `Monitor` as a callback of transformers' Trainer or of Lightning, each imported when it is asked for."""

from __future__ import annotations

from typing import Any

from toposcope.errors import MissingExtraError
from toposcope.monitor.inside import Monitor

_NAMES = {
    "loss": "loss",
    "eval_loss": "heldout_loss",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
}


def transformers_callback(monitor: Monitor) -> Any:
    """Return a `TrainerCallback` that gives every step, and what the trainer logs, to `monitor`.

    Raises
    ------
    MissingExtraError
        When transformers is not installed.
    """
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise MissingExtraError("transformers", "hf") from None

    class TransformersWatch(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            monitor.observe(model, state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            monitor.observe(model, state.global_step)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            known = {_NAMES[key]: value for key, value in (logs or {}).items() if key in _NAMES}
            if known:
                monitor.record(state.global_step, **known)

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            monitor.close()

    return TransformersWatch()


def lightning_callback(monitor: Monitor) -> Any:
    """Return a Lightning `Callback` that gives every step, and the metrics logged with it, to `monitor`.

    Raises
    ------
    MissingExtraError
        When lightning is not installed.
    """
    try:
        from lightning.pytorch.callbacks import Callback
    except ImportError:
        raise MissingExtraError("lightning", "dev") from None

    class LightningWatch(Callback):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            monitor.observe(pl_module, trainer.global_step)

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            monitor.observe(pl_module, trainer.global_step)
            if trainer.global_step % trainer.log_every_n_steps == 0:  # reading a metric waits for the device
                logged = trainer.callback_metrics
                known = {name: float(logged[key]) for key, name in _LIGHTNING.items() if key in logged}
                if known:
                    monitor.record(trainer.global_step, **known)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            monitor.close()

    return LightningWatch()


_LIGHTNING = {"loss": "loss", "train_loss": "loss", "val_loss": "heldout_loss", "grad_norm": "grad_norm"}
