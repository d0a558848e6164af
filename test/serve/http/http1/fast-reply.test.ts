// Replies of the fast path share memory, unless a socket still reads from it.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { FastReplyWriter } from "#serve/http/http1/fast-reply.ts";
import { fakeClock } from "../../../kit/clock.ts";

/** A socket that keeps what it is given, as the stream of a socket does until the system accepts it. */
class FullSocket {
  readonly written: Buffer[] = [];
  writableLength = 0;
  accepts = true;

  write(bytes: Buffer): void {
    this.written.push(bytes);
    if (!this.accepts) this.writableLength += bytes.length;
  }
}

function open() {
  const socket = new FullSocket();
  const writer = new FastReplyWriter({ clock: fakeClock(), settings: { idle_timeout: 0 } });
  const send = (body: string | Uint8Array) =>
    writer.send(socket as unknown as Socket, "HEAD\r\n\r\n", body, Buffer.byteLength(body));
  return { socket, writer, send };
}

test("replies that the system accepts at once share memory", () => {
  const { socket, send } = open();
  assert.ok(send("one"));
  assert.ok(send("three"));
  const [one, three] = socket.written;
  assert.equal(three?.toString(), "HEAD\r\n\r\nthree");
  assert.equal(one?.buffer, three?.buffer);
});

test("a reply that it does not accept is not overwritten", () => {
  const { socket, send } = open();
  send("before");
  socket.accepts = false;
  assert.equal(send("waits"), false);
  send("next");
  socket.accepts = true;
  socket.writableLength = 0;
  send(Buffer.from("later"));
  const [, waits, next, later] = socket.written;
  assert.equal(waits?.toString(), "HEAD\r\n\r\nwaits");
  assert.equal(next?.toString(), "HEAD\r\n\r\nnext");
  assert.equal(later?.toString(), "HEAD\r\n\r\nlater");
});

test("long replies have memory of their own", () => {
  const { socket, send } = open();
  const long = "x".repeat(100_000);
  send(long);
  send("short");
  const [first, second] = socket.written;
  assert.equal(first?.toString(), `HEAD\r\n\r\n${long}`);
  assert.notEqual(first?.buffer, second?.buffer);
});

test("refuses fields that cannot be sent", () => {
  const { writer } = open();
  const head = (name: string, value: string) => writer.head(200, [name, value], 0, false);
  assert.match(head("x-name_1", "a\tb\xe9"), /^HTTP\/1\.1 200 OK\r\nx-name_1: a\tb\xe9\r\nDate: /);
  for (const name of ["", "a b", "a:", "a\r\n", "\xe9"]) assert.throws(() => head(name, "x"), name);
  for (const value of ["a\r\nb", "a\nb", "\0", "\u20ac"]) assert.throws(() => head("x", value));
});
