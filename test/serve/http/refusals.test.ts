// Requests that a JSON route refuses, and what follows garbage on a connection.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { arrived } from "../../kit/attack/server-end.ts";
import { dial, exchange, readAll } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";
import {
  heldRoute,
  openTestPort,
  overBothVersions,
  post,
  rawRefusal,
  refusal,
  route,
  text,
} from "./setup.ts";

test("garbage after a request in progress neither replaces its reply nor mixes with it", async (t) => {
  const slow = heldRoute("/slow", "late");
  const { port } = await openTestPort(t, [slow.route]);
  const socket = dial(t, port);
  socket.write("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n");
  await slow.begun;
  const all = exchange(socket, "GARBAGE\r\n\r\n");
  await arrived(socket);
  slow.release();
  const said = await all;
  const statuses = [...said.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
  assert.deepEqual(statuses, ["200", "400"]);
  assert.match(said, /\r\n\r\nlateHTTP/, "the complete reply comes first, then the refusal");
});

test("sends the replies to requests that were read together with garbage", async (t) => {
  const { port } = await openTestPort(t, [post]);
  const ask = (body: string) =>
    `POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const said = await exchange(dial(t, port), `${ask("1")}${ask("22")}${ask("333")}GARBAGE\r\n\r\n`);
  const told = [...said.matchAll(/HTTP\/1\.1 (\d+).*?\r\n\r\n(\d?)/gs)].map(([, ...all]) =>
    all.join(),
  );
  assert.deepEqual(told, ["200,1", "200,2", "200,3", "400,"]);
});

test("sends nothing after a reply with connection: close", async (t) => {
  const { port, counted } = await openTestPort(t, [post, route({ path: "/here" })]);
  const last = "connection: close\r\n";
  for (const [sent, status] of [
    [`GET /here HTTP/1.1\r\nhost: x\r\n${last}\r\nGET /here HTTP/1.1\r\nhost: x\r\n\r\n`, "200"],
    [`POST /check HTTP/1.1\r\nhost: x\r\n${last}content-length: 1\r\n\r\n1x`, "200"],
    ["POST /none HTTP/1.1\r\nhost: x\r\nte: x\r\ncontent-length: 2\r\n\r\n{}x", "404"],
    ["HEAD /none HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}x", "404"],
  ] as const) {
    const said = await exchange(dial(t, port), sent);
    const statuses = [...said.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    assert.deepEqual(statuses, [status], sent);
    // A refusal that was not sent is not counted either.
    await until("the reply is counted", () => counted.length > 0);
    assert.deepEqual(
      counted.splice(0).map((one) => String(one.status)),
      [status],
      sent,
    );
  }
});

overBothVersions(
  "errors do not repeat input, and errors other than Fault reveal nothing",
  async (_, serve) => {
    const { port, ask } = await serve([
      route({
        path: "/now",
        handle: () => {
          throw new Error("the secret");
        },
      }),
      route({ path: "/later", handle: () => Promise.reject(new Error("the secret")) }),
      route({
        path: "/busy",
        handle: (_, call) => {
          call.reply("content-type", "text/odd");
          throw new Fault("UNAVAILABLE", "busy");
        },
      }),
      route({
        path: "/odd",
        handle: () => ({ status: 200, headers: { bad: "a\r\nb" }, body: "" }),
      }),
      route({
        path: "/odd-later",
        handle: async (_, call) => {
          call.reply("bad", "a\r\nb");
          return text("");
        },
      }),
    ]);
    for (const path of ["/now", "/later", "/odd", "/odd-later"]) {
      assert.deepEqual(refusal(await ask({ path })), [500, 13, "internal error"], path);
    }
    assert.equal(port.log.lines.length, 4);
    assert.equal(String(port.log.lines[0]?.fields?.["error"]), "Error: the secret");
    const busy = await ask({ path: "/busy" });
    assert.equal(busy.headers["retry-after"], "1");
    assert.deepEqual(refusal(busy), [503, 14, "busy"]);
    assert.ok(!(await ask({ path: "/canary" })).body.includes("canary"));
  },
);

test("answers malformed requests with 400 and counts them with an empty method", async (t) => {
  const { port, counted } = await openTestPort(t, [post]);
  const malformed = [
    "GARBAGE\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: x\r\nbad header: 1\r\n\r\n",
    "POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
  ];
  for (const sent of malformed) {
    const reply = await exchange(dial(t, port), sent);
    assert.match(reply, /^HTTP\/1\.1 400 /, sent);
  }
  const told = counted.map(({ method, status, route }) => [method, status, route]);
  assert.deepEqual(told, Array(malformed.length).fill(["", 400, ""]));
  counted.length = 0;
  const broken = "POST /check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nrubbish\r\n";
  assert.match(await exchange(dial(t, port), broken), /^HTTP\/1\.1 400 /);
  assert.deepEqual(
    counted.map(({ status }) => status),
    [0],
    "counted once, as the request that it is",
  );
});

test("requires exactly one host field, except over HTTP/1.0", async (t) => {
  const { port, counted } = await openTestPort(t, [route({ path: "/" })]);
  for (const [head, status] of [
    ["GET / HTTP/1.1\r\n", 400],
    ["GET / HTTP/1.1\r\nhost: x\r\nHOST: y\r\n", 400],
    ["GET / HTTP/1.0\r\nhost: x\r\nhost: x\r\n", 400],
    ["GET / HTTP/1.0\r\n", 200],
    ["GET / HTTP/1.1\r\nHost: x\r\nconnection: close\r\n", 200],
  ] as const) {
    // Without an end of the connection this would wait.
    const reply = await exchange(dial(t, port), `${head}\r\n`);
    assert.ok(reply.startsWith(`HTTP/1.1 ${status} `), `${head}: ${reply}`);
    if (status === 400) assert.deepEqual(rawRefusal(reply), [400, 3]);
    assert.deepEqual([counted.pop()?.status, counted.length], [status, 0], "counted once");
  }
});

test("ignores an unknown expectation, and counts the request", async (t) => {
  const { port, counted } = await openTestPort(t, [route({ path: "/" })]);
  const expects = "GET / HTTP/1.1\r\nhost: x\r\nexpect: miracles\r\nconnection: close\r\n\r\n";
  assert.match(await exchange(dial(t, port), expects), /^HTTP\/1\.1 200 /);
  assert.deepEqual(
    counted.map(({ status }) => status),
    [200],
  );
});

test("refuses CONNECT", async (t) => {
  const { port, counted } = await openTestPort(t, [route({ path: "/" })]);
  const tunnel = "CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n\x16\x03";
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), tunnel)), [405, 12]);
  const socket = dial(t, port);
  const seen = readAll(socket);
  socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("it is answered", () => counted.length === 2);
  socket.write(tunnel);
  assert.match(await seen, /^HTTP\/1\.1 200 .*hereHTTP\/1\.1 405 /s);
  assert.deepEqual(
    counted.map(({ status }) => status),
    [405, 200, 405],
  );
  const left = dial(t, port);
  left.write(tunnel);
  left.resetAndDestroy();
  assert.match(
    await exchange(dial(t, port), tunnel),
    /405/,
    "a client that disconnects affects no other",
  );
});

overBothVersions(
  "answers more than 1 000 headers with 431 instead of dropping some",
  async (_, serve) => {
    const { ask } = await serve([route({ path: "/" })], { max_header_bytes: 1_000_000 });
    const many = (count: number) =>
      ask({
        headers: Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${at}`, "1"])),
      });
    assert.equal((await many(980)).status, 200);
    for (const count of [1_200, 1_900]) {
      const [status, code, message] = refusal(await many(count));
      assert.deepEqual([status, code], [431, 8]);
      assert.match(String(message), /^(more than 1000|too many) headers/);
    }
  },
);

// Node passes headers on in groups of 32 and drops whole groups beyond its own bound.
for (const max_headers of [20, 32, 64, 100, 1_000]) {
  test(`accepts ${max_headers} headers and no more`, async (t) => {
    const { port } = await openTestPort(t, [route({ path: "/" })], { max_headers });
    const head = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    const most = max_headers - 2;
    assert.match(
      await exchange(dial(t, port), `${head}${"x: 1\r\n".repeat(most)}\r\n`),
      /^HTTP\/1\.1 200 /,
    );
    for (const more of [1, 31, 32, 33, 64, 500]) {
      const beyond = `${head}${"x: 1\r\n".repeat(most + more)}\r\n`;
      assert.deepEqual(rawRefusal(await exchange(dial(t, port), beyond)), [431, 8]);
    }
  });
}
