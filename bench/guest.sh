# `cargo vm run` runs bash.
# Costs are measured where no detail is left out for them.
export TRACKIOPS_RECORD_MAX_OVERHEAD=100%
exec python3 /work/overhead.py "$@"
