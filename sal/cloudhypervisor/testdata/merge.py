"""Handles user-data as cloud-init does, and prints the types of its parts and the merged config as JSON.

Arguments: the directory with the modules of cloud-init, and files with user-data. Nothing is fetched and nothing of this machine
changes: modules that only networks and templates need are replaced.
"""
import json, sys
from unittest.mock import MagicMock

sys.path.insert(0, sys.argv[1])
for name in ("requests", "requests.exceptions", "configobj", "jsonpatch", "jinja2"):
    sys.modules[name] = MagicMock()

from cloudinit import handlers, user_data
from cloudinit.handlers.cloud_config import CloudConfigPartHandler

known = set(handlers.INCLUSION_TYPES_MAP.values())


def handle(path):
    merged, types, texts = CloudConfigPartHandler(MagicMock()), [], []
    with open(path, "rb") as f:
        message = user_data.UserDataProcessor(MagicMock()).process(f.read())
    for part in message.walk():
        if user_data.is_skippable(part):
            continue
        kind = part.get_content_type()
        types.append(kind if kind in known else "ignored: " + kind)
        payload = part.get_payload(decode=True).decode()
        texts.append(payload)
        if kind == "text/cloud-config":
            merged.handle_part(None, kind, part.get_filename() or "part", payload, None, part)
    return {"types": types, "texts": texts, "config": merged.cloud_buf or {}}


json.dump([handle(path) for path in sys.argv[2:]], sys.stdout)
