// Access to administration by browsers: by the page that a request comes from, by the host that it names, and by the type of its body.

import assert from "node:assert/strict";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { http1 } from "../kit/clients/http.ts";
import { folderOf } from "../kit/folder.ts";
import {
  type Ask,
  JSON_TYPE,
  open,
  over1,
  over2,
  statuses,
  TOKEN,
} from "./administration-setup.ts";

const OWN_PAGE = "http://127.0.0.1:PORT";
const pages: readonly (readonly [what: string, headers: Record<string, string>, status: number])[] =
  [
    ["another site", { "sec-fetch-site": "cross-site" }, 403],
    ["another port of this machine", { "sec-fetch-site": "same-site" }, 403],
    ["the same origin", { "sec-fetch-site": "same-origin", origin: OWN_PAGE }, 200],
    ["the address bar", { "sec-fetch-site": "none" }, 200],
    ["a value that no browser sends", { "sec-fetch-site": "same-origin, cross-site" }, 403],
    ["another site, without fetch metadata", { origin: "http://evil.example" }, 403],
    ["another port, without fetch metadata", { origin: "http://127.0.0.1:1" }, 403],
    ["a file or a sandboxed frame", { origin: "null" }, 403],
    ["another scheme", { origin: "https://127.0.0.1:PORT" }, 403],
    ["an extension of the browser", { origin: "chrome-extension://127.0.0.1:PORT" }, 403],
    ["the usual port", { origin: "http://127.0.0.1" }, 403],
    ["text that is no origin", { origin: "127.0.0.1:PORT" }, 403],
    ["a host that is a part of its own", { origin: `http://127.0.0.1:PORT.evil.example` }, 403],
  ];
for (const [what, headers, status] of pages) {
  test(`a page of ${what} gets ${status}`, async (t) => {
    const { port, written } = await open(t);
    const filled = Object.entries(headers).map(([name, value]) => [
      name,
      value.replace("PORT", String(port.port)),
    ]);
    const sent = { ...JSON_TYPE, ...Object.fromEntries(filled) };
    for (const ask of [over1(t, port), over2(t, port)]) {
      written.length = 0;
      // Callers of the data plane forward the headers of their own clients.
      assert.deepEqual(await statuses(ask, sent), [status, status, 200, 200]);
      assert.equal(written.length, status === 200 ? 4 : 2);
    }
  });
}

const hosts: readonly (readonly [host: string, status: number])[] = [
  ["localhost", 200],
  ["localhost:8080", 200],
  ["LOCALHOST.", 200],
  ["sluice.localhost:8080", 200],
  ["127.0.0.1:8080", 200],
  ["[::1]:8080", 200],
  ["10.1.2.3", 200],
  ["sluice.example", 200],
  ["Sluice.Example:8080", 200],
  ["evil.example", 403],
  ["evil.example:8080", 403],
  ["localhost.evil.example", 403],
  ["notlocalhost", 403],
  ["sluice.example.evil", 403],
  ["127.0.0.1.evil.example", 403],
  ["[evil]", 403],
  ["a:b:c", 403],
  ["evil.example/.localhost", 403],
  ["evil.example#.localhost", 403],
  [".localhost", 403],
  ["a..localhost", 403],
  ["[localhost]", 403],
  ["[127.0.0.1]", 403],
  [":8080", 403],
];
for (const [host, status] of hosts) {
  test(`a request for ${host} gets ${status}`, async (t) => {
    const { port } = await open(t, { allowed_hosts: ["sluice.example"] });
    const wanted = [status, status, 200, 200];
    assert.deepEqual(await statuses(over1(t, port), { ...JSON_TYPE, host }), wanted);
    const authority = { ...JSON_TYPE, ":authority": host };
    assert.deepEqual(await statuses(over2(t, port), authority), wanted);
  });
}

test("a page of the usual port of the scheme may leave it out", async (t) => {
  const { port } = await open(t);
  const ask = (host: string, origin: string) =>
    statuses(over1(t, port), { ...JSON_TYPE, host, origin });
  const granted = [200, 200, 200, 200];
  assert.deepEqual(await ask("localhost:80", "http://localhost"), granted);
  assert.deepEqual(await ask("LocalHost", "http://localhost:80"), granted);
  assert.deepEqual(await ask("[0:0::1]", "http://[::1]"), granted);
  assert.deepEqual(await ask("localhost", "https://localhost"), [403, 403, 200, 200]);
  assert.deepEqual(await ask("localhost:443", "http://localhost"), [403, 403, 200, 200]);
});

test("a request without a host is refused, and the host of an absolute target is the one that counts", async (t) => {
  const { port, written } = await open(t);
  const body = `content-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}`;
  const status = async (line: string, host: string) => {
    const socket = connect(port.port, "127.0.0.1");
    socket.end(`POST ${line}\r\n${host}${body}`);
    let text = "";
    for await (const chunk of socket.setEncoding("latin1")) text += chunk;
    return Number(text.slice(9, 12));
  };
  const origin = "/administration HTTP/1.1";
  assert.equal(await status(origin, "host: localhost\r\n"), 200);
  assert.equal(await status(origin, "host:\r\n"), 403);
  assert.equal(await status("/administration HTTP/1.0", ""), 403);
  const absolute = (authority: string) => `http://${authority}/administration HTTP/1.1`;
  assert.equal(await status(absolute("localhost"), "host: evil.example\r\n"), 200);
  assert.equal(await status(absolute("evil.example"), "host: localhost\r\n"), 403);
  assert.equal(await status(absolute(""), "host: localhost\r\n"), 403);
  assert.equal(await status(absolute("localhost@evil.example"), "host: localhost\r\n"), 400);
  assert.equal(written.length, 2);
});

test("with a token or on a Unix socket, the host is not judged: no page gets that far", async (t) => {
  const foreign = { ...JSON_TYPE, host: "evil.example" };
  const { port } = await open(t, { token: TOKEN });
  const known = { ...foreign, authorization: `Bearer ${TOKEN}` };
  assert.deepEqual(await statuses(over1(t, port), known), [200, 200, 200, 200]);

  const addr = `unix:${join(folderOf(t), "s")}`;
  await open(t, {}, { listener: { addr } });
  const client = http1(t, addr);
  const ask: Ask = (path, headers = {}) => client({ method: "POST", path, headers, body: "{}" });
  assert.deepEqual(await statuses(ask, foreign), [200, 200, 200, 200]);
});

test("a body needs its content type, which a page cannot send to another origin without asking", async (t) => {
  const { port, written } = await open(t);
  const types = ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""];
  for (const ask of [over1(t, port), over2(t, port)]) {
    for (const path of ["/administration", "/unstated"]) {
      assert.equal((await ask(path, {})).status, 415);
      for (const type of types)
        assert.equal((await ask(path, { "content-type": type })).status, 415);
      const right = { "content-type": "application/json; charset=utf-8" };
      assert.equal((await ask(path, right)).status, 200);
    }
  }
  assert.equal(written.length, 4);
});
