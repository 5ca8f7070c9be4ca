# `cargo vm run` runs bash.
exec python3 /work/overhead.py "$@"
