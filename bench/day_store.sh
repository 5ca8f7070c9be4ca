# Sourced by scripts that measure queries on a synthetic day.

# store FILES HOURS: prints the path of the store of that day, and makes it in the cache if it is missing. It is named by the content of its
# inputs.
store() {
    local key dir
    key=$(git ls-files -- bench/day collector/src schemas/src store/src crates/threads/src Cargo.lock | xargs sha256sum | sha256sum | cut -c1-16)
    dir=${XDG_CACHE_HOME:-$HOME/.cache}/trackiops/day-$key/$1-files-$2-hours
    if [ ! -d "$dir" ]; then
        echo "bench: making a day of $1 files and $2 hours in the cache" >&2
        mkdir -p "$(dirname "$dir")"
        rm -rf "$dir.new"
        cargo run --release --locked --quiet --package trackiops-bench-day -- \
            --store "$dir.new" --files "$1" --hours "$2" --compact >&2
        mv "$dir.new" "$dir"
    fi
    echo "$dir"
}
