// Access to administration: by the address of the listener, and by credential.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { renameSync, writeFileSync } from "node:fs";
import { request as requestTls } from "node:https";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { ChannelCredentials } from "@grpc/grpc-js";
import { CODES } from "#base/fault.ts";
import type { Route } from "#base/handler.ts";
import { type Administration, openAdministration } from "#serve/administration.ts";
import type { AdministrationSettings } from "#serve/settings.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { http1 } from "../kit/clients/http.ts";
import { fakeClock } from "../kit/clock.ts";
import { folderOf } from "../kit/folder.ts";
import { authority } from "../kit/servers/tls.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { type Overrides, portSettings, realClock, testPort } from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";
import {
  JSON_TYPE,
  NOTHING,
  type Opened,
  open,
  over1,
  over2,
  statuses,
  TOKEN,
} from "./administration-setup.ts";

const { OK, UNAUTHENTICATED, PERMISSION_DENIED } = CODES;

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

async function serveWith(t: TestContext, accessControl: Administration) {
  const route: Route = {
    method: "POST",
    path: "/administration",
    about: "",
    body: "json",
    handle: () => ({ status: 200, headers: {}, body: "" }),
  };
  return { port: await testPort(t, { routes: [route], accessControl }) };
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
