# Sourced by proxy/run, tests/run and bench/run: installs what is missing and builds a preset. Everything it says goes to
# stderr, since stdout may be the protocol. Needs: $root, the top of the source tree.

say() { printf '%s\n' "$*" >&2; }

# The packages that a build of keyhop needs (Debian 12's names).
build_packages="g++ cmake ninja-build pkg-config libuv1-dev libsimdjson-dev libfmt-dev libspdlog-dev libcli11-dev libsqlite3-dev libsodium-dev nlohmann-json3-dev libtomlplusplus-dev catch2 python3"

# need_packages NAME...: installs those that are missing; nothing at all if none is.
need_packages() {
    missing=
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        say "This script installs Debian packages, and there is no apt-get here. Please install the like of:$missing"
        return 1
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            say "Not root, and no sudo. Please run as root: apt-get install$missing"
            return 1
        fi
        as_root="sudo"
    fi
    say "Installing Debian packages:$missing"
    log=$(mktemp)
    if ! { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing; } >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        say "The installation failed; the whole log is in $log"
        return 1
    fi
    rm -f "$log"
}

# build PRESET TARGET...: configures once, then builds what is out of date; silent if nothing is.
build() {
    preset=$1
    shift
    dir=$root/build/$preset
    if [ ! -f "$dir/build.ninja" ]; then
        say "Configuring build/$preset"
        (cd "$root" && cmake --preset "$preset") >"$root/build/$preset.log" 2>&1 || { tail -n 30 "$root/build/$preset.log" >&2; return 1; }
    fi
    if ! cmake --build "$dir" --target "$@" -- -n 2>/dev/null | grep -q 'no work to do'; then
        say "Building build/$preset"
        cmake --build "$dir" --target "$@" >"$root/build/$preset.log" 2>&1 || { tail -n 60 "$root/build/$preset.log" >&2; return 1; }
    fi
}
