"""The modules of scripts/ that build the English-German data, and a file as one of them reads it."""

import importlib
import pathlib
import struct

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / 'scripts'


def script(monkeypatch, name: str):
  """The module scripts/NAME.py; the folder is on the path for the length of the test."""
  monkeypatch.syspath_prepend(str(SCRIPTS))
  return importlib.import_module(name)


def pak(texts: dict[int, bytes], version: int = 5, encoding: int = 1) -> bytes:
  """Chromium's .pak: a header, (id, offset) of each resource and of the end, the resources."""
  start = 12 + 6 * (len(texts) + 1)
  data = struct.pack('<IBxxxHH', version, encoding, len(texts), 0)
  for number, text in texts.items():
    data += struct.pack('<HI', number, start)
    start += len(text)
  return data + struct.pack('<HI', 0, start) + b''.join(texts.values())
