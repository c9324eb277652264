"""What a user can mend. Every such mistake is a `UserError`, and its message is one line.

The command line prints the message of a `UserError` alone. Any other exception is a fault of the
program and is shown with its traceback.
"""


class UserError(ValueError):
  """A mistake that the user can mend: the message names the thing and what to do about it."""


class SettingError(UserError):
  """An argument or setting has a wrong type or value."""


class ConfigError(UserError):
  """A gin configuration cannot run."""


class InputError(UserError):
  """An input file or an example in it cannot be used."""


class CheckpointError(UserError):
  """A checkpoint or model directory cannot be used."""


class OutputError(UserError):
  """An output directory cannot be used: it belongs to another job, or cannot be written."""


class MissingError(UserError, FileNotFoundError):
  """A file or directory that was named does not exist."""

  __str__ = UserError.__str__


class DependencyError(UserError, ImportError):
  """An optional package is not installed."""

  __str__ = UserError.__str__


class OutOfMemory(UserError):
  """The device cannot hold what was asked for: the message says which setting to lower."""


class RunFailed(UserError):
  """A run that came to its end with something wrong; its results were written first."""


class HostFailed(UserError, ConnectionError):
  """Another process of the job failed; the message has its reason."""

  __str__ = UserError.__str__
