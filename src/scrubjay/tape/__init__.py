"""The append-only record of one pod: encode, append, sync, read, recover, seal, verify.

The format is specified in docs/tape-format.md. Modules a keeper loads (``format``, ``disk``,
``watermark``, ``writer``) import nothing but the standard library, and little of that.
"""
