"""Rebuilds the English-German set and vocabulary of the embedded models from public packages.

  python scripts/build_ende_data.py --output=DIR [--packages=DIR]

Fetches with the ordinary clients (apt-get, dpkg-deb, pip, npm must be there): Debian's
libreoffice-help-en-us, libreoffice-help-de and libreoffice-l10n-de (MPL-2.0) in the release at
hand, homeassistant (Apache-2.0) from PyPI and typescript (Apache-2.0) from npm. Writes
train/validation/test.tsv.gz, one `English<TAB>German<TAB>source` a line, and spiece.model.
The splits are those of the shipped test set, which training on the others leaves unseen.
About 65 MB to download, one to three minutes on two cores.
"""

import argparse
import collections
import gzip
import hashlib
import pathlib
import re
import subprocess
import sys

import ende_sources as sources

DEBIAN = ('libreoffice-help-en-us', 'libreoffice-help-de', 'libreoffice-l10n-de')
HOME_ASSISTANT = 'homeassistant==2026.2.3'
TYPESCRIPT = 'typescript@5.9.3'
WORDS = (3, 60)
WORD_RATIO = (0.4, 2.5)
LETTERS_AND_SPACES = 0.75
MARKUP = re.compile('[{<]')


def client(*command: str, cwd: pathlib.Path) -> None:
  """Runs a package client; a missing or failing one ends the script with one line."""
  try:
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
  except FileNotFoundError:
    sys.exit(f"'{command[0]}' is needed here and is not installed.")
  except subprocess.CalledProcessError as e:
    sys.exit(f"'{' '.join(command)}' failed with status {e.returncode}.")


def fetch(packages: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
  """Downloads what is not there; returns (folder of the unpacked, Home Assistant's wheel)."""
  packages.mkdir(parents=True, exist_ok=True)
  unpacked = packages / 'unpacked'
  unpacked.mkdir(exist_ok=True)
  for name in DEBIAN:
    if not list(packages.glob(f'{name}_*.deb')):
      client('apt-get', 'download', '-q', name, cwd=packages)
    deb = sorted(packages.glob(f'{name}_*.deb'))[-1]
    print(f'  {deb.name}')
    client('dpkg-deb', '-x', deb.name, unpacked.name, cwd=packages)
  if not list(packages.glob('homeassistant-*.whl')):
    client(sys.executable, '-m', 'pip', 'download', '-q', '--no-deps', '--only-binary=:all:',
           '--python-version=3.13.2', HOME_ASSISTANT, cwd=packages)
  if not list(packages.glob('typescript-*.tgz')):
    client('npm', 'pack', '--silent', TYPESCRIPT, cwd=packages)
  archive = sorted(packages.glob('typescript-*.tgz'))[-1]
  client('tar', 'xzf', archive.name, '-C', unpacked.name, cwd=packages)
  wheel = sorted(packages.glob('homeassistant-*.whl'))[-1]
  print(f'  {wheel.name}\n  {archive.name}')
  return unpacked, wheel


def keep(english: str, german: str) -> bool:
  """Whether a pair is translated text of a sensible length, without placeholders or markup."""
  words, others = len(english.split()), len(german.split())
  return (english != german and WORDS[0] <= words <= WORDS[1]
          and WORD_RATIO[0] <= others / words <= WORD_RATIO[1]
          and sum(c.isalpha() or c.isspace() for c in english) >= LETTERS_AND_SPACES * len(english)
          and not MARKUP.search(english) and not MARKUP.search(german))


def split_of(english: str) -> str | None:
  """The split of all near-duplicates of a text (same English letters), by a hash of the letters.

  2% each for test and validation. Another 2% is in no split (None), so that there are texts
  of the domain that neither training nor development has seen.
  """
  letters = re.sub('[^a-z]', '', english.lower())
  bucket = int(hashlib.sha256(letters.encode('ascii')).hexdigest(), 16) % 1000
  if bucket >= 60:
    return 'train'
  return (None, 'test', 'validation')[bucket // 20]


def select(pairs_by_source) -> dict[str, list[tuple[str, str, str]]]:
  """Filtered, distinct pairs by split, each split in an order that only its texts decide."""
  found = {}
  for source, pairs in pairs_by_source.items():
    for pair in pairs:
      english, german = (' '.join(text.split()) for text in pair)
      if keep(english, german):
        found.setdefault((english, german), source)
  splits: dict[str, list[tuple[str, str, str]]] = collections.defaultdict(list)
  order = lambda pair: hashlib.sha256('\t'.join(pair).encode('utf-8')).digest()
  for english, german in sorted(found, key=order):
    split = split_of(english)
    if split is not None:
      splits[split].append((english, german, found[english, german]))
  return splits


def write(rows, path: pathlib.Path) -> None:
  with gzip.GzipFile(path, 'wb', mtime=0) as f:
    f.writelines(('\t'.join(row) + '\n').encode('utf-8') for row in rows)


def train_vocabulary(rows, pieces: int, path: pathlib.Path) -> None:
  """SentencePiece unigram model with T5's ids (pad 0, EOS 1, unknown 2, no BOS) over both sides."""
  import sentencepiece
  with open(path, 'wb') as f:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(text for row in rows for text in row[:2]), model_writer=f,
        vocab_size=pieces, model_type='unigram', pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
        character_coverage=0.9999, minloglevel=1)


def main():
  parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
  parser.add_argument('--output', type=pathlib.Path, required=True)
  parser.add_argument('--packages', type=pathlib.Path, help='default: OUTPUT/packages')
  parser.add_argument('--pieces', type=int, default=5000)
  arguments = parser.parse_args()
  arguments.output.mkdir(parents=True, exist_ok=True)
  print('Packages:')
  unpacked, wheel = fetch((arguments.packages or arguments.output / 'packages').resolve())
  splits = select({
      'libreoffice-help': sources.libreoffice_help(unpacked),
      'libreoffice-l10n': sources.libreoffice_messages(unpacked),
      'home-assistant': sources.home_assistant(wheel),
      'typescript': sources.typescript(unpacked)})
  for split, rows in sorted(splits.items()):
    counts = collections.Counter(source for _, _, source in rows)
    print(f'{split}: {len(rows)} pairs', dict(sorted(counts.items())))
    write(rows, arguments.output / f'{split}.tsv.gz')
  train_vocabulary(splits['train'], arguments.pieces, arguments.output / 'spiece.model')
  print(f'Written to {arguments.output}.')


if __name__ == '__main__':
  main()
