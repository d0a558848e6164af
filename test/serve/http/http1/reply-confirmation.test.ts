// True if a caller over HTTP/1.1 has taken a reply, as its socket tells.

import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { test } from "node:test";
import {
  MAX_UNCONFIRMED_BYTES,
  ReplyConfirmation,
  SharedReplyMemory,
} from "#serve/http/http1/reply-confirmation.ts";
import { fakeClock } from "../../../kit/clock.ts";

function connection(replyMemory = new SharedReplyMemory()) {
  const clock = fakeClock();
  const socket = Object.assign(new EventEmitter(), {
    bytesRead: 100,
    writable: true,
    writes: 0,
    write() {
      this.writes++;
    },
    destroySoon() {},
  });
  const confirmation = new ReplyConfirmation(socket as unknown as Socket, { clock, replyMemory });
  const released: string[] = [];
  const add = (name: string, size = 100) =>
    confirmation.add({ size, release: () => void released.push(name) });
  return { clock, socket, confirmation, released, add };
}

test("a connection that fails releases what its caller has not taken; one that ends in order, nothing", () => {
  const failed = connection();
  failed.add("a");
  failed.add("b");
  failed.socket.emit("close", true);
  assert.deepEqual(failed.released, ["a", "b"]);
  const ended = connection();
  ended.add("a");
  ended.socket.emit("close", false);
  assert.deepEqual(ended.released, []);
});

test("a request that was sent after a reply confirms it; one that had been read before does not", () => {
  const { socket, confirmation, released, add } = connection();
  add("confirmed");
  socket.bytesRead = 200;
  confirmation.requestArrived();
  add("pipelined");
  confirmation.requestArrived();
  socket.emit("close", true);
  assert.deepEqual(released, ["pipelined"]);
});

test("an end is answered at once without such replies, and otherwise after the time of a reset", () => {
  const { clock, confirmation, socket, add } = connection();
  let closed = 0;
  const close = () => closed++;
  confirmation.whenEnded(close);
  assert.deepEqual([closed, socket.writes], [1, 0]);
  add("a");
  socket.emit("end");
  assert.equal(socket.writes, 1, "asks the system for a reset");
  confirmation.whenEnded(close);
  assert.equal(closed, 1);
  clock.advance(250);
  assert.equal(closed, 2);
});

test("all connections hold 16 MiB at most, and give them back when they close", () => {
  const memory = new SharedReplyMemory();
  const [one, other] = [connection(memory), connection(memory)];
  one.add("one", MAX_UNCONFIRMED_BYTES);
  other.add("too many", 1);
  one.socket.emit("close", false);
  other.add("fits", MAX_UNCONFIRMED_BYTES);
  other.socket.emit("close", true);
  assert.deepEqual([one.released, other.released], [[], ["fits"]]);
});
