"""Dynamo's setting `verbose`, read once a capture.

Dynamo reads it at each instruction that it traces, to keep the latest for its log, and a setting is looked up by a function in Python: 0.15 s
of the capture of a GPT-2 of 24 layers. Inside `verbose_at_hand` the module of settings has its value as an attribute.

How settings are looked up is private to PyTorch. Checked on torch 2.11 to 2.14.
"""

from bascule.compat.graphs.dynamo import config

from ..patch import Patch

_NAME = "verbose"


def _make() -> None:
    if hasattr(config, _NAME):
        vars(config)[_NAME] = getattr(config, _NAME)


def _undo() -> None:
    vars(config).pop(_NAME, None)


verbose_at_hand = Patch(_make, _undo)
