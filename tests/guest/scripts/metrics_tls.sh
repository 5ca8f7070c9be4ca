# A real Prometheus in another network namespace scrapes by TLS, with a certificate and a password. All of its jobs but one lack something.
. /work/lib.sh

certificate() { # NAME EXTENSIONS [ISSUER]
    printf '[req]\ndistinguished_name = name\nprompt = no\n[name]\nCN = %s\n[extensions]\n%b\n' "$1" "$2" >"$1.cnf"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -config "$1.cnf" -extensions extensions \
        -keyout "$1.key" -out "$1.crt" ${3:+-CA "$3.crt" -CAkey "$3.key"} 2>/dev/null
    chmod 644 "$1.key"
}

mkdir /tmp/tls
cd /tmp/tls
for name in authority other; do
    certificate "$name" 'basicConstraints = critical, CA:TRUE'
done
certificate server 'subjectAltName = IP:10.8.0.1' authority
certificate scraper 'subjectAltName = DNS:scraper.example' authority
certificate another_name 'subjectAltName = DNS:another.example' authority
certificate of_other 'subjectAltName = DNS:scraper.example' other
# The hash is of `fakepassword`.
cat >web.yml <<'EOF'
tls_server_config:
  cert_file: server.crt
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: authority.crt
  client_allowed_sans: [scraper.example]
basic_auth_users:
  prometheus: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi
EOF

modprobe veth
ip netns add scraper
ip link add scraper type veth peer name eth0 netns scraper
ip addr add 10.8.0.1/24 dev scraper
ip link set scraper up
ip -n scraper addr add 10.8.0.2/24 dev eth0
ip -n scraper link set eth0 up
ip -n scraper link set lo up

start_recorder
setpriv --reuid=65534 --regid=0 --clear-groups trackiops metrics --listen 10.8.0.1:9930 --web-config /tmp/tls/web.yml \
    2>"$OUT/metrics.err" &
METRICS=$!

# job NAME AUTHORITY CERTIFICATE USER PASSWORD [SERVER]
job() {
    cat <<EOF
  - job_name: $1
    scheme: https
    static_configs: [{targets: ["10.8.0.1:9930"]}]
    tls_config:
      ca_file: /tmp/tls/$2.crt
      ${3:+cert_file: /tmp/tls/$3.crt}
      ${3:+key_file: /tmp/tls/$3.key}
      ${6:+server_name: $6}
    basic_auth: {username: $4, password: $5}
EOF
}
{
    echo 'global: {scrape_interval: 5s, scrape_timeout: 5s}'
    echo 'scrape_configs:'
    job right authority scraper prometheus fakepassword
    job wrong_authority other scraper prometheus fakepassword
    job wrong_server authority scraper prometheus fakepassword nas.example
    job no_certificate authority '' prometheus fakepassword
    job wrong_certificate authority of_other prometheus fakepassword
    job wrong_name authority another_name prometheus fakepassword
    job wrong_user authority scraper nobody fakepassword
    job wrong_password authority scraper prometheus wrong
    echo '  - job_name: no_tls'
    echo '    static_configs: [{targets: ["10.8.0.1:9930"]}]'
} >/tmp/scrapes.yml
ip netns exec scraper prometheus --config.file=/tmp/scrapes.yml --storage.tsdb.path=/var/tmp/scrapes \
    --web.listen-address=127.0.0.1:9090 >"$OUT/prometheus.err" 2>&1 &
PROMETHEUS=$!

targets() {
    ip netns exec scraper python3 /work/prometheus.py targets >"$OUT/targets.json" 2>"$OUT/targets.err"
}
# Until each job was scraped, and the right one also after its password was checked.
all_scraped() {
    targets && ! grep -q '"unknown"' "$OUT/targets.json" && grep -q '"up": \["right"\]' "$OUT/targets.json"
}
wait_for 120 all_scraped
# Also on the next connections, beside those that are refused.
sleep 6
targets
cp /tmp/scrapes.yml "$OUT/"
kill -TERM "$METRICS" "$PROMETHEUS"
wait "$METRICS"
stop_recorder TERM
