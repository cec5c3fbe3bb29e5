"""The order that is kept of a growing graph, against a closure computed anew."""

from bascule.dialect.fusion.cycle_check import Dependencies
from hypothesis import given, settings
from hypothesis import strategies as st


def closure(edges: dict[int, set[int]]) -> dict[int, set[int]]:
    """Everything that each node depends on."""
    found = {node: set(needs) for node, needs in edges.items()}
    for _ in edges:
        for needs in found.values():
            needs |= {far for near in set(needs) for far in found[near]}
    return found


@settings(deadline=None, max_examples=300)
@given(
    steps=st.lists(st.tuples(st.sampled_from(("edge", "merge")), st.integers(0, 11), st.integers(0, 11)), max_size=40)
)
def test_answers_are_those_of_the_closure(steps):
    graph, edges, names = Dependencies(), {n: set() for n in range(12)}, list(range(12))
    for _ in range(12):
        graph.add()
    for step, left, right in steps:
        a, b = names[left], names[right]
        before = closure(edges)
        assert graph.depends(left, right) == (b in before[a] and a != b)
        third = any(
            (x in before[a] and b in before[x]) or (x in before[b] and a in before[x]) for x in edges if x not in (a, b)
        )
        assert a == b or graph.between(left, right) == third
        if a == b:
            continue
        if step == "edge" and a not in before[b]:
            graph.depend(left, [right])
            edges[a].add(b)
        elif step == "merge" and not third:
            graph.merge(left, right)
            edges[a] = (edges[a] | edges.pop(b)) - {a, b}
            for needs in edges.values():
                if b in needs:
                    needs.remove(b)
                    needs.add(a)
            edges[a].discard(a)
            names = [a if name == b else name for name in names]


def test_a_chain_costs_what_its_edges_cost():
    """A query on a long chain looks at the few nodes in question."""
    graph, looked = Dependencies(), 0
    reached = graph._reached

    def counted(*arguments):
        nonlocal looked
        for node in reached(*arguments):
            looked += 1
            yield node

    graph._reached = counted
    for n in range(2000):
        graph.depend(graph.add(), [n - 1] if n else [])
        if n > 2:
            assert graph.between(n, n - 2) and graph.depends(n, n - 2) and not graph.depends(n - 2, n)
    assert looked < 20_000
