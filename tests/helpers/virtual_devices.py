"""Runs a script on eight virtual devices of a CPU, in a process of its own: XLA reads its flags once."""

import json
import os
import pathlib
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
FLAGS = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"


def run(script: pathlib.Path, directory: pathlib.Path, *names: str) -> dict:
  """`python SCRIPT DIRECTORY NAME...`; returns the facts.json that it writes."""
  paths = [str(TESTS.parent), str(TESTS / 'helpers'), os.environ.get('PYTHONPATH', '')]
  subprocess.run([sys.executable, str(script), str(directory), *names], check=True, env={
      **os.environ, 'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': FLAGS, 'PYTHONPATH': os.pathsep.join(paths)})
  return json.loads((directory / 'facts.json').read_text())
