// A connection without memory for another call has its SETTINGS_MAX_CONCURRENT_STREAMS lowered, until half of its memory
// is free, to the byte.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import type { RequestHead, RequestStream } from "#h2/exchange.ts";
import { Http2Server } from "#h2/http2-server.ts";
import {
  BUFFERED_PER_CALL,
  BUFFERED_PER_FIELD_BYTE,
  MAX_BUFFERED_FOR_NEW_CALL,
  MAX_BUFFERED_PER_CONNECTION,
  MAX_CONCURRENT_CALLS,
} from "#h2/limits.ts";
import { ReadScheduler } from "#h2/read-scheduler.ts";
import {
  ACK,
  END_HEADERS,
  grpcFields,
  headers,
  PREFACE,
  SETTINGS,
  settings,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { MemoryPeer, turns } from "../../kit/clients/memory-peer.ts";
import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { portSettings } from "../../kit/sluice/port.ts";

const HALF = MAX_BUFFERED_PER_CONNECTION / 2;

test("a throttled connection may open more calls again when exactly half of its memory is free", async (t) => {
  const { http, grpc } = portSettings();
  const clock = fakeClock();
  const calls: { readonly stream: RequestStream; readonly head: RequestHead }[] = [];
  const scheduler = new ReadScheduler(clock);
  const server = new Http2Server({
    scheduler,
    settings: { ...http, ...grpc },
    clock,
    log: memoryLog(),
    meter: undefined,
    handleRequest(stream, head) {
      calls.push({ stream, head });
      return { data() {}, aborted() {}, drained() {}, timedOut: () => false };
    },
  });
  t.after(() => server.cut());
  const peer = new MemoryPeer(scheduler);
  t.after(() => peer.socket.destroy());
  server.accept(peer.socket as unknown as Socket);
  /** The limits of calls that the peer was told after the first SETTINGS. */
  const limits = () =>
    peer
      .of(SETTINGS)
      .flatMap(({ flags, payload }) =>
        (flags & ACK) === 0 && payload.length === 6 ? [payload.readUInt32BE(2)] : [],
      );
  const make = (id: number) => headers(id, block(grpcFields("/test.Any/Call")), END_HEADERS);

  await peer.send(PREFACE, settings(), make(1));
  const [first] = calls;
  assert.ok(first);
  const { stream, head } = first;
  assert.ok(stream.reserve(MAX_BUFFERED_FOR_NEW_CALL));
  await peer.send(make(3));
  assert.deepEqual([calls.length, limits()], [1, [1]], "the second call is refused");

  const ownCost = BUFFERED_PER_CALL + head.size * BUFFERED_PER_FIELD_BYTE;
  stream.release(MAX_BUFFERED_FOR_NEW_CALL + ownCost - HALF - 1);
  await turns();
  assert.deepEqual(limits(), [1], "one byte more than half is taken");
  stream.release(1);
  await turns();
  assert.deepEqual(limits(), [1, MAX_CONCURRENT_CALLS]);
  await peer.send(make(5));
  assert.equal(calls.length, 2);
});
