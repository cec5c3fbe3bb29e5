"""Tokens that order effects in an exported program: inputs and outputs of its graph, which no caller has."""

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from ..compat.operators.custom_operators import MAKE_TOKEN, SINK_TOKENS


def unlift_tokens(program: ExportedProgram) -> None:
    """Takes tokens from the inputs and outputs of `program`, in place: its graph makes the first one and drops the last, as AOTAutograd's
    graphs do."""
    graph, signature = program.graph, program.graph_signature
    inputs, output = graph.find_nodes(op="placeholder"), graph.output_node()
    for node, spec in zip(inputs, signature.input_specs, strict=True):
        if spec.kind == InputKind.TOKEN:
            with graph.inserting_before(node):
                made = graph.call_function(MAKE_TOKEN)
            made.meta = dict(node.meta)
            node.replace_all_uses_with(made)
            graph.erase_node(node)
    (results,) = output.args
    kept = [spec.kind != OutputKind.TOKEN for spec in signature.output_specs]
    if last := [node for node, keep in zip(results, kept, strict=True) if not keep]:
        with graph.inserting_before(output):
            graph.call_function(SINK_TOKENS, (last,))
    output.args = (tuple(node for node, keep in zip(results, kept) if keep),)
    signature.input_specs = [spec for spec in signature.input_specs if spec.kind != InputKind.TOKEN]
    signature.output_specs = [spec for spec in signature.output_specs if spec.kind != OutputKind.TOKEN]
    program.graph_module.recompile()
