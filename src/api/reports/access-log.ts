// envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs: Envoy's gRPC access log, whose entries tell which requests
// have ended. Envoy keeps one stream for each of its threads open for as long as it runs, and gets a reply only at the end.

import { Fault } from "#base/fault.ts";
import type { GrpcService, Stream } from "#base/handler.ts";
import { type EntryReader, LogMessages } from "#wire/access-log/message.ts";

const ACCESS_LOG_SERVICE = "envoy.service.accesslog.v3.AccessLogService";

/** One for each thread of each Envoy that an agent serves: many more than those of a large gateway. */
const MAX_STREAMS = 1_000;

const REPLY = new Uint8Array(0);

/**
 * Messages are read one after the other, so that Envoy can send no further ahead than the window of its stream. What is in
 * them never ends a stream: Envoy would lose what it sends meanwhile.
 */
export function accessLogService(to: EntryReader): GrpcService {
  const messages = new LogMessages();
  /** Ends of the open streams. */
  const ends = new Set<() => void>();
  let draining = false;

  async function streamAccessLogs(stream: Stream): Promise<void> {
    if (ends.size >= MAX_STREAMS) {
      throw new Fault("RESOURCE_EXHAUSTED", `wanted at most ${MAX_STREAMS} streams, got more`);
    }
    const reading = stream.messages[Symbol.asyncIterator]();
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    ends.add(end);
    try {
      if (!draining) await Promise.race([readAll(reading), ended]);
      await stream.send(REPLY);
    } finally {
      ends.delete(end);
    }
  }

  async function readAll(reading: AsyncIterator<Uint8Array>): Promise<void> {
    for (let next = await reading.next(); next.done !== true; next = await reading.next())
      messages.read(next.value, to);
  }

  return {
    name: ACCESS_LOG_SERVICE,
    access: "data",
    methods: {
      StreamAccessLogs: { kind: "stream", client: true, server: false, handle: streamAccessLogs },
    },
    drain() {
      draining = true;
      for (const end of ends) end();
    },
  };
}
