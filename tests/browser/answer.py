"""Runs `trackiops` in the guest of recording.sh for the host: arguments come as JSON, and its status and output go back."""

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        arguments = json.loads(self.rfile.read(int(self.headers["content-length"])))
        ended = subprocess.run(["trackiops", *arguments], capture_output=True, text=True)
        body = json.dumps({"status": ended.returncode, "stdout": ended.stdout, "stderr": ended.stderr}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


HTTPServer(("10.0.2.15", int(sys.argv[1])), Answer).serve_forever()
