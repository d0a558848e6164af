// Request bodies of JSON routes over both versions of HTTP: types, lengths, and what a refused sender can still read.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { request } from "node:http";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { dial, exchange } from "../../kit/sluice/port.ts";
import {
  JSON_TYPE,
  openTestPort,
  overBothVersions,
  post,
  rawRefusal,
  refusal,
  text,
} from "./setup.ts";

overBothVersions(
  "JSON routes accept application/json or no content type, uncompressed",
  async (_, serve) => {
    const { ask: client } = await serve([post]);
    const ask = (headers: Record<string, string>) =>
      client({ path: "/check", method: "POST", body: "{}", headers });
    for (const type of [
      "application/json",
      "Application/JSON; charset=utf-8",
      "application/json ;a=b",
    ]) {
      assert.equal((await ask({ "content-type": type })).status, 200, type);
    }
    assert.equal((await ask({})).status, 200);
    assert.equal((await ask({ ...JSON_TYPE, "content-encoding": "identity" })).status, 200);
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/jsonx",
      "",
    ]) {
      const [status, code] = refusal(await ask({ "content-type": type }));
      assert.deepEqual([status, code], [415, 3], type);
    }
    const gzip = refusal(await ask({ ...JSON_TYPE, "content-encoding": "gzip" }));
    assert.deepEqual(gzip.slice(0, 2), [415, 3]);
  },
);

overBothVersions(
  "answers a body beyond the limit with 413, announced or not, and the reply arrives",
  async (_, serve, { largeBody }) => {
    const { ask: client } = await serve([post]);
    const ask = (size: number, announced: boolean) =>
      client({
        path: "/check",
        method: "POST",
        body: " ".repeat(size),
        headers: { ...JSON_TYPE, ...(announced && { "content-length": String(size) }) },
      });
    for (const announced of [true, false]) {
      assert.equal((await ask(1_000, announced)).body, "1000");
      assert.deepEqual(refusal(await ask(1_001, announced)).slice(0, 2), [413, 8]);
      assert.deepEqual(refusal(await ask(largeBody, announced)).slice(0, 2), [413, 8]);
    }
  },
);

test("answers a body of many chunks beyond the limit with 413", async (t) => {
  const { port } = await openTestPort(t, [post]);
  const chunked = `POST /check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n${`3e8\r\n${" ".repeat(1_000)}\r\n`.repeat(2_000)}0\r\n\r\n`;
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), chunked)), [413, 8]);
});

test("lets a client that continues to send read its refusal", async (t) => {
  const { port } = await openTestPort(t, [post]);
  const socket = dial(t, port);
  let seen = "";
  socket.on("data", (chunk) => {
    seen += chunk;
  });
  const ended = new Promise<string>((resolve) => {
    socket.on("error", () => resolve("reset"));
    socket.on("end", () => resolve("end"));
  });
  const body = Buffer.alloc(64 * 1024, " ");
  socket.write("POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: 100000000\r\n\r\n");
  while (seen === "" && !socket.destroyed) {
    socket.write(body);
    await turn();
  }
  for (let more = 0; more < 20; more++) {
    socket.write(body);
    await turn();
  }
  assert.equal(await ended, "end");
  assert.equal(rawRefusal(seen)[0], 413);
});

overBothVersions(
  "accepts bodies up to 1 MiB by default and delivers them unchanged",
  async (_, serve) => {
    const { maxBody: __, ...unbounded } = post;
    const digest = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
    const { ask: client } = await serve([
      { ...unbounded, handle: ({ body }) => text(digest(body)) },
    ]);
    const ask = (body: string) => client({ path: "/check", method: "POST", body });
    const whole = "0123456789abcdefg".repeat(62_000).slice(0, 1_048_576);
    assert.equal((await ask(whole)).body, digest(Buffer.from(whole)));
    assert.equal((await ask(`${whole}x`)).status, 413);
  },
);

test("answers expect: 100-continue with 100, or with a refusal before the body is sent", async (t) => {
  const { port } = await openTestPort(t, [post]);
  const ask = (size: number) =>
    new Promise<string>((resolve, reject) => {
      const headers = { ...JSON_TYPE, expect: "100-continue", "content-length": size };
      const { host } = port;
      const outgoing = request({
        host,
        port: port.port,
        path: "/check",
        method: "POST",
        headers,
        agent: false,
      });
      let continued = "";
      outgoing.on("continue", () => {
        continued = "continue ";
        outgoing.end(Buffer.alloc(size));
      });
      outgoing.on("response", (reply) => {
        resolve(`${continued}${reply.statusCode}`);
        outgoing.destroy();
      });
      outgoing.on("error", reject);
      outgoing.flushHeaders();
    });
  assert.equal(await ask(10), "continue 200");
  assert.equal(await ask(1_001), "413");
});
