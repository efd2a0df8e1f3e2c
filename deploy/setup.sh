#!/bin/sh
# The one set-up of a checkout: system packages that are missing, a private
# virtual environment, and leafd built and installed into it.
#
#   deploy/setup.sh [extra ...]     default extras: hub test demo
#
# deploy/demo, tests/run and .ci/run call this first, so it is quick when there
# is nothing to do: one stamp says which dependencies were installed, another
# which sources were built. What it does beyond that it says, one line a step.
# It prints the environment's path as its last line on standard output;
# everything else goes to standard error.
#
# The installation is not an editable one. An editable one would ask ninja for
# news at every import, in four daemons and in every Spark worker at once.
#
# LEAFD_VENV     another place for the environment (default: <checkout>/.venv)
# LEAFD_PYTHON   the interpreter to make it with (default: the first fitting one)
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv=${LEAFD_VENV:-$root/.venv}
extras=${*:-hub test demo}
log=$venv/setup.log

say() { printf '%s\n' "setup: $*" >&2; }
die() { say "$*"; exit 1; }

# --- system packages --------------------------------------------------------

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# Asked before the first command whose output goes to the log: a complaint would go there too.
can_be_root() { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null 2>&1; }

name_packages() { printf '%s\n' "$missing" | sed "s/java-runtime/$(java_package)/"; }

need() {  # need PACKAGE: remember it once
    case " $missing " in *" $1 "*) ;; *) missing="${missing:+$missing }$1" ;; esac
}

fits() {  # fits PYTHON: 3.11 or newer
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${LEAFD_PYTHON:-} python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if command -v "$candidate" >/dev/null 2>&1 && fits "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
}

compiles() {  # compiles HEADER: can a C program include it
    printf '#include <%s>\nint main(void){return 0;}\n' "$1" | ${CC:-cc} -x c -fsyntax-only - 2>/dev/null
}

java_version() {
    # "17.0.15" gives 17; no java gives 0
    java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1 | grep . || echo 0
}

java_package() {
    # Ubuntu 22.04's default is Java 11, and Spark needs 17 or newer.
    if apt-cache depends default-jre-headless 2>/dev/null | grep -Eq 'openjdk-(1[7-9]|2[0-9])-'; then
        echo default-jre-headless
    else
        echo openjdk-17-jre-headless
    fi
}

missing_packages() {
    missing=
    [ -n "$python" ] || need python3
    interpreter=${python:-/usr/bin/python3}
    # A distribution's interpreter comes in parts; its packages carry the version in their name.
    package=$("$interpreter" -c 'import sys; print("python%d.%d" % sys.version_info[:2])' 2>/dev/null || echo python3)
    "$interpreter" -c 'import venv, ensurepip' >/dev/null 2>&1 || need "$package-venv"
    header=$("$interpreter" -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null || true)
    [ -f "$header/Python.h" ] || need "$package-dev"
    if command -v "${CC:-cc}" >/dev/null 2>&1; then
        compiles stdio.h || need libc6-dev
        compiles lmdb.h || need liblmdb-dev
        compiles openssl/ssl.h || need libssl-dev
    else
        need gcc; need libc6-dev; need liblmdb-dev; need libssl-dev
    fi
    command -v pkg-config >/dev/null 2>&1 || need pkg-config
    case " $extras " in
        *" hub "*) [ "$(java_version)" -ge 17 ] || need "java-runtime" ;;
    esac
}

system_packages() {
    python=$(find_python)
    missing_packages
    if [ -n "$missing" ]; then
        command -v apt-get >/dev/null 2>&1 || die "missing: $missing (Debian's names; on this system \
install their counterparts with its own package manager, then run this again)"
        can_be_root || die "packages are missing, to install them needs root, and there is no sudo here. \
As root: apt-get install $(name_packages)   Then run this again"
        say "system packages are missing; asking apt-get for its newest lists"
        watched as_root apt-get -q update || say "apt-get update failed; trying with the lists at hand"
        missing=$(name_packages)
        say "installing $missing"
        # shellcheck disable=SC2086  # a list of names
        watched as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing \
            || failed "apt-get install $missing"
        python=$(find_python)
    fi
    [ -n "$python" ] || die "no Python 3.11 or newer found; name one with LEAFD_PYTHON"
}

failed() {
    tail -n 40 "$log" >&2
    die "failed: $* (all of it: $log)"
}

# --- the virtual environment ------------------------------------------------

hash_of() {  # hash_of PATH...: one hash over names and contents
    (cd "$root" && find "$@" -type f ! -name '*.pyc' -print | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum | cut -c1-64)
}

dependency_stamp() {
    printf '%s %s\n' "$("$venv/bin/python" -V 2>/dev/null)" "$(hash_of pyproject.toml)"
}

dependencies_due() {
    same_stamp dependencies "$(dependency_stamp)" || return 0
    for extra in $extras; do
        case " $(cat "$venv/extras") " in *" $extra "*) ;; *) return 0 ;; esac
    done
    return 1
}

add_installed_extras() {
    # What an earlier run wanted stays: runs that want different extras would otherwise undo each other's work.
    for extra in $(cat "$venv/extras" 2>/dev/null || true); do
        # (Unless pyproject.toml has it no longer.)
        case " $extras " in
            *" $extra "*) ;;
            *) if grep -q "^$extra = " "$root/pyproject.toml"; then extras="$extras $extra"; fi ;;
        esac
    done
}

source_stamp() {
    (cd "$root" && ls -d pyproject.toml meson.build meson.options meson_options.txt agent native 2>/dev/null || true) |
        { set --; while read -r path; do set -- "$@" "$path"; done; hash_of "$@"; }
}

# Runs a command with its output in the log. What takes long says every ten seconds that it goes on, and with what.
watched() {
    "$@" >>"$log" 2>&1 &
    awaited $!
}

awaited() {  # awaited PID: the same for what has begun before
    running=$1
    seconds=0
    while kill -0 "$running" 2>/dev/null; do
        sleep 1
        seconds=$((seconds + 1))
        if [ $((seconds % 10)) = 0 ]; then
            say "  $seconds s: $(tail -n 1 "$log" | tr -d '\r' | sed 's/^ *//' | cut -c 1-60)"
        fi
    done
    wait "$running"
}

same_stamp() { [ -f "$venv/$1.stamp" ] && [ "$(cat "$venv/$1.stamp")" = "$2" ]; }

pip() { watched env PIP_PROGRESS_BAR=off "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

install_dependencies() {
    if ! "$venv/bin/python" -c 'import pip' >/dev/null 2>&1; then
        say "making the virtual environment $venv"
        "$python" -m venv "$venv" >>"$log" 2>&1 || failed "$python -m venv $venv"
    fi
    say "installing Python packages (extras: $extras)"
    case " $extras " in
        *" hub "*) "$venv/bin/python" -c 'import pyspark' 2>/dev/null || say "PySpark alone is 450 MB: this may take minutes" ;;
    esac
    # The build's own requirements stay installed: the build is incremental, without isolation. With them leafd is built
    # while the others are fetched and unpacked, which takes as long and is mostly one processor's work.
    required >"$venv/requirements.txt" || failed "reading pyproject.toml"
    required build >"$venv/build-requirements.txt" || failed "reading pyproject.toml"
    pip install --no-compile -r "$venv/build-requirements.txt" || failed "pip install -r $venv/build-requirements.txt"
    make_wheel >>"$log" 2>&1 &
    making=$!
    pip install --no-compile -r "$venv/requirements.txt" || failed "pip install -r $venv/requirements.txt"
    # On all processors, and without the packages' own tests, a third of what pip compiles. What is left, or does
    # not compile, Python sees to when it is imported.
    watched "$venv/bin/python" -m compileall -q -j 0 -x 'site-packages/.*/tests?/' "$venv/lib" || true
    printf '%s\n' "$extras" >"$venv/extras"
    dependency_stamp >"$venv/dependencies.stamp"
}

required() {  # required [build]: what pip is asked for; build: for the build alone
    "$venv/bin/python" - "$root/pyproject.toml" "$extras" "$@" <<'PYTHON'
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)
wanted = list(project["build-system"]["requires"])
if sys.argv[3:] != ["build"]:
    wanted += project["project"].get("dependencies", [])
known = project["project"].get("optional-dependencies", {})
for extra in sys.argv[2].split() if sys.argv[3:] != ["build"] else ():
    if extra not in known:
        sys.exit(f"pyproject.toml has no extra {extra!r}")
    wanted += known[extra]
print("\n".join(dict.fromkeys(["ninja", *wanted])))
PYTHON
}

make_wheel() {
    rm -rf "$venv/wheel"
    PATH="$venv/bin:$PATH" "$venv/bin/python" -m pip --disable-pip-version-check wheel --no-build-isolation --no-deps \
        --config-settings=build-dir="$venv/build" --wheel-dir "$venv/wheel" "$root"
}

build() {
    say "building and installing leafd"
    if [ -n "$making" ]; then awaited "$making"; else watched make_wheel; fi || failed "the build of leafd"
    pip install --no-deps --force-reinstall "$venv"/wheel/*.whl || failed "the installation of leafd"
    printf '%s\n' "$1" >"$venv/source.stamp"
}

main() {
    mkdir -p "$venv"
    # Two runs at a time would write the same environment.
    exec 9>"$venv/setup.lock"
    flock 9
    making=
    if dependencies_due; then
        : >"$log"
        add_installed_extras
        system_packages
        install_dependencies
        rm -f "$venv/source.stamp"
    fi
    stamp=$(source_stamp)
    same_stamp source "$stamp" || build "$stamp"
    printf '%s\n' "$venv"
}

main
