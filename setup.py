"""Packaging: the wheel carries gin/ and configs/ inside specdec_jax, so `gin` stays gin-config."""

import pathlib
import shutil

import setuptools
from setuptools.command import build_py

ROOT = pathlib.Path(__file__).parent
CARRIED = ('gin', 'configs')


class BuildPy(build_py.build_py):
  """Copies the carried folders into the package, except in editable installs, which find them."""

  def run(self):
    super().run()
    if not self.editable_mode:
      for source, target in self._carried():
        pathlib.Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

  def get_outputs(self, include_bytecode=True):
    carried = [] if self.editable_mode else [target for _, target in self._carried()]
    return super().get_outputs(include_bytecode) + carried

  def _carried(self):
    for folder in CARRIED:
      for path in sorted((ROOT / folder).rglob('*')):
        if path.is_file() and path.suffix != '.pyc':
          target = pathlib.Path(self.build_lib, 'specdec_jax', path.relative_to(ROOT))
          yield str(path), str(target)


setuptools.setup(cmdclass={'build_py': BuildPy})  # the rest is in pyproject.toml
