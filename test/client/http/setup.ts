// Servers and assertions that the tests of the HTTP client share.

import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { type Code, Fault } from "#base/fault.ts";
import type { Answering } from "../../prometheus/kit.ts";

export const hello: Answering = (_, reply) => reply.end("hello");
export const silence: Answering = () => undefined;

export function fails(work: Promise<unknown>, code: Code, words: RegExp): Promise<void> {
  return assert.rejects(work, (thrown) => {
    assert.ok(thrown instanceof Fault, String(thrown));
    assert.deepEqual([thrown.code, words.test(thrown.message)], [code, true], thrown.message);
    return true;
  });
}

export async function deadPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** A server that hears a connection's first bytes. */
export async function rawServer(t: TestContext, take: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("data", () => take(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}
