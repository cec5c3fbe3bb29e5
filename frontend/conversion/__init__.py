"""Dialect conversion, torch to bascule: registry of rules, context, rewriter, extern calls, the fallback to ATen.

The rules themselves are in `frontend/rules`.
"""
