# Creates a virtual environment and installs this library into it, once. To be sourced; afterwards
# `install EXTRAS`, with extras such as "" or "[test]", and $python is the interpreter to use.
#
# AGENTS_VENV  folder of the environment, absolute or relative to the checkout (default: .venv)
# PYTHON       interpreter that creates it (default: the first on PATH that is new enough)

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="${AGENTS_VENV:-.venv}"
[[ "$venv" = /* ]] || venv="$root/$venv"
python="$venv/bin/python"

fail() {
  echo "error: $*" >&2
  exit 1
}

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python python3.13 python3.12 python3.11 python3.10}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

# Prints the path of an interpreter of version $1, on PATH or of pyenv; fails if there is none.
python_of() {
  local candidate version path pyenv probe
  probe="import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2], sys.executable)"
  pyenv="$(pyenv root 2>/dev/null || true)/versions"
  for candidate in "python$1" python3 "$pyenv/$1".*/bin/python; do
    # One that runs: pyenv has shims of versions that are not selected, and Debian splits off venv.
    read -r version path < <("$candidate" -c "$probe" 2>/dev/null) || continue
    if [ "$version" = "$1" ]; then
      echo "$path"
      return
    fi
  done
  return 1
}

make_venv() {
  local base
  base="$(find_python)" || fail "Python 3.10 or newer is needed, and none was found. Install one, or name it: PYTHON=/path/to/python3 $0"
  "$base" -c 'import venv, ensurepip' 2>/dev/null || fail "$base has no venv module. On Debian and Ubuntu: apt-get install python3-venv"
  echo "Creating $venv with $("$base" --version)." >&2
  "$base" -m venv --clear "$venv" || fail "could not create $venv"
  # The pip that comes with Python 3.10 searches for minutes for compatible versions.
  "$python" -m pip install --quiet --disable-pip-version-check --upgrade pip || fail "pip could not be upgraded; see above"
}

install() {
  local extras="$1" stamp wanted
  "$python" -m pip --version >/dev/null 2>&1 || make_venv
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$venv has $("$python" --version); Python 3.10 or newer is needed. Remove that folder and run this again."
  # Stores what asked for the installed packages, so that the next start needs no pip.
  stamp="$venv/installed${extras//[^a-z]/-}"
  wanted="$(cat "$root/pyproject.toml" "$root/setup.py" | cksum) $root"
  if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    echo "Installing into $venv; the first time, TensorFlow takes some minutes." >&2
    # setuptools warns of folders that could hide an editable package, in any project.
    PYTHONWARNINGS="ignore:Editable installation" \
      "$python" -m pip install --quiet --disable-pip-version-check --editable "$root$extras" ||
      fail "installing failed; see above. Is there a connection to a package index?"
    echo "$wanted" >"$stamp"
  fi
}
