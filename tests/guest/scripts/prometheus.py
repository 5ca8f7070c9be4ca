"""Asks the Prometheus of metrics.sh or metrics_tls.sh, as JSON; `collect FILE` keeps what is pushed by OTLP."""

import http.server
import json
import os
import sys
import time
import urllib.parse
import urllib.request

# All questions are about the same moment.
NOW = int(time.time())
LABELS = '{mount="127.0.0.1:/exp",direction="%s"}'


def get(url, headers={}):
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10).read().decode()


def ask(query):
    url = f"http://127.0.0.1:9090/api/v1/query?" + urllib.parse.urlencode({"query": query, "time": NOW})
    return json.loads(get(url))["data"]["result"]


def value(query):
    results = ask(query)
    return float(results[0]["value"][1]) if results else None


def questions():
    """Sums since the begin, so that they are about what the store has."""
    for direction in ["read", "write"]:
        labels = LABELS % direction
        for name in ["requests", "transferred_bytes", "queue_seconds", "network_seconds", "completion_seconds"]:
            yield f"{direction}_{name}", f"trackiops_{name}_total{labels}"
        yield f"{direction}_count", f"histogram_count(trackiops_latency_seconds{labels})"
        yield f"{direction}_sum", f"histogram_sum(trackiops_latency_seconds{labels})"
        for quantile in ["0.5", "0.9", "0.99"]:
            yield f"{direction}_p{quantile}", f"histogram_quantile({quantile}, trackiops_latency_seconds{labels})"
        # The middle of the load, without its edges.
        yield f"{direction}_rate", f"rate(trackiops_requests_total{labels}[15s] offset 10s)"
        yield f"{direction}_rate_p0.9", f"histogram_quantile(0.9, rate(trackiops_latency_seconds{labels}[15s] offset 10s))"
    for operation in ["GETATTR", "LOOKUP", "WRITE"]:
        labels = f'{{mount="127.0.0.1:/exp",operation="{operation}"}}'
        yield operation, f"trackiops_operations_total{labels}"


def answers():
    yield "rates_of", [time.strftime("%FT%TZ", time.gmtime(NOW - before)) for before in (25, 10)]
    yield "scraped", {key: value(query) for key, query in questions()}
    yield "metric_names", sorted({r["metric"]["__name__"] for r in ask('{job="trackiops"}')})
    yield "series", value('scrape_samples_scraped{job="trackiops"}')
    yield "slowest_scrape", value('max_over_time(scrape_duration_seconds{job="trackiops"}[1m])')
    yield "info", ask("trackiops_mount_info")
    yield "files", [r["metric"]["path"] for r in ask('trackiops_file_requests_total{direction="read"}')]
    yield "joined", ask(f"trackiops_requests_total{LABELS % 'read'} * on (mount) group_left (server, export) trackiops_mount_info")
    yield "own", {
        name: value(f"max_over_time(trackiops_{name}[1m])")
        for name in ["recorder_bpf_seconds_total", "recorder_cpu_seconds_total", "recorder_resident_memory_bytes",
                     "ring_used_ratio", "store_writable"]
    }
    yield "alerts", ask("ALERTS")


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps the last push in a file."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/metrics" and self.headers["Content-Type"] == "application/x-protobuf"
        with open(sys.argv[2] + ".new", "wb") as file:
            file.write(body)
        os.rename(sys.argv[2] + ".new", sys.argv[2])
        self.send_response(200)
        self.end_headers()


match sys.argv[1]:
    case "collect":
        http.server.HTTPServer(("127.0.0.1", 4318), Collector).serve_forever()
    case "ready":
        get("http://127.0.0.1:9090/-/ready")
    case "ask":
        print(json.dumps(dict(answers()), indent=1))
    case "targets":
        targets = json.loads(get("http://127.0.0.1:9090/api/v1/targets"))["data"]["activeTargets"]
        scraped = {target["labels"]["job"]: {"health": target["health"], "error": target["lastError"]} for target in targets}
        print(json.dumps({
            "targets": scraped,
            "up": [r["metric"]["job"] for r in ask("trackiops_recorder_up == 1")],
            "versions": [r["metric"]["job"] for r in ask("trackiops_build_info")],
        }))
    case "openmetrics":
        print(get("http://127.0.0.1:9930/metrics", {"Accept": "application/openmetrics-text;version=1.0.0"}), end="")
    case "text":
        print(get("http://127.0.0.1:9930/metrics", {"Accept": "text/plain"}), end="")
    case "resets":
        names = {r["metric"]["__name__"] for r in ask('{__name__=~"trackiops_.*_total"}')}
        names = [name for name in names if "_file_" not in name and "_otlp_" not in name]
        print(json.dumps({
            "resets": [name for name in names if ask(f"resets({name}[30s]) > 0")],
            "requests": value(f"trackiops_requests_total{LABELS % 'read'}"),
        }))
    case "gone":
        print(json.dumps({
            "up": value("trackiops_recorder_up"),
            "requests": ask("trackiops_requests_total"),
            "pending": [r["metric"]["alertname"] for r in ask("ALERTS")],
        }))
