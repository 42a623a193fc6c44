"""What a Python peer saw: the same three files as trace.mjs writes, see there.

Also the two data values of samples.mjs, so that every pair of peers exchanges the same awkward content.
"""

import asyncio
import json
import os

from pydantic import BaseModel

AWKWARD = {
    "emoji": "👩‍👩‍👧‍👦 naïve Ω≈ç√ 日本語 \u2028\u2029 \u0000\u001f\u007f",
    "lone": "\ud83d",
    "escapes": '"\\/\b\f\n\r\t</script>',
    "big": 123456789012345678901234567890,
    "small": -1.25e-7,
    "round": 1.0,
    "nothing": None,
    "": [[], {}, [None, False, 0, ""]],
    "id": 1,
    "method": "session/update",
    "jsonrpc": "1.0",
    "idempotencyKey": "not a key: it stands in _meta",
    "sessionId": 7,
}

BIG_TEXT = "aé日😀" * ((1 << 20) // 10)


def plain(value):
    """The value as JSON data, members that were never set left out."""
    if isinstance(value, BaseModel):
        return {
            (type(value).model_fields[name].alias or name): plain(getattr(value, name))
            for name in type(value).model_fields
            if name in value.model_fields_set
        }
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def describe(error):
    """An error as the application sees it."""
    return {
        "code": getattr(error, "code", None),
        "message": str(error),
        "data": plain(getattr(error, "data", None)),
    }


class Trace:
    def __init__(self, directory, who):
        os.makedirs(directory, exist_ok=True)
        for suffix in ("log", "in", "out"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            setattr(self, suffix + "_file", os.open(f"{directory}/{who}.{suffix}", flags, 0o644))

    def log(self, **event):
        os.write(self.log_file, json.dumps(plain(event)).encode() + b"\n")

    def record_reads(self, reader=asyncio.StreamReader):
        """Records what this reader is fed.

        By default every reader of the process: an agent has only one, and it may be fed before the SDK
        returns it. A client also has one for the agent's stderr.
        """
        feed = reader.feed_data

        def recording_feed(*arguments):
            os.write(self.in_file, arguments[-1])
            feed(*arguments)

        reader.feed_data = recording_feed

    def record_writes(self, writer):
        write = writer.write

        def recording_write(data):
            os.write(self.out_file, data)
            write(data)

        writer.write = recording_write
