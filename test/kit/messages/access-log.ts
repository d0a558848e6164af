// Messages of Envoy's gRPC access log, encoded by a library that shares nothing with our reader.

import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { MessagesByName } from "#gen/messages-by-name.ts";
import type { HttpLogEntry } from "#wire/access-log/entry.ts";
import { type EntryReader, readLogMessage } from "#wire/access-log/message.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";

const HTTPAccessLogEntrySchema = schemaOf("envoy.data.accesslog.v3.HTTPAccessLogEntry");
const StreamAccessLogsMessageSchema = schemaOf(
  "envoy.service.accesslog.v3.StreamAccessLogsMessage",
);
type HTTPAccessLogEntry = MessagesByName["envoy.data.accesslog.v3.HTTPAccessLogEntry"];

export type Message = MessageInitShape<typeof StreamAccessLogsMessageSchema>;
export type Entry = Exclude<MessageInitShape<typeof HTTPAccessLogEntrySchema>, HTTPAccessLogEntry>;

export function logMessage(message: Message): Buffer {
  return Buffer.from(
    toBinary(
      StreamAccessLogsMessageSchema,
      create(StreamAccessLogsMessageSchema, message) as never,
    ),
  );
}

/** A message with these requests. */
export function httpMessage(entries: readonly Entry[]): Buffer {
  return logMessage({ logEntries: { case: "httpLogs", value: { logEntry: [...entries] } } });
}

/** Reads a whole message at once, each entry into `entry`. */
export function readWhole(message: Uint8Array, to: EntryReader, entry?: HttpLogEntry): void {
  const steps = readLogMessage(message, to, entry);
  while (steps.next().done !== true);
}

/** Time in ms as a google.protobuf.Duration. */
export function duration(ms: number) {
  const ns = Math.round(ms * 1e6);
  return { seconds: BigInt(Math.trunc(ns / 1e9)), nanos: ns % 1e9 };
}

/** A request with a decision (Base64) whose check took 2 ms. `common` replaces fields of `common_properties`. */
export function entryOf(decision: string, common: Readonly<Record<string, unknown>> = {}): Entry {
  return {
    commonProperties: {
      metadata: {
        filterMetadata: {
          other: { "aperture.check_response": "not this" },
          "envoy.filters.http.ext_authz": {
            "aperture.check_response": decision,
            ext_authz_duration: 2,
            more: { deep: [1, "two", null, true] },
          },
        },
      },
      timeToLastRxByte: duration(1),
      timeToFirstUpstreamTxByte: duration(3),
      timeToLastUpstreamTxByte: duration(4),
      timeToFirstUpstreamRxByte: duration(30),
      timeToLastUpstreamRxByte: duration(31),
      timeToFirstDownstreamTxByte: duration(30.5),
      timeToLastDownstreamTxByte: duration(32.25),
      duration: duration(33),
      customTags: { own: "1.5" },
      upstreamCluster: "service",
      responseFlags: { upstreamRemoteReset: true },
      accessLogType: 6,
      ...common,
    },
    request: { requestId: "id-1", requestBodyBytes: 40n, path: "/", requestHeaders: { a: "b" } },
    response: {
      responseCode: 200,
      responseBodyBytes: 1_000n,
      responseCodeDetails: "via_upstream",
    },
  };
}
