// Streaming methods for tests of streaming calls.

import assert from "node:assert/strict";
import type { Call, Method, Stream } from "#base/handler.ts";
import type { TestCall } from "./harness.ts";

export type Handle = (stream: Stream, call: Call) => Promise<void>;

export const streaming = (client: boolean, server: boolean) => {
  return (handle: Handle): Method => ({ kind: "stream", client, server, handle });
};

export const bidirectional = streaming(true, true);

export const clientStream = streaming(true, false);

export const serverStream = streaming(false, true);

export const echo: Handle = async ({ messages, send }) => {
  for await (const each of messages) await send(each);
};

export const last = Buffer.alloc(0);

export function assertReleased({ stream }: TestCall, clock: { readonly alarms: number }): void {
  assert.ok(stream.localClosed);
  assert.deepEqual([stream.working, stream.held, clock.alarms], [false, 0, 0]);
}

export const texts = ({ stream }: TestCall) => stream.reply.messages.map(String);
