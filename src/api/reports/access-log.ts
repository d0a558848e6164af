// envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs: Envoy's gRPC access log, whose entries tell which requests
// have ended. Envoy keeps one stream for each of its threads open for as long as it runs, and gets a reply only at the end.

import { Fault } from "#base/fault.ts";
import type { Call, GrpcService, Stream } from "#base/handler.ts";
import { SharedPlaces } from "#base/shared-places.ts";
import { HttpLogEntry } from "#wire/access-log/entry.ts";
import { type EntryReader, readLogMessage } from "#wire/access-log/message.ts";
import { PacedReader } from "./paced-reader.ts";

const ACCESS_LOG_SERVICE = "envoy.service.accesslog.v3.AccessLogService";

/**
 * Streams that are open at one time, of which one client has at most half. Envoy opens one for each of its threads: many more
 * than those of a large gateway.
 */
const MAX_STREAMS = 2_000;

const REPLY = new Uint8Array(0);

/** Counts the streams of access logs. */
export interface StreamMeter {
  opened(): void;
  closed(): void;
  /** A stream is refused: its client has too many, or all clients together have. */
  refused(why: "client" | "all"): void;
}

const NO_METER: StreamMeter = { opened() {}, closed() {}, refused() {} };

/**
 * Messages of a stream are read one after the other, so that Envoy can send no further ahead than the window of its stream.
 * Bad entries are counted and never end a stream: Envoy would lose what it sends meanwhile.
 */
export function accessLogService(to: EntryReader, meter: StreamMeter = NO_METER): GrpcService {
  const reader = new PacedReader();
  const entry = new HttpLogEntry();
  /** Limit of streams, shared by the addresses of clients. */
  const places = new SharedPlaces(MAX_STREAMS);
  /** Ends of the open streams. */
  const ends = new Set<() => void>();
  let draining = false;

  async function streamAccessLogs(stream: Stream, { peer }: Pick<Call, "peer">): Promise<void> {
    if (!places.hasRoomFor(peer)) throw refusal(places.count < MAX_STREAMS ? "client" : "all");
    const reading = stream.messages[Symbol.asyncIterator]();
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    places.take(peer);
    ends.add(end);
    meter.opened();
    try {
      if (!draining) await Promise.race([readAll(reading), ended]);
      await stream.send(REPLY);
    } finally {
      ends.delete(end);
      places.giveBack(peer);
      meter.closed();
    }
  }

  function refusal(why: "client" | "all"): Fault {
    meter.refused(why);
    const wanted = `at most ${MAX_STREAMS} access log streams, and of one client no more than are free`;
    return new Fault("RESOURCE_EXHAUSTED", `wanted ${wanted}, got another one`);
  }

  async function readAll(reading: AsyncIterator<Uint8Array>): Promise<void> {
    for (let next = await reading.next(); next.done !== true; next = await reading.next())
      await reader.read(readLogMessage(next.value, to, entry));
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
