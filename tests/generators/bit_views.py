"""Memory that is seen as other numbers: real and imaginary parts, conjugated and negated views, other dtypes; among them views and writes.

The programs are those of `aliases`, over a storage of complex numbers, all of whose parts are whole and small.
"""

from random import Random

from tests.generators import aliases

VIEWS = (
    "{a}.conj()",
    "{a}.real",
    "{a}.imag",
    "{a}.mH",
    "torch.view_as_real({a})",
    "torch.view_as_complex({a})",
    "{a}.view(torch.int32)",
    "{a}.view(torch.float32)",
    "{a}.resolve_conj()",
    "{a}.resolve_neg()",
    "{a}.chunk(2)[0]",
    "{a}.split(2, -1)[1]",
    "{a}.unbind()[1]",
    "{a}.flatten()",
)
NEW = (
    "{a} * 1j",
    "{a} * 2",
    "{a} - {b}.sum()",
    "{a}.clone()",
    "torch.complex({a}, {a})",
    "{a} == {b}.sum()",
)
WRITES = (
    "{a}.mul_(2)",
    "{a}.add_({b}.sum())",
    "{a}.copy_({a}.conj())",
    "{a}.conj().add_(2)",
    "{a}.real.mul_(3)",
    "{a}.imag.copy_({a}.real)",
    "{a}[0] = 5",
)


class Program(aliases.Program):
    known = (
        "s[2 : 2 + 4 * n].view(n, 4)",
        "s[: 4 * n].view(n, 4).t()",
        "s[: 4 * n].view(n, 4).conj()",
        "s.real[: 4 * n].unflatten(0, (n, 4))",
        "s.conj().imag[1 : 1 + 4 * n].unflatten(0, (n, 4))",
        "torch.view_as_real(s)[: 4 * n]",
        "torch.view_as_real(s).view(torch.int32)[2:]",
        "s[:4].expand(n, 4)",
        "s",
        "s.clone()[: 4 * n].view(n, 4)",
        "s.clone().conj()",
    )
    frame = aliases.FRAME.replace(
        "torch.randint(-8, 9, (80,)).float(){grad}",
        "torch.complex(*torch.randint(-8, 9, (2, 43)).float()){grad}",
    )


def draw(random: Random) -> Program:
    def step(a: str, b: str) -> tuple[str, bool]:
        kind = random.random()
        texts = WRITES if kind < 0.3 else NEW if kind > 0.75 else VIEWS + aliases.VIEWS
        return random.choice(texts).format(a=a, b=b), texts is not WRITES

    return aliases.draw_of_steps(Program, random, step)
