# Makes the calls of a plan (a JSON file) with gRPC's Python library and prints one line of JSON per event: each
# message received, and the end of each call.

import base64
import json
import sys
import threading

import grpc

PRINTING = threading.Lock()

def metadata_in(pairs):
    return [(k, base64.b64decode(v) if k.endswith("-bin") else v) for k, v in pairs]


def metadata_out(metadata):
    return [
        [k, base64.b64encode(v).decode() if isinstance(v, bytes) else v]
        for k, v in metadata or ()
    ]


def report(name, **event):
    with PRINTING:
        print(json.dumps({"call": name, **event}), flush=True)


def begin(channel, call):
    sides = call["sides"]
    messages = [base64.b64decode(message) for message in call["messages"]]
    options = {
        "metadata": metadata_in(call.get("metadata", [])),
        "timeout": call.get("timeout"),
        "compression": grpc.Compression.Gzip if call.get("gzip") else None,
    }
    if sides == "unary_unary":
        return channel.unary_unary(call["path"]).future(messages[0], **options)
    if sides == "unary_stream":
        return channel.unary_stream(call["path"])(messages[0], **options)
    if sides == "stream_unary":
        return channel.stream_unary(call["path"]).future(iter(messages), **options)
    return channel.stream_stream(call["path"])(iter(messages), **options)


def run(channel, call):
    name = call["name"]
    begun = begin(channel, call)
    if "cancel" in call:
        threading.Timer(call["cancel"], begun.cancel).start()
    left = call.get("take")
    try:
        replies = begun if call["sides"].endswith("_stream") else iter([begun.result()])
        for reply in replies:
            report(name, message=base64.b64encode(reply).decode())
            if left is not None:
                left -= 1
                if left == 0:
                    begun.cancel()
    except (grpc.RpcError, grpc.FutureCancelledError):
        pass
    report(
        name,
        code=begun.code().value[0],
        details=begun.details(),
        initial=metadata_out(begun.initial_metadata()),
        trailing=metadata_out(begun.trailing_metadata()),
    )


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    if "roots" in plan:
        with open(plan["roots"], "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        channel = grpc.secure_channel(plan["target"], credentials)
    else:
        channel = grpc.insecure_channel(plan["target"])
    with channel:
        threads = [
            threading.Thread(target=run, args=(channel, call)) for call in plan["calls"]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


main()
