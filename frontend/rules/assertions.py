"""Assertions about the elements of a tensor: only an operator of ATen's can raise."""

from ..conversion import LeftToAten, rule


@rule("aten._assert_async.default", "aten._assert_async.msg")
def assert_async(c, *arguments):
    raise LeftToAten("an assertion")
