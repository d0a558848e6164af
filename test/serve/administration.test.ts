// Access to administration: by the address of the listener, by credential, and by the page that a browser names.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { renameSync, writeFileSync } from "node:fs";
import { request as requestTls } from "node:https";
import { connect } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { ChannelCredentials } from "@grpc/grpc-js";
import { CODES } from "#base/fault.ts";
import type { Access, GrpcService, Route } from "#base/handler.ts";
import { type Administration, openAdministration } from "#serve/administration.ts";
import type { AdministrationSettings } from "#serve/settings.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { type ClientReply, http1, http2, type RequestOptions } from "../kit/clients/http.ts";
import { fakeClock } from "../kit/clock.ts";
import { folderOf } from "../kit/folder.ts";
import { authority } from "../kit/servers/tls.ts";
import { type MemoryLog, memoryLog } from "../kit/sluice/log.ts";
import {
  type Overrides,
  portSettings,
  realClock,
  type TestPort,
  testPort,
} from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";

const TOKEN = "correct-horse-battery-staple";
const JSON_TYPE = { "content-type": "application/json" };
const { OK, UNAUTHENTICATED, PERMISSION_DENIED } = CODES;

const NOTHING: AdministrationSettings = {
  token: "",
  token_path: "",
  allowed_hosts: [],
  insecure: false,
};

interface Opened {
  readonly port: TestPort;
  readonly administration: Administration;
  /** Bodies that reached the handler of the administration route. */
  readonly written: string[];
  readonly lines: MemoryLog["lines"];
}

/** A port with a route and a method of each kind of access; `undefined` stands for none stated. */
async function open(
  t: TestContext,
  given: Partial<AdministrationSettings> = {},
  settings: Overrides = {},
  clock = realClock,
): Promise<Opened> {
  const written: string[] = [];
  const route = (path: string, access: Access | undefined): Route => ({
    method: "POST",
    path,
    about: "",
    ...(access !== undefined && { access }),
    body: "json",
    handle({ body }) {
      written.push(String(body));
      return { status: 200, headers: {}, body: path };
    },
  });
  const service = (name: string, access: Access | undefined): GrpcService => ({
    name: `test.${name}`,
    ...(access !== undefined && { access }),
    methods: {
      Say: { kind: "unary", handle: (message) => message },
      Stream: {
        kind: "stream",
        client: true,
        server: true,
        handle: async ({ send }) => send(Buffer.from("said")),
      },
    },
  });
  const { listener, tls } = portSettings(settings);
  const log = memoryLog();
  const administration = await openAdministration({
    settings: { ...NOTHING, ...given },
    listener,
    tls,
    clock,
    log,
  });
  t.after(administration.close);
  const port = await testPort(t, {
    routes: [
      route("/administration", "administration"),
      route("/unstated", undefined),
      route("/data", "data"),
      route("/open", "open"),
    ],
    services: [
      service("Administration", "administration"),
      service("Unstated", undefined),
      service("Data", "data"),
      service("Open", "open"),
    ],
    guard: administration,
    settings,
  });
  return { port, administration, written, lines: log.lines };
}

type Ask = (path: string, headers?: RequestOptions["headers"]) => Promise<ClientReply>;

function over1(t: TestContext, { port }: TestPort, host = "127.0.0.1"): Ask {
  const client = http1(t, `http://${host}:${port}`);
  return (path, headers = JSON_TYPE) => client({ method: "POST", path, headers, body: "{}" });
}

function over2(t: TestContext, { port }: TestPort): Ask {
  const client = http2(t, `http://127.0.0.1:${port}`);
  return (path, headers = JSON_TYPE) => client({ method: "POST", path, headers, body: "{}" });
}

const ALL = ["/administration", "/unstated", "/data", "/open"];

async function statuses(ask: Ask, headers?: RequestOptions["headers"]): Promise<number[]> {
  return Promise.all(ALL.map(async (path) => (await ask(path, headers)).status));
}

for (const transport of ["own", "grpc-js"] as const) {
  const codes = async (t: TestContext, address: string, metadata: Record<string, string> = {}) => {
    const client = grpcClient(t, address);
    const names = ["Administration", "Unstated", "Data", "Open"];
    const calls = names.map((name) => client.unary(`/test.${name}/Say`, Buffer.of(), { metadata }));
    return (await Promise.all(calls)).map(({ code }) => code);
  };

  test(`gRPC has the same rights as JSON: ${transport}`, async (t) => {
    const settings: Overrides = { grpc: { transport }, listener: { addr: ":0" } };
    const closed = await open(t, {}, settings);
    const { number: denied } = PERMISSION_DENIED;
    const address = ({ port }: Opened) => `127.0.0.1:${port.port}`;
    assert.deepEqual(await codes(t, address(closed)), [denied, denied, 0, 0]);

    const guarded = await open(t, { token: TOKEN }, settings);
    const { number: unknown } = UNAUTHENTICATED;
    assert.deepEqual(await codes(t, address(guarded)), [unknown, unknown, 0, 0]);
    const wrong = { authorization: `Bearer ${TOKEN}x` };
    assert.deepEqual(await codes(t, address(guarded), wrong), [unknown, unknown, 0, 0]);
    const right = { authorization: `bearer ${TOKEN}` };
    assert.deepEqual(await codes(t, address(guarded), right), [0, 0, 0, 0]);

    const local = await open(t, {}, { grpc: { transport } });
    assert.deepEqual(await codes(t, address(local)), [0, 0, 0, 0]);
    const page = { origin: "http://evil.example" };
    assert.deepEqual(await codes(t, address(local), page), [denied, denied, 0, 0]);
  });

  test(`a stream of administration is refused before its handler runs: ${transport}`, async (t) => {
    const settings: Overrides = { grpc: { transport }, listener: { addr: ":0" } };
    const { port } = await open(t, { token: TOKEN }, settings);
    const client = grpcClient(t, `127.0.0.1:${port.port}`);
    const ended = new Promise<number>((resolve) => {
      const call = client.bidirectional("/test.Administration/Stream");
      call.on("data", () => assert.fail("the handler answered"));
      call.on("error", (error: Error & { code: number }) => resolve(error.code));
      call.write(Buffer.of());
    });
    assert.equal(await ended, UNAUTHENTICATED.number);
  });
}

test("on loopback and on a Unix socket, callers of this machine need no credential", async (t) => {
  for (const addr of ["127.0.0.1:0", "[::1]:0", `unix:${join(folderOf(t), "s")}`]) {
    const { administration } = await open(t, { insecure: true }, { listener: { addr } });
    assert.equal(administration.requirement, "local");
  }
  const { port } = await open(t);
  for (const ask of [over1(t, port), over2(t, port)])
    assert.deepEqual(await statuses(ask), [OK.http, OK.http, OK.http, OK.http]);
});

test("where other machines connect and no credential is configured, administration is refused to everyone", async (t) => {
  const { port, administration, written } = await open(t, {}, { listener: { addr: "0.0.0.0:0" } });
  assert.equal(administration.requirement, "refused");
  assert.deepEqual(await statuses(over1(t, port)), [403, 403, 200, 200]);
  const { body } = await over1(t, port)("/administration");
  assert.match(body, /server\.administration\.token.*server\.tls\.client_ca_file/);
  assert.deepEqual(written, ["{}", "{}"]);
});

test("each reason of a refusal is logged at most once a minute, without what the caller sent", async (t) => {
  const clock = fakeClock();
  const { port, lines } = await open(t, { token: TOKEN }, {}, clock);
  const ask = over1(t, port);
  const refused = async (headers: Readonly<Record<string, string>>, times = 1) => {
    for (let time = 0; time < times; time++) await ask("/administration", headers);
  };
  const said = () =>
    lines.splice(0).map(({ level, message, fields }) => {
      assert.equal(level, "warn");
      assert.deepEqual([fields["method"], fields["peer"]], ["/administration", "127.0.0.1"]);
      return [
        message.replace("refused a request of administration: ", ""),
        fields["refused_since_last_line"],
      ];
    });
  const none = "administration requires a token: send `authorization: Bearer TOKEN`";
  const wrong = "wrong administration token";
  const type = "content-type must be application/json";
  await refused(JSON_TYPE, 3);
  assert.deepEqual(said(), [[none, 1]]);
  await refused({ ...JSON_TYPE, authorization: "Bearer guessed-by-somebody" }, 2);
  await refused({ authorization: `Bearer ${TOKEN}`, "content-type": "text/plain" }, 2);
  assert.deepEqual(said(), [
    [wrong, 1],
    [type, 1],
  ]);
  clock.advance(60_000);
  await refused(JSON_TYPE);
  await refused({ ...JSON_TYPE, authorization: `Bearer ${TOKEN}` });
  assert.deepEqual(said(), [[none, 3]]);
  const client = grpcClient(t, `127.0.0.1:${port.port}`);
  await client.unary("/test.Administration/Say", Buffer.of(), {
    metadata: { authorization: "Bearer x" },
  });
  const [line] = lines;
  assert.deepEqual(line?.fields, {
    method: "/test.Administration/Say",
    peer: "127.0.0.1",
    refused_since_last_line: 2,
  });
});

test("insecure: true serves administration without a credential", async (t) => {
  const settings = { listener: { addr: "0.0.0.0:0" } };
  const { port, administration } = await open(t, { insecure: true }, settings);
  assert.equal(administration.requirement, "insecure");
  assert.deepEqual(await statuses(over1(t, port)), [200, 200, 200, 200]);
});

test("a configured token is required of everyone, in any spelling of the scheme", async (t) => {
  for (const addr of [":0", "127.0.0.1:0"]) {
    const { port } = await open(t, { token: TOKEN, insecure: true }, { listener: { addr } });
    const ask = over1(t, port);
    const authorized = (authorization: string) => statuses(ask, { ...JSON_TYPE, authorization });
    assert.deepEqual(await statuses(ask), [401, 401, 200, 200]);
    for (const scheme of ["Bearer", "bearer", "BEARER"])
      assert.deepEqual(await authorized(`${scheme} ${TOKEN}`), [200, 200, 200, 200]);
    for (const wrong of [TOKEN, `Basic ${TOKEN}`, "Bearer", `Bearer ${TOKEN.slice(1)}`])
      assert.deepEqual(await authorized(wrong), [401, 401, 200, 200], wrong);
  }
});

test("a refusal asks for a token and repeats none", async (t) => {
  const { port } = await open(t, { token: TOKEN });
  const presented = "not-the-token-of-this-server";
  const reply = await over1(t, port)("/administration", { authorization: `Bearer ${presented}` });
  assert.equal(reply.headers["www-authenticate"], "Bearer");
  assert.deepEqual(JSON.parse(reply.body), {
    code: UNAUTHENTICATED.number,
    message: "wrong administration token",
    details: [],
  });
  assert.equal(JSON.stringify(port.log.lines).includes(presented), false);
});

test("a request is refused before its body arrives", async (t) => {
  const { port, written } = await open(t, { token: TOKEN });
  const reply = await http1(
    t,
    `http://${port.address}`,
  )({
    method: "POST",
    path: "/administration",
    headers: { ...JSON_TYPE, "content-length": "1000000", expect: "100-continue" },
  });
  assert.equal(reply.status, 401);
  assert.deepEqual(written, []);
});

test("a client certificate is a credential", async (t) => {
  const folder = folderOf(t);
  const ca = authority(folder, "authority");
  const server = ca.issue("server");
  const client = ca.issue("client");
  const tls = {
    enabled: true,
    cert_file: server.certFile,
    key_file: server.keyFile,
    client_ca_file: ca.certFile,
  };
  const { port, administration } = await open(t, {}, { tls, listener: { addr: "0.0.0.0:0" } });
  assert.equal(administration.requirement, "certificate");
  const status = (host: string) =>
    new Promise<number | undefined>((resolve, reject) => {
      const { cert, key } = client;
      const options = { host: "127.0.0.1", port: port.port, path: "/administration", agent: false };
      const secrets = { ca: ca.cert, cert, key, servername: "localhost" };
      const headers = { ...JSON_TYPE, host };
      const outgoing = requestTls({ ...options, ...secrets, method: "POST", headers }, (reply) => {
        reply.resume();
        resolve(reply.statusCode);
      });
      outgoing.on("error", reject);
      outgoing.end("{}");
    });
  assert.equal(await status("localhost"), 200);
  assert.equal(await status("evil.example"), 200, "the host is not judged");
  const credentials = ChannelCredentials.createSsl(ca.cert, client.key, client.cert);
  const grpc = grpcClient(t, `localhost:${port.port}`, credentials);
  assert.equal((await grpc.unary("/test.Administration/Say", Buffer.of())).code, 0);

  const oneWay = await open(
    t,
    {},
    { tls: { ...tls, client_ca_file: "" }, listener: { addr: ":0" } },
  );
  assert.equal(oneWay.administration.requirement, "refused");
});

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

test("the token of a file may end in a line break, and changes with the file", async (t) => {
  const folder = folderOf(t);
  const path = join(folder, "token");
  const write = (token: string) => {
    writeFileSync(`${path}.new`, token);
    renameSync(`${path}.new`, path);
  };
  write(`${TOKEN}\n`);
  const clock = fakeClock();
  const log = memoryLog();
  const { listener, tls } = portSettings();
  const settings = { ...NOTHING, token_path: path };
  const administration = await openAdministration({ settings, listener, tls, clock, log });
  t.after(administration.close);
  const { port } = await serveWith(t, administration);
  const ask = over1(t, port);
  const status = async (token: string) =>
    (await ask("/administration", { ...JSON_TYPE, authorization: `Bearer ${token}` })).status;
  assert.equal(await status(TOKEN), 200);

  write("too short");
  clock.advance(60_000);
  await until("the bad file is reported", () => log.lines.some(({ level }) => level === "warn"));
  assert.equal(await status(TOKEN), 200);

  const next = "another-token-of-this-server";
  write(next);
  clock.advance(60_000);
  await until("the token is reloaded", () => log.lines.some(({ level }) => level === "info"));
  assert.deepEqual([await status(TOKEN), await status(next)], [401, 200]);
  for (const token of [TOKEN, next, "too short"])
    assert.equal(JSON.stringify(log.lines).includes(token), false);
});

async function serveWith(t: TestContext, guard: Administration) {
  const route: Route = {
    method: "POST",
    path: "/administration",
    about: "",
    body: "json",
    handle: () => ({ status: 200, headers: {}, body: "" }),
  };
  return { port: await testPort(t, { routes: [route], guard }) };
}

test("a token that cannot be used ends the start, and is not repeated", async (t) => {
  const { listener, tls } = portSettings();
  const start = (over: Partial<AdministrationSettings>) =>
    openAdministration({
      settings: { ...NOTHING, ...over },
      listener,
      tls,
      clock: realClock,
      log: memoryLog(),
    });
  const folder = folderOf(t, { empty: "", large: "x".repeat(1024 * 1024 + 1) });
  const [path, large, pipe] = ["empty", "large", "pipe"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  execFileSync("mkfifo", [pipe]);
  const cases: readonly (readonly [Partial<AdministrationSettings>, RegExp])[] = [
    [{ token: "short" }, /^server\.administration\.token: wanted a token of at least 16/],
    [{ token: "has a blank inside it" }, /^server\.administration\.token: wanted/],
    [{ token_path: path }, /^server\.administration\.token_path: wanted a token/],
    [
      { token_path: pipe },
      /^server\.administration\.token_path: .*: wanted a regular file, got a pipe$/,
    ],
    [{ token_path: "/dev/zero" }, /wanted a regular file, got a device or socket$/],
    [{ token_path: large }, /wanted at most 1048576 bytes, got 1048577$/],
    [
      { token_path: `${path}/not` },
      /token_path: .*: wanted a file that can be read, got .*ENOTDIR/,
    ],
  ];
  for (const [over, message] of cases) {
    await assert.rejects(start(over), (fault: Error & { code: string }) => {
      assert.equal(fault.code, "INVALID_ARGUMENT");
      assert.match(fault.message, message);
      assert.equal(/short|blank inside/.test(fault.message), false);
      return true;
    });
  }
});
