"""How a server writes its log: one event per line, as text for people or JSON for programs."""

from __future__ import annotations

import logging
import sys

import structlog

from scrubjay.settings import Settings


def set_up_logging(settings: Settings) -> None:
    """Log to standard error, in the format and from the level that was set."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    as_json = settings.log_format == "json" or (settings.log_format is None and not sys.stderr.isatty())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if as_json:
        last: list[structlog.types.Processor] = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    else:
        # Without the values of variables, which other formatters show: some are secrets.
        plain = structlog.dev.plain_traceback
        last = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(processors=[_drop_stdlib_fields, *last], foreign_pre_chain=shared)
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))  # libraries have little to say that anybody wants to read


def _drop_stdlib_fields(_logger: object, _name: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    event.pop("_record", None)
    event.pop("_from_structlog", None)
    return event
