"""Products of a vector with the Hessian and with the Gauss-Newton matrix of an objective."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.wording import command
from toposcope.models.objective import BatchPart, Objective
from toposcope.models.protocol import widened

if TYPE_CHECKING:
    import torch

_TOKENS_ON_CPU = 4096
"""The size of a micro-batch: a product reads a graph's tensors several times, so larger ones do not fit the
caches, and smaller ones are mostly call overhead."""
KEEP_BYTES = 2**30
"""Graphs of micro-batches are kept between products if all of them together take at most this much memory."""
TWICE, DIFFERENCES = "double backward", "finite differences"
"""How a product is computed: by double backward, or by finite differences if a module does not allow that."""
_NO_SECOND_DERIVATIVE = ("not implemented", "does not require grad", "not differentiable", "double backward")


class Product(ABC):
    """Multiplies flat vectors by a symmetric matrix of an objective, at its parameters and on its batch.

    The graph of every micro-batch is built once and kept between products if all of them fit into
    `keep_bytes`; otherwise it is rebuilt for every product.

    If a module has no second derivative, finite differences are used, and `method` says so.

    It is a linear operator with `shape`, `dtype`, `matvec`, `@` and `adjoint`, so `scipy.sparse.linalg.eigsh`
    accepts it. A tensor gives a tensor on the model's device, a numpy array gives an array.
    """

    method = TWICE
    __array_ufunc__ = None  # numpy must not handle `array @ product`

    def __init__(self, objective: Objective, *, keep_bytes: int = KEEP_BYTES) -> None:
        self.objective = objective
        self._leaves = objective.leaves()
        self._keep_bytes = keep_bytes
        self._pieces = objective.micro_batches(_TOKENS_ON_CPU) if _on_cpu(objective) else objective.pieces
        self._graphs: dict[int, Any] = {}
        self._graphs_fit: bool | None = None

    @property
    def n(self) -> int:
        """The number of parameters."""
        return self.objective.n_parameters

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns: the number of parameters, twice."""
        return self.n, self.n

    @property
    def dtype(self) -> np.dtype:
        """The parameters' type, as numpy's."""
        import torch

        return torch.empty(0, dtype=self.objective.parameters.dtype).numpy().dtype

    def adjoint(self) -> Self:
        """Return the operator itself: the matrix is real and symmetric."""
        return self

    def matvec(self, vector: np.ndarray) -> np.ndarray:
        """Return the product with a vector (n,) or a column (n, 1) of numpy, of the same shape."""
        import torch

        flat = torch.from_numpy(np.array(vector, dtype=self.dtype).reshape(-1))
        product = self(flat.to(self.objective.model.device)).cpu().numpy()
        return product.reshape(np.shape(vector))

    rmatvec = matvec

    def __matmul__(self, other: Any) -> Any:
        """Return the product with a vector (n,) or, column by column, with a matrix (n, k).

        Raises
        ------
        InputError
            If it has another number of rows.
        """
        if other.ndim not in (1, 2) or other.shape[0] != self.n:
            raise InputError(
                f"the right-hand side has shape {tuple(other.shape)}; give ({self.n},) or ({self.n}, k)"
            )
        if isinstance(other, np.ndarray):
            if other.ndim == 1:
                return self.matvec(other)
            product = np.empty(other.shape, self.dtype)
            for column, vector in enumerate(other.T):
                product[:, column] = self.matvec(vector)
            return product
        import torch

        if other.ndim == 1:
            return self(other)
        columns = [self(column) for column in other.T]
        return torch.stack(columns, dim=1) if columns else other.new_empty(other.shape)

    def __call__(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the product with a flat vector.

        Raises
        ------
        InputError
            When the vector has another number of entries, or the product is not finite.
        """
        import torch

        result = self._by_differences(vector) if self.method == DIFFERENCES else self._twice(vector)
        if not torch.isfinite(result).all():
            raise InputError(
                f"a curvature product is not finite; look for errors with {command('audit', 'SERIES')}"
            )
        return result

    def _twice(self, vector: torch.Tensor) -> torch.Tensor:
        """Use double backward; once a module does not allow it, use finite differences."""
        try:
            return self._summed(vector)
        except RuntimeError as error:
            if not any(words in str(error) for words in _NO_SECOND_DERIVATIVE):
                raise
            self.method = DIFFERENCES
            self._graphs.clear()
            return self._by_differences(vector)

    def _by_differences(self, vector: torch.Tensor) -> torch.Tensor:
        r"""Return the product from two evaluations, a step ahead and a step behind.

        The step is :math:`\epsilon = \sqrt[3]{u} \, (1 + \|\theta\|) / \|v\|` with u the rounding unit of
        the parameters' type.
        """
        import torch

        here, length = self.objective.parameters, float(vector.norm())
        if length == 0:
            return torch.zeros_like(here)
        step = torch.finfo(here.dtype).eps ** (1 / 3) * (1.0 + float(here.norm())) / length
        move = step * vector.to(here.dtype)
        return self._difference(here + move, here - move, 2.0 * step)

    def _summed(self, vector: torch.Tensor) -> torch.Tensor:
        import torch

        named = self.objective.named(vector)
        parts = [value.to(self._leaves[name].dtype) for name, value in named.items()]
        total: list[torch.Tensor] | None = None
        for index, part in enumerate(self._pieces):
            gradients = self._part(self._graph(index, part), parts)
            total = gradients if total is None else [a + b for a, b in zip(total, gradients, strict=True)]
        assert total is not None
        return torch.cat([value.reshape(-1) for value in total])

    def _graph(self, index: int, part: BatchPart) -> Any:
        if index in self._graphs:
            return self._graphs[index]
        from toposcope.models._twice import twice_differentiable

        with twice_differentiable():
            if self._graphs_fit is None:
                with _counting() as count:
                    graph = self._build(part)
                self._graphs_fit = count[0] * len(self._pieces) <= self._keep_bytes
            else:
                graph = self._build(part)
        if self._graphs_fit:
            self._graphs[index] = graph
        return graph

    @abstractmethod
    def _build(self, part: BatchPart) -> Any:
        """Return the graph of a micro-batch."""

    @abstractmethod
    def _part(self, graph: Any, vector: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return a micro-batch's share of the product, parameter by parameter."""

    @abstractmethod
    def _difference(self, ahead: torch.Tensor, behind: torch.Tensor, width: float) -> torch.Tensor:
        """Return the product from the parameters ahead and behind, `width` times the vector apart."""

    def _to_differentiate(self, gradients: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return gradients that can be differentiated again; the first call refuses those that cannot."""
        if self._graphs_fit is None and _ends_in_error(gradients):
            raise RuntimeError("double backward ends at a function that is differentiable once")
        return gradients

    def _pulled(
        self, outputs: Any, weights: torch.Tensor | None = None, *, create_graph: bool = False
    ) -> list[torch.Tensor]:
        """Return the weighted gradient of `outputs` with respect to the parameters; the graph is kept."""
        import torch

        leaves = list(self._leaves.values())
        gradients = torch.autograd.grad(
            outputs, leaves, weights, create_graph=create_graph, retain_graph=True, allow_unused=True
        )
        return [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(gradients, leaves, strict=True)]


class HessianProduct(Product):
    r"""Multiplies by the Hessian: :math:`H v = \nabla (\nabla L \cdot v)`, by differentiating twice.

    If a module has no second derivative, it uses the gradients g one step ahead and one step behind:

    .. math:: H v \approx \frac{g(\theta + \epsilon v) - g(\theta - \epsilon v)}{2 \epsilon}
    """

    def _build(self, part: BatchPart) -> Any:
        loss = self.objective.call(self._leaves, part).sum() / self.objective.batch.tokens
        return self._to_differentiate(self._pulled(loss, create_graph=True))

    def _part(self, graph: Any, vector: list[torch.Tensor]) -> list[torch.Tensor]:
        import torch

        pairs = [(g, v) for g, v in zip(graph, vector, strict=True) if g.requires_grad]
        if not pairs:
            return [torch.zeros_like(v) for v in vector]
        return self._pulled([g for g, _ in pairs], [v for _, v in pairs])  # type: ignore[arg-type]

    def _difference(self, ahead: torch.Tensor, behind: torch.Tensor, width: float) -> torch.Tensor:
        return (self.objective.at(ahead).gradient() - self.objective.at(behind).gradient()) / width


class GaussNewtonProduct(Product):
    r"""Multiplies by the Gauss-Newton matrix of the cross-entropy, which is also its Fisher matrix.

    .. math:: G v = \frac{1}{T} \sum_t J_t^\top (\operatorname{diag}(p_t) - p_t p_t^\top) J_t v

    with :math:`J_t` the Jacobian of the logits of the predicted token t and :math:`p_t` their softmax. It is
    the Hessian if the logits are linear in the parameters, and never has a negative eigenvalue. If a module
    has no second derivative, :math:`J_t v` is the difference of the logits one step ahead and behind.
    """

    def _build(self, part: BatchPart) -> Any:
        import torch

        logits = self._logits(self._leaves, part)
        dual = torch.zeros_like(logits, requires_grad=True)
        return logits, dual, self._to_differentiate(self._pulled(logits, dual, create_graph=True))

    def _part(self, graph: Any, vector: list[torch.Tensor]) -> list[torch.Tensor]:
        import torch

        logits, dual, pulled = graph
        pairs = [(g, v) for g, v in zip(pulled, vector, strict=True) if g.requires_grad]
        (pushed,) = torch.autograd.grad([g for g, _ in pairs], dual, [v for _, v in pairs], retain_graph=True)
        return self._pulled(logits, self._weighted(logits, pushed))

    def _difference(self, ahead: torch.Tensor, behind: torch.Tensor, width: float) -> torch.Tensor:
        import torch

        total = torch.zeros_like(self.objective.parameters)
        for part in self._pieces:
            with torch.no_grad():
                pushed = self._logits(self.objective.named(ahead), part)
                pushed = (pushed - self._logits(self.objective.named(behind), part)) / width
            logits = self._logits(self._leaves, part)
            total += torch.cat([g.reshape(-1) for g in self._pulled(logits, self._weighted(logits, pushed))])
        return total

    def _logits(self, parameters: dict[str, torch.Tensor], part: BatchPart) -> torch.Tensor:
        """Return the logits of the predicted tokens of a micro-batch."""
        model = self.objective.model

        def scored(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return widened(model.logits(model.final_states(ids[:, :-1], mask[:, :-1])[part.scored]))

        return self.objective.with_parameters(parameters, scored, part.ids, part.mask)

    def _weighted(self, logits: torch.Tensor, pushed: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy's curvature times a change of the logits, as a part of the mean."""
        share = logits.detach().softmax(-1)
        return share * (pushed - (share * pushed).sum(-1, keepdim=True)) / self.objective.batch.tokens


def _on_cpu(objective: Objective) -> bool:
    return bool(objective.model.device.type == "cpu")


def _ends_in_error(tensors: list[torch.Tensor]) -> bool:
    """Return whether a graph has a function that can be differentiated only once.

    If gradients are requested by input, torch silently leaves out what lies behind such a function.
    """
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if node.name().endswith("autograd::Error"):
            return True
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return False


@contextmanager
def _counting() -> Iterator[list[int]]:
    """Count the bytes that a graph saves while it is being built."""
    import torch

    count, seen = [0], set()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            count[0] += math.prod(tensor.shape) * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield count
