"""Receives OTLP over HTTP and gRPC, and prints each export as one line of JSON.

The first line says where it listens. What is exported is printed as the protocol's own JSON form has it, except for
ids, which are in hexadecimal as everywhere else. With `--hang` it takes exports and never answers; with `--refuse` it
answers 503, or UNAVAILABLE. With `--tls CERTIFICATE KEY` it speaks TLS.
"""

import base64
import json
import os
import ssl
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
TLS = sys.argv[2:] if MODE == "--tls" else None
printing = threading.Lock()
forever = threading.Event()


def told(value):
    with printing:
        print(json.dumps(value), flush=True)


def hexed(value):
    if isinstance(value, list):
        return [hexed(one) for one in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64decode(one).hex() if key in ids else hexed(one) for key, one in value.items()}


def received(protocol, signal, headers, message):
    told({"protocol": protocol, "signal": signal, "headers": headers, "export": hexed(MessageToDict(message))})
    if MODE == "--hang":
        forever.wait()


class Web(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kinds = {"/v1/traces": ("traces", traces), "/v1/metrics": ("metrics", metrics)}
        signal, module = kinds[self.path[self.path.rindex("/v1/") :]]
        name = "ExportTraceService" if signal == "traces" else "ExportMetricsService"
        if self.headers["Content-Type"] != "application/x-protobuf":
            self.send_error(415)
            return
        message = getattr(module, name + "Request").FromString(body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        received("http", signal, {**headers, ":path": self.path}, message)
        answer = getattr(module, name + "Response")().SerializeToString()
        self.send_response(503 if MODE == "--refuse" else 200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        # A client that does not trust the certificate disconnects during the handshake.
        pass


def called(signal, request, context, answer):
    received("grpc", signal, dict(context.invocation_metadata()), request)
    if MODE == "--refuse":
        context.abort(grpc.StatusCode.UNAVAILABLE, "refused")
    return answer()


class Traces(traces_grpc.TraceServiceServicer):
    def Export(self, request, context):
        return called("traces", request, context, traces.ExportTraceServiceResponse)


class Metrics(metrics_grpc.MetricsServiceServicer):
    def Export(self, request, context):
        return called("metrics", request, context, metrics.ExportMetricsServiceResponse)


web = Server(("127.0.0.1", 0), Web)
web.daemon_threads = True
server = grpc.server(futures.ThreadPoolExecutor(8))
traces_grpc.add_TraceServiceServicer_to_server(Traces(), server)
metrics_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
if TLS:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*TLS)
    # The handshake must run on the connection's own thread, not on the thread that accepts connections.
    web.socket = context.wrap_socket(web.socket, server_side=True, do_handshake_on_connect=False)
    certificate, key = (Path(path).read_bytes() for path in TLS)
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
told({"http": f"127.0.0.1:{web.server_port}", "grpc": f"127.0.0.1:{port}"})
threading.Thread(target=web.serve_forever, daemon=True).start()
# The receiver runs until the test closes its input.
sys.stdin.read()
os._exit(0)
