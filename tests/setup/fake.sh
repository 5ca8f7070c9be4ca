#!/usr/bin/env bash
# Plays each command that could change a machine, by the name it is called with. Files in $FAKE are the machine: `rust` and `components`
# are what cargo and rustc have, `rustup` and `rustc` the versions of the distribution's packages, `log` what has run.
name=${0##*/}
has() { [ -e "$FAKE/$1" ]; }
# Puts fake commands beside this one, or into a directory.
add() {
    local to=${2:-${0%/*}} command
    for command in $1; do [ -e "$to/$command" ] || cp "$0" "$to/$command"; done
}
# A toolchain with all components, which the environment may hide.
give() {
    [ -n "$RUSTUP_TOOLCHAIN" ] || echo "$1" >"$FAKE/rust"
    touch "$FAKE/components"
}
case "$name $*" in
    cargo\ --version | rustc\ --version) has rust && echo "$name $(cat "$FAKE/rust") (f2d3ce0bd 2026-03-21)"; exit ;;
    cargo*) has components; exit ;;
    id*) cat "$FAKE/uid"; exit ;;
    uname*) cat "$FAKE/machine"; exit ;;
    apt-cache*) printf '%s:\n  Installed: (none)\n  Candidate: %s\n' "$2" "$(cat "$FAKE/$2" 2>/dev/null || echo '(none)')"; exit ;;
    sha256sum*) exit 0 ;;
    curl*) echo "curl ${*: -1}" >>"$FAKE/log" ;;
    apt-get*) echo "apt-get ${*: -1}" >>"$FAKE/log" ;;
    *) echo "$name $*" >>"$FAKE/log" ;;
esac
! has "no-$name" || { echo "$name: refused" >&2; exit 1; }
case "$name $*" in
    rustup\ toolchain\ install*) give "$3" && add "cargo rustc" ;;
    rustup\ component\ add*) touch "$FAKE/components" ;;
    rustup\ default) has default ;;
    apt-get*--no-remove*rustup) ! has conflicts && add "rustup cargo rustc" ;;
    apt-get*install*rustc*) give "$(cut -d+ -f1 "$FAKE/rustc")" && add "cargo rustc" ;;
    curl*) while [ "$1" != --output ]; do shift; done; cp "$0" "$2" ;;
    rustup-init*) mkdir -p "$HOME/.cargo/bin" && give "$6" && add "cargo rustc" "$HOME/.cargo/bin" ;;
esac
