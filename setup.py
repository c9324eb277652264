"""Packaging: the wheel carries gin/ and configs/ inside specdec_jax, so `gin` stays gin-config."""

import pathlib
import re
import shutil

import setuptools
from setuptools.command import build_py

ROOT = pathlib.Path(__file__).parent
CARRIED = ('gin', 'configs')
LIBTPU = 'libtpu==0.0.52; platform_system == "Linux" and platform_machine == "x86_64"'  # the TPU compiler


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


def version():
  text = (ROOT / 'specdec_jax' / '__init__.py').read_text(encoding='utf-8')
  return re.search(r"^__version__ = '(.+)'$", text, re.MULTILINE)[1]


setuptools.setup(
    name='specdec_jax',
    version=version(),
    description='Exact speculative decoding for T5 in JAX',
    long_description=(ROOT / 'README.md').read_text(encoding='utf-8'),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    license_files=['LICENSE', 'NOTICE'],
    python_requires='>=3.11',
    packages=setuptools.find_packages(include=['specdec_jax', 'specdec_jax.*']),
    package_data={'specdec_jax': ['embedded/**/*']},
    cmdclass={'build_py': BuildPy},
    install_requires=[
        'absl-py',
        'etils',
        'flax>=0.12',
        'gin-config>=0.5',
        'importlib_resources',  # TFDS needs it to prepare a data set, and does not ask for it
        'jax>=0.10',
        'jaxtyping',
        'matplotlib',
        'ml_dtypes',
        'msgpack',
        'numpy',
        'optax',
        'orbax-checkpoint',
        'rouge_score',
        'sacrebleu',
        'safetensors',
        'sentencepiece',
        'seqio',
        'tensorstore',
        'tokenizers',
        'tqdm',
    ],
    extras_require={
        'tpu': ['jax[tpu]'],
        'plan': [LIBTPU],
        'gpu': ['jax[cuda13]'],
        't5x': ['t5x @ git+https://github.com/google-research/t5x'],
        'huggingface': ['torch', 'transformers'],
        'notebooks': ['jupyterlab'],
        'test': ['hypothesis', 'pytest', 'pytest-xdist', 'scipy', 'setuptools>=77', LIBTPU],
        'benchmarks': ['torch', 'transformers'],
    },
    entry_points={'console_scripts': ['specdec_jax = specdec_jax.main:run']},
    classifiers=[
        'Intended Audience :: Science/Research',
        'Programming Language :: Python :: 3.11',
        'Programming Language :: Python :: 3.12',
        'Programming Language :: Python :: 3.13',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
    ],
)
