import io
import os
import tarfile
import zipfile

import pytest
from ende_scripts import script


@pytest.fixture
def packages(monkeypatch):
  return script(monkeypatch, 'ende_packages')


@pytest.fixture
def program(tmp_path, monkeypatch):
  """Makes a shell script the program of a name."""
  folder = tmp_path / 'bin'
  folder.mkdir()
  monkeypatch.setenv('PATH', f'{folder}{os.pathsep}{os.environ["PATH"]}')

  def make(name, text):
    (folder / name).write_text(f'#!/bin/sh\n{text}\n')
    (folder / name).chmod(0o755)
  return make


def tar(path, files, mode='w'):
  with tarfile.open(path, mode) as archive:
    for name, text in files.items():
      member = tarfile.TarInfo(name)
      member.size = len(text)
      archive.addfile(member, io.BytesIO(text))
    link = tarfile.TarInfo('./usr/link.mo')
    link.type, link.linkname = tarfile.SYMTYPE, 'elsewhere.mo'
    archive.addfile(link)


def unpacked(folder):
  return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob('*') if path.is_file()}


def test_wanted_files_of_a_wheel(packages, tmp_path):
  with zipfile.ZipFile(tmp_path / 'some_name-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('x/de/a.mo', 'a')
    wheel.writestr('x/code.py', 'b')
  package = packages.Package('pypi', 'Some-Name', '1.0', r'/de/.*\.mo$')
  archive = package.fetch(tmp_path)  # it is there, so nothing is downloaded
  package.unpack(archive, tmp_path / 'out')
  assert unpacked(tmp_path / 'out') == {'x/de/a.mo': 'a'}


def test_npm_files_lie_below_the_package_name(packages, tmp_path):
  tar(tmp_path / 'scope-name-1.0.tgz', {'package/locales/de.json': b'{}', 'package/index.js': b''}, 'w:gz')
  package = packages.Package('npm', '@scope/name', '1.0', 'locales/')
  package.unpack(package.fetch(tmp_path), tmp_path / 'out')
  assert unpacked(tmp_path / 'out') == {'@scope/name/locales/de.json': '{}'}


def test_wanted_files_of_a_debian_package_are_fetched_and_unpacked(packages, tmp_path, program):
  tar(tmp_path / 'data.tar', {'./usr/de/a.mo': b'a', './usr/fr/a.mo': b'b'})
  program('apt-get', 'echo "$@" >arguments; touch name_1_all.deb')
  program('dpkg-deb', f'test "$1" = --fsys-tarfile && cat {tmp_path}/data.tar')
  folder = tmp_path / 'packages'
  folder.mkdir()
  package = packages.Package('debian', 'name', wanted=r'/de/.*\.mo$|link')
  archive = package.fetch(folder)
  assert archive == folder / 'name_1_all.deb' and (folder / 'arguments').read_text() == 'download -q name\n'
  package.unpack(archive, tmp_path / 'out')
  assert unpacked(tmp_path / 'out') == {'usr/de/a.mo': 'a'}


def test_a_broken_debian_package_ends_the_script(packages, tmp_path, program):
  program('dpkg-deb', 'exit 2')
  with pytest.raises(SystemExit, match=r"name_1_all\.deb.*not a Debian package"):
    packages.Package('debian', 'name').unpack(tmp_path / 'name_1_all.deb', tmp_path)


def test_a_failing_or_missing_client_ends_the_script_with_one_line(packages, tmp_path, program, monkeypatch):
  program('npm', 'exit 3')
  package = packages.Package('npm', 'name', '1.0')
  with pytest.raises(SystemExit, match=r"'npm pack --silent name@1.0' failed with status 3"):
    package.fetch(tmp_path)
  program('npm', 'exit 0')
  with pytest.raises(SystemExit, match='name: its client put no archive'):
    package.fetch(tmp_path)
  monkeypatch.setenv('PATH', '')
  with pytest.raises(SystemExit, match="'npm' is needed here"):
    package.fetch(tmp_path)
