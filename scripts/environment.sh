# Makes .venv and installs this library into it, once. To be sourced: install EXTRAS, such as "" or "[test]".
# Afterwards $python is the interpreter to use.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="$root/.venv/bin/python"

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

make_venv() {
  local base
  base="$(find_python)" || fail "Python 3.10 or newer is needed, and none was found. Install one, or name it: PYTHON=/path/to/python3 $0"
  "$base" -c 'import venv, ensurepip' 2>/dev/null || fail "$base has no venv module. On Debian and Ubuntu: apt-get install python3-venv"
  echo "Creating .venv with $("$base" --version)." >&2
  "$base" -m venv --clear "$root/.venv" || fail "could not create $root/.venv"
  # The pip that comes with Python 3.10 searches for minutes for versions that go together.
  "$python" -m pip install --quiet --disable-pip-version-check --upgrade pip || fail "pip could not be upgraded; see above"
}

install() {
  local extras="$1" stamp wanted
  "$python" -m pip --version >/dev/null 2>&1 || make_venv
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$root/.venv has $("$python" --version); Python 3.10 or newer is needed. Remove that folder and run this again."
  # What was installed is remembered together with what asked for it, so that a second start needs no pip.
  stamp="$root/.venv/installed${extras//[^a-z]/-}"
  wanted="$(cksum <"$root/setup.py") $root"
  if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    echo "Installing into .venv; TensorFlow is large, so the first time takes some minutes." >&2
    # setuptools warns of folders that could hide an editable package, in any project.
    PYTHONWARNINGS="ignore:Editable installation" \
      "$python" -m pip install --quiet --disable-pip-version-check --editable "$root$extras" ||
      fail "installing failed; see above. Is there a connection to a package index?"
    echo "$wanted" >"$stamp"
  fi
}
