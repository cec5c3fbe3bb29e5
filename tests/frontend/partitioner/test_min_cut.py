"""The partitioner saves nothing for the backward that is cheap to compute again."""

import torch


def mixture(scores, x, weight):
    """Each row of `x` goes to its two best experts, sorted by expert, as a mixture of experts does it."""
    values, experts = torch.topk(scores.softmax(-1), 2)
    values = values / values.sum(-1, keepdim=True)
    order = torch.sort(experts.reshape(-1), stable=True)[1]
    rows, factors = x[order // 2], values.reshape(-1)[order]
    return (rows @ weight) * factors.unsqueeze(-1)


def test_gathered_weights_of_experts_are_gathered_again():
    saved = []
    arguments = [torch.randn(*sizes, requires_grad=True) for sizes in ((24, 5), (24, 8), (8, 8))]
    compiled = torch.compile(mixture, backend="bascule", options={"on_error": "raise"})
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        got = compiled(*arguments)
    assert [t.shape for t in saved if t.is_floating_point() and t.shape in ((48,), (48, 1))] == []
    exact = [a.detach().double().requires_grad_() for a in arguments]
    want = torch.autograd.grad(mixture(*exact).square().sum(), exact)
    for grad, right in zip(torch.autograd.grad(got.square().sum(), arguments), want):
        torch.testing.assert_close(grad, right.float())
