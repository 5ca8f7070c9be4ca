"""Decodes a push with OpenTelemetry's own classes, and prints it as JSON."""

import sys

from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

with open(sys.argv[1], "rb") as file:
    request = ExportMetricsServiceRequest.FromString(file.read())
print(MessageToJson(request))
