"""Rebuilds the English-German set and vocabulary of the embedded models from public packages.

  python scripts/build_ende_data.py --output=DIR [--further] [--packages=DIR]

Fetches with the ordinary clients (apt-get, dpkg-deb, pip, npm must be there) what
`ende_sources.FIRST` lists: LibreOffice's help and messages in Debian's release at hand (MPL-2.0),
homeassistant (Apache-2.0) from PyPI and typescript (Apache-2.0) from npm. Writes
train/validation/test.tsv.gz, one `English<TAB>German<TAB>source` a line, and spiece.model.
The splits are those of the shipped test set, which training on the others leaves unseen.
About 65 MB to download, one to three minutes on two cores.

With --further also further.tsv.gz: pairs to train on besides, from the packages of
`ende_sources.FURTHER` and, by a wider filter, from the first ones. 0.7 GB more to download.
"""

import argparse
import collections
import gzip
import pathlib

import ende_pairs as pairs
import ende_sources as sources


def texts_of(source: sources.Source, packages: pathlib.Path) -> list[tuple[str, str]]:
  """A source's (English, German) with single spaces, its packages fetched and unpacked where they are not yet."""
  folder = packages / 'unpacked' / source.name
  folder.mkdir(parents=True, exist_ok=True)
  for package in source.packages:
    archive = package.fetch(packages)
    print(f'  {archive.name}')
    package.unpack(archive, folder)
  one_line = lambda text: ' '.join(text.split())
  return [(one_line(english), one_line(german)) for english, german in source.pairs(folder)]


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


def without_unknown(rows, vocabulary: pathlib.Path):
  """The rows whose texts the vocabulary writes without its unknown piece."""
  import sentencepiece
  processor = sentencepiece.SentencePieceProcessor(model_file=str(vocabulary))
  unknown = processor.unk_id()
  return [row for row in rows if not any(unknown in ids for ids in processor.encode(list(row[:2])))]


def save(rows, output: pathlib.Path, name: str) -> None:
  """Writes `name`.tsv.gz and prints how many pairs each source gave."""
  counts = collections.Counter(source for _, _, source in rows)
  print(f'{name}: {len(rows)} pairs', dict(sorted(counts.items())))
  write(rows, output / f'{name}.tsv.gz')


def main():
  parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
  parser.add_argument('--output', type=pathlib.Path, required=True)
  parser.add_argument('--packages', type=pathlib.Path, help='default: OUTPUT/packages')
  parser.add_argument('--pieces', type=int, default=5000)
  parser.add_argument('--further', action='store_true', help='more pairs to train on, from more packages')
  arguments = parser.parse_args()
  output, vocabulary = arguments.output, arguments.output / 'spiece.model'
  packages = (arguments.packages or output / 'packages').resolve()
  output.mkdir(parents=True, exist_ok=True)
  print('Packages:')
  texts = {source.name: texts_of(source, packages)
           for source in sources.FIRST + (sources.FURTHER if arguments.further else ())}
  splits = pairs.select({source.name: texts[source.name] for source in sources.FIRST})
  for split, rows in sorted(splits.items()):
    save(rows, output, split)
  train_vocabulary(splits['train'], arguments.pieces, vocabulary)
  if arguments.further:
    known = {row[:2] for row in splits['train']}
    save(without_unknown(pairs.further(texts, known), vocabulary), output, 'further')
  print(f'Written to {output}.')


if __name__ == '__main__':
  main()
