# Sourced by the other scripts: chooses a Python and makes the virtual environment they run in.
# PYTHON=... names the interpreter to use instead.

# Whether $1 is a Python 3.$2 ($2 may be a pattern) that can make virtual environments.
is_python() {
  local found
  found="$("$1" -c 'import ensurepip, venv' 2>/dev/null && version_of "$1")" \
    && [[ "$found" == 3.$2 ]]
}

version_of() {
  "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}

# Whether $1 can build a C++ extension: seqio's dependency editdistance has no wheel for 3.13.
can_compile() {
  local headers
  headers="$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
  command -v c++ >/dev/null && [[ -e "$headers/Python.h" ]]
}

# Prints the newest Python from 3.13 down to 3.11: by name, else one that pyenv keeps.
choose_python() {
  local minor candidate
  if [[ -n "${PYTHON:-}" ]]; then
    is_python "$PYTHON" '1[123]' && { echo "$PYTHON"; return; }
    echo "PYTHON=$PYTHON is no Python 3.11 to 3.13 with the modules venv and ensurepip." >&2
    return 1
  fi
  for minor in 13 12 11; do
    for candidate in "python3.$minor" python3 python \
        "${PYENV_ROOT:-${HOME:-}/.pyenv}/versions/3.$minor."*/bin/python; do
      is_python "$candidate" "$minor" || continue
      if [[ "$minor" == 13 ]] && ! can_compile "$candidate"; then
        echo "Passing over $candidate: under Python 3.13 a dependency (editdistance) must be" \
          "compiled, and there is no C++ compiler or no Python.h." >&2
        continue
      fi
      echo "$candidate"
      return
    done
  done
  echo "No Python 3.11 to 3.13 with the modules venv and ensurepip was found. Install one" \
    "(Debian, Ubuntu: apt-get install python3 python3-venv) or name it: PYTHON=/path/to/python." >&2
  return 1
}

# make_environment NAME REQUIREMENT: .venv/NAME-VERSION with the project at REQUIREMENT
# ('.' or '.[test]'), editable, at the versions of the constraints file; sets ENVIRONMENT.
# Does nothing where that was done before for the same setup.py, constraints and folder.
make_environment() {
  local python version constraints stamp
  python="$(choose_python)"
  version="$(version_of "$python")"
  constraints="scripts/constraints-$version.txt"
  ENVIRONMENT="$PWD/.venv/$1-$version"
  stamp="$2 $PWD $(cat setup.py pyproject.toml "$constraints" | cksum)"
  if [[ "$(cat "$ENVIRONMENT/.installed" 2>/dev/null)" == "$stamp" ]]; then
    echo "Python $version, environment .venv/$1-$version as it is."
    return
  fi
  echo "Python $version ($("$python" -c 'import sys; print(sys.executable)')):" \
    "installing into .venv/$1-$version (0.9 GB to download, 3 GB on disk)."
  "$python" -m venv --clear "$ENVIRONMENT"
  "$ENVIRONMENT/bin/python" -m pip install --quiet --disable-pip-version-check \
    --no-compile --constraint "$constraints" --editable "$2"
  echo "$stamp" > "$ENVIRONMENT/.installed"
}
