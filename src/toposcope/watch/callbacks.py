"""A `Monitor` as a callback of transformers' Trainer or of Lightning, each imported on first use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toposcope.core.errors import InputError, MissingExtraError
from toposcope.watch.inside import Monitor

_NAMES = {
    "loss": "loss",
    "eval_loss": "heldout_loss",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
}


def _monitor(out: str | Path | Monitor, settings: dict[str, Any]) -> Monitor:
    """Return the given monitor, or a new one that writes to the given path."""
    if not isinstance(out, Monitor):
        return Monitor(out, **settings)
    if settings:
        raise InputError(
            "it is a setting of the Monitor, which is given",
            argument=next(iter(settings)),
            remedy="give it to the Monitor, or a path instead of the Monitor",
        )
    return out


def transformers_callback(out: str | Path | Monitor, **settings: Any) -> Any:
    """Return a `TrainerCallback` that passes every step, and what the trainer logs, to a `Monitor`.

    `out` is the store's path, with the settings of `Monitor` beside it, or a `Monitor`.

    Raises
    ------
    InputError
        When there are settings beside a `Monitor`, which has its own.
    MissingExtraError
        When transformers is not installed.
    """
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise MissingExtraError("transformers", "hf") from None
    monitor = _monitor(out, settings)

    class TransformersWatch(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            self.on_step_end(args, state, control, model)

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            if state.is_world_process_zero:
                monitor.observe(model, state.global_step)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            logged = {_NAMES[key]: value for key, value in (logs or {}).items() if key in _NAMES}
            if logged and state.is_world_process_zero:
                monitor.record(state.global_step, **logged)

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            monitor.close()

    return TransformersWatch()


def lightning_callback(out: str | Path | Monitor, **settings: Any) -> Any:
    """Return a Lightning `Callback` that passes every step, and the metrics logged with it, to a `Monitor`.

    `out` is the store's path, with the settings of `Monitor` beside it, or a `Monitor`.

    Raises
    ------
    InputError
        When there are settings beside a `Monitor`, which has its own.
    MissingExtraError
        When lightning is not installed.
    """
    try:
        from lightning.pytorch.callbacks import Callback
    except ImportError:
        raise MissingExtraError("lightning", "dev") from None
    monitor = _monitor(out, settings)

    class LightningWatch(Callback):
        _norm: float | None = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if trainer.is_global_zero:
                monitor.observe(pl_module, trainer.global_step)

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            if trainer.is_global_zero and (trainer.global_step + 1) % trainer.log_every_n_steps == 0:
                self._norm = gradient_norm(pl_module)  # before the trainer clips the gradient

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            if not trainer.is_global_zero:
                return
            monitor.observe(pl_module, trainer.global_step)
            if trainer.global_step % trainer.log_every_n_steps == 0:  # reading a metric waits for the device
                logged_values = _lightning_metrics(trainer, outputs)
                if self._norm is not None:
                    logged_values.setdefault("grad_norm", self._norm)
                if logged_values:
                    monitor.record(trainer.global_step, **logged_values)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            monitor.close()

    return LightningWatch()


_LIGHTNING = {"loss": "loss", "train_loss": "loss", "val_loss": "heldout_loss", "grad_norm": "grad_norm"}


def gradient_norm(model: Any) -> float | None:
    """Return the Euclidean norm of all gradients of a module; None if it has none.

    >>> gradient_norm(None) is None
    True
    """
    parameters = getattr(model, "parameters", tuple)
    squares = [
        parameter.grad.detach().float().square().sum()
        for parameter in parameters()
        if parameter.grad is not None
    ]
    return float(sum(squares)) ** 0.5 if squares else None


def _lightning_metrics(trainer: Any, outputs: Any) -> dict[str, float]:
    """Return the logged values by the store's names, with the first optimiser's rate and the step's loss."""
    logged = trainer.callback_metrics
    logged_values = {name: float(logged[key]) for key, name in _LIGHTNING.items() if key in logged}
    groups = [group for optimizer in trainer.optimizers[:1] for group in optimizer.param_groups[:1]]
    if groups:
        logged_values.setdefault("learning_rate", float(groups[0]["lr"]))
    step_loss = outputs.get("loss") if hasattr(outputs, "get") else None
    if "loss" not in logged_values and step_loss is not None:
        logged_values["loss"] = float(step_loss)
    return logged_values
