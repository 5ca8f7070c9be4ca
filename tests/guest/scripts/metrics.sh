# A real Prometheus with native histograms scrapes a recording. OTLP pushes are saved: Debian's Prometheus does not accept them.
. /work/lib.sh

sysctl -qw kernel.bpf_stats_enabled=1
start_recorder
# As the user `nobody`, but in the store's group.
setpriv --reuid=65534 --regid=0 --clear-groups trackiops metrics --listen 127.0.0.1:9930 --metrics-top-files 3 \
    --otlp http://127.0.0.1:4318 --otlp-interval 1s 2>"$OUT/metrics.err" &
METRICS=$!

cat >/tmp/scrapes.yml <<'EOF'
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [/work/trackiops.rules.yml]
scrape_configs:
  - job_name: trackiops
    static_configs: [{targets: ["127.0.0.1:9930"]}]
EOF
prometheus --config.file=/tmp/scrapes.yml --storage.tsdb.path=/var/tmp/scrapes --web.listen-address=127.0.0.1:9090 \
    --enable-feature=native-histograms >"$OUT/prometheus.err" 2>&1 &
PROMETHEUS=$!
python3 /work/prometheus.py collect "$OUT/pushed" 2>"$OUT/collect.err" &
COLLECTOR=$!
wait_for 60 python3 /work/prometheus.py ready
sleep 3

mkdir -p /mnt/nfs/dir
fio --name=steady --directory=/mnt/nfs --rw=randrw --rwmixread=70 --bs=16k --size=8m --numjobs=3 --direct=1 --thread \
    --ioengine=psync --time_based --runtime=30 --rate_iops=20 --output=/dev/null
stat /mnt/nfs/missing 2>/dev/null || true
# Wait for the last window, the status after it, and a scrape.
sleep 5
python3 /work/prometheus.py ask >"$OUT/asked.json"
for name in openmetrics text; do
    python3 /work/prometheus.py "$name" >"$OUT/$name"
done
promtool check metrics <"$OUT/text" >"$OUT/lint" 2>&1 || true
promtool check rules /work/trackiops.rules.yml >"$OUT/rules" 2>&1
trackiops status --json >"$OUT/status.json" || true

# A restart of only the metrics resets no counter.
kill -TERM "$METRICS"
wait "$METRICS"
setpriv --reuid=65534 --regid=0 --clear-groups trackiops metrics --listen 127.0.0.1:9930 2>>"$OUT/metrics.err" &
METRICS=$!
sleep 4
python3 /work/prometheus.py resets >"$OUT/resets.json"
list_files /mnt/nfs
stop_recorder TERM
sleep 8
python3 /work/prometheus.py gone >"$OUT/gone.json"
kill -TERM "$METRICS" "$PROMETHEUS" "$COLLECTOR"
wait "$METRICS"
keep_store
