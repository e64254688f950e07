"""Calls the native protocol for a program without gRPC: JSON lines on standard input and output.

It runs in the Python that `native.environment` returns, with the generated messages in its path. A line is either
`{"connect": {"address", "certificate", "name", "login", "password"}}`, where the certificate is the PEM text, or
`{"call": "Service.Method", "requests": [...]}`, with messages in the JSON form of protobuf. The answer is
`{"replies": [...]}`, or `{"refused": {"code", "text"}}` if the server has refused the call, or `{"gone": text}` if it
is not known whether the call was executed.
"""

import importlib
import json
import sys

import grpc
from google.protobuf import json_format, message_factory

PACKAGE = "doublet.v1"
FILES = ("change", "database", "directory", "mail", "note", "search", "session", "view")
DEADLINE_S = 20
# A server that refuses a call attaches a status with details. A broken connection has none.
DETAILS = "grpc-status-details-bin"
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)]
SHAPES = {(False, False): "unary_unary", (False, True): "unary_stream", (True, False): "stream_unary", (True, True): "stream_stream"}


def methods():
    """Returns the methods of all services by `Service.Method`."""
    modules = [importlib.import_module(f"{PACKAGE}.{name}_pb2") for name in FILES]
    services = [service for module in modules for service in module.DESCRIPTOR.services_by_name.values()]
    return {f"{service.name}.{method.name}": method for service in services for method in service.methods}


class Connection:
    """A connection with a session."""

    def __init__(self, known, options):
        self.known, self.metadata = known, ()
        credentials = grpc.ssl_channel_credentials(options["certificate"].encode())
        chosen = [*OPTIONS, ("grpc.ssl_target_name_override", options["name"])]
        self.channel = grpc.secure_channel(options["address"], credentials, chosen)
        login = {"login": options["login"], "password": options["password"]}
        self.session = self.call("Sessions.Login", [login])[0]
        self.metadata = (("authorization", f"Bearer {self.session['token']}"),)

    def call(self, name, requests):
        """Executes a call and returns its replies."""
        method = self.known[name]
        streams = (method.client_streaming, method.server_streaming)
        request_type, reply_type = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
        messages = [json_format.ParseDict(request, request_type()) for request in requests]
        stub = getattr(self.channel, SHAPES[streams])(
            f"/{method.containing_service.full_name}/{method.name}",
            request_serializer=request_type.SerializeToString, response_deserializer=reply_type.FromString)
        reply = stub(iter(messages) if streams[0] else messages[0], timeout=DEADLINE_S, metadata=self.metadata)
        replies = reply if streams[1] else [reply]
        return [json_format.MessageToDict(reply, preserving_proto_field_name=True) for reply in replies]


def main():
    """Answers one line after the other."""
    known, connection = methods(), None
    for line in sys.stdin:
        wanted = json.loads(line)
        try:
            if "connect" in wanted:
                if connection:
                    connection.channel.close()
                connection = None
                connection = Connection(known, wanted["connect"])
                answer = {"replies": [connection.session]}
            elif connection is None:
                answer = {"gone": "not connected"}
            else:
                answer = {"replies": connection.call(wanted["call"], wanted["requests"])}
        except grpc.RpcError as error:
            details = {key for key, _ in error.trailing_metadata() or ()}
            text = f"{error.code().name}: {error.details()}"
            answer = {"refused": {"code": error.code().name, "text": text}} if DETAILS in details else {"gone": text}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
