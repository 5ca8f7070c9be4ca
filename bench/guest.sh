# `cargo vm run` runs bash.
# Measure without shedding any detail.
export TRACKIOPS_RECORD_MAX_OVERHEAD=100%
exec python3 /work/overhead.py "$@"
