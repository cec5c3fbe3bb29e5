"""Decompositions of the fused optimizer steps (`_fused_adamw` and its like) into pointwise operators, one parameter after the other.

Bias corrections are computed in double precision from the step, as the fused kernels do: `1 - 0.999 ** step` loses four digits in f32.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from bascule.compat.operators.schemas import OpOverload

aten = torch.ops.aten
Number: TypeAlias = float | Tensor


def _gradient(grad: Tensor, maximize: bool, grad_scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gradient to step along, and the one that the operator leaves in `grads`."""
    unscaled = grad if grad_scale is None else grad / grad_scale
    return (-unscaled if maximize else unscaled), unscaled


def _unless_inf(found_inf: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    """`new`, or `old` where a gradient was infinite and the step is skipped."""
    return new if found_inf is None else torch.where(found_inf == 1, old, new)


def _adam(decoupled: bool) -> Callable:
    def adam(
        params: Sequence[Tensor],
        grads: Sequence[Tensor],
        exp_avgs: Sequence[Tensor],
        exp_avg_sqs: Sequence[Tensor],
        max_exp_avg_sqs: Sequence[Tensor],
        state_steps: Sequence[Tensor],
        *,
        lr: Number,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None,
    ) -> tuple[list[Tensor], ...]:
        outputs: tuple[list[Tensor], ...] = ([], [], [], [], [])
        for i, (param, grad, mean, square, step) in enumerate(zip(params, grads, exp_avgs, exp_avg_sqs, state_steps)):
            direction, left = _gradient(grad, maximize, grad_scale)
            new = param
            if decoupled:
                new = new * (1 - lr * weight_decay)
            elif weight_decay != 0:
                direction = direction + new * weight_decay
            new_mean = torch.lerp(mean, direction, 1 - beta1)
            new_square = square * beta2 + (1 - beta2) * direction * direction
            steps = step.double()
            largest = torch.maximum(max_exp_avg_sqs[i], new_square) if amsgrad else new_square
            correction = 1 - torch.pow(beta2, steps)
            denominator = torch.sqrt(largest) / torch.sqrt(correction) + eps
            new = new - (lr / (1 - torch.pow(beta1, steps))) * (new_mean / denominator)
            outputs[0].append(_unless_inf(found_inf, new, param))
            outputs[1].append(left)
            outputs[2].append(_unless_inf(found_inf, new_mean, mean))
            outputs[3].append(_unless_inf(found_inf, new_square, square))
            if amsgrad:
                outputs[4].append(_unless_inf(found_inf, largest, max_exp_avg_sqs[i]))
        return outputs

    return adam


def _sgd(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    momentum_buffers: Sequence[Tensor],
    *,
    weight_decay: float,
    momentum: float,
    lr: Number,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> tuple[list[Tensor], ...]:
    outputs: tuple[list[Tensor], ...] = ([], [], [])
    for i, (param, grad) in enumerate(zip(params, grads)):
        direction, left = _gradient(grad, maximize, grad_scale)
        if weight_decay != 0:
            direction = direction + weight_decay * param
        if momentum != 0:
            old = momentum_buffers[i]
            buffer = direction if is_first_step else momentum * old + (1 - dampening) * direction
            direction = direction + momentum * buffer if nesterov else buffer
            outputs[2].append(_unless_inf(found_inf, buffer, old))
        outputs[0].append(_unless_inf(found_inf, param - lr * direction, param))
        outputs[1].append(left)
    return outputs


def _adagrad(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    state_sums: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    *,
    lr: Number,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> tuple[list[Tensor], ...]:
    outputs: tuple[list[Tensor], ...] = ([], [], [], [])
    for param, grad, total, step in zip(params, grads, state_sums, state_steps):
        direction, left = _gradient(grad, maximize, grad_scale)
        if weight_decay != 0:
            direction = direction + weight_decay * param
        rate = lr / (1 + (step.double() - 1) * lr_decay)
        new_total = total + direction * direction
        new = param - rate * direction / (torch.sqrt(new_total) + eps)
        outputs[0].append(_unless_inf(found_inf, new, param))
        outputs[1].append(left)
        outputs[2].append(_unless_inf(found_inf, new_total, total))
        outputs[3].append(step)
    return outputs


DECOMPOSITIONS: dict[OpOverload, Callable] = {
    aten._fused_adam.default: _adam(decoupled=False),
    aten._fused_adam.tensor_lr: _adam(decoupled=False),
    aten._fused_adamw.default: _adam(decoupled=True),
    aten._fused_adamw.tensor_lr: _adam(decoupled=True),
    aten._fused_sgd.default: _sgd,
    aten._fused_sgd.tensor_lr: _sgd,
    aten._fused_adagrad.default: _adagrad,
}
