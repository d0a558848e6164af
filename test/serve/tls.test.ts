import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { request } from "node:https";
import { createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type ConnectionOptions, connect } from "node:tls";
import { ChannelCredentials } from "@grpc/grpc-js";
import type { GrpcService, Route } from "#base/handler.ts";
import { openTlsTerminator } from "#serve/tls/terminator.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import {
  type Authority,
  authority,
  type Certificate,
  temporaryFolder,
} from "../kit/servers/tls.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import {
  dial,
  exchange,
  type Overrides,
  portSettings,
  realClock,
  type TestPort,
  testPort,
} from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";

const services: readonly GrpcService[] = [
  {
    name: "test.Echo",
    methods: { Say: { kind: "unary", handle: (bytes) => bytes } },
  },
];
const routes: readonly Route[] = [
  {
    method: "GET",
    path: "/hello",
    about: "",
    handle: () => ({ status: 200, headers: {}, body: "hello" }),
  },
];
const message = Buffer.from("inside");

interface Setting {
  readonly folder: string;
  readonly ca: Authority;
  readonly server: Certificate;
}

function setting(t: TestContext): Setting {
  const folder = temporaryFolder(t);
  const ca = authority(folder, "authority");
  return { folder, ca, server: ca.issue("server") };
}

function withTls(
  t: TestContext,
  { server }: Setting,
  tls: Overrides["tls"] = {},
  more: Overrides = {},
): Promise<TestPort> {
  const files = { cert_file: server.certFile, key_file: server.keyFile };
  return testPort(t, {
    services,
    routes,
    settings: { ...more, tls: { enabled: true, ...files, ...tls } },
  });
}

interface Answer {
  readonly status: number | undefined;
  readonly alpn: string | false | null;
  readonly serial: string;
}

/** GET /hello on a new connection. */
function ask(port: TestPort, options: ConnectionOptions): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { host } = port;
    const outgoing = request(
      { host, port: port.port, path: "/hello", agent: false, ...options },
      (reply) => {
        const socket = reply.socket as ReturnType<typeof connect>;
        const { serialNumber } = socket.getPeerCertificate();
        reply.resume();
        resolve({ status: reply.statusCode, alpn: socket.alpnProtocol, serial: serialNumber });
      },
    );
    outgoing.on("error", reject);
    outgoing.end();
  });
}

/** The protocol that ALPN selects for a client's offer. */
function negotiate(port: TestPort, options: ConnectionOptions): Promise<string | false | null> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: port.host, port: port.port, ...options });
    socket.once("secureConnect", () => {
      resolve(socket.alpnProtocol);
      socket.destroy();
    });
    socket.once("error", reject);
  });
}

/** GET /hello over the protocol that ALPN selected. */
async function askEither(t: TestContext, port: TestPort, ca: Buffer) {
  const socket = connect({
    host: port.host,
    port: port.port,
    ca,
    ALPNProtocols: ["h2", "http/1.1"],
  });
  t.after(() => socket.destroy());
  await new Promise((resolve, reject) => {
    socket.once("secureConnect", resolve);
    socket.once("error", reject);
  });
  const alpn = socket.alpnProtocol;
  if (alpn !== "h2") {
    const text = await exchange(
      socket,
      "GET /hello HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    return { alpn, status: Number(text.split(" ")[1]) };
  }
  const session = connectHttp2("https://localhost", { createConnection: () => socket });
  t.after(() => session.destroy());
  session.on("error", () => undefined);
  const status = await new Promise((resolve, reject) => {
    const stream = session.request({ ":path": "/hello" });
    stream.on("response", (headers) => resolve(headers[":status"]));
    stream.on("error", reject);
    stream.resume();
  });
  return { alpn, status };
}

/** By name, as the client library cannot check the certificate of an IP address. */
const byName = ({ port }: TestPort) => `localhost:${port}`;

test("serves HTTP/1.1 and HTTP/2 over TLS, as the client's ALPN offer decides", async (t) => {
  const given = setting(t);
  const port = await withTls(t, given);
  const ca = given.ca.cert;
  assert.equal((await ask(port, { ca })).status, 200);
  const called = await grpcClient(t, byName(port), ChannelCredentials.createSsl(ca)).unary(
    "/test.Echo/Say",
    message,
  );
  assert.deepEqual(called.message, message);
});

for (const [transport, answer] of [
  ["auto", { alpn: "h2", status: 200 }],
  ["own", { alpn: "h2", status: 200 }],
  ["grpc-js", { alpn: "http/1.1", status: 200 }],
] as const) {
  test(`${transport}: a client that offers both protocols gets ${answer.alpn} and can use JSON over it`, async (t) => {
    const given = setting(t);
    const port = await withTls(t, given, {}, { grpc: { transport } });
    const offer = (...ALPNProtocols: string[]) =>
      negotiate(port, { ca: given.ca.cert, ALPNProtocols });
    assert.equal(await offer("http/1.1", "h2"), answer.alpn);
    assert.equal(await offer("h2"), "h2");
    assert.equal(await offer("http/1.1"), "http/1.1");
    assert.deepEqual(await askEither(t, port, given.ca.cert), answer);
    const credentials = ChannelCredentials.createSsl(given.ca.cert);
    const called = await grpcClient(t, byName(port), credentials).unary("/test.Echo/Say", message);
    assert.deepEqual(called.message, message);
  });
}

/** A TLS terminator alone, behind a listener of its own. */
async function terminatorAt(
  t: TestContext,
  { server }: Setting,
  where: { readonly path: string } | { readonly host: string; readonly port: 0 },
  prefers: "http1" | "http2",
) {
  const admitted: string[] = [];
  const terminator = openTlsTerminator({
    settings: {
      ...portSettings().tls,
      enabled: true,
      cert_file: server.certFile,
      key_file: server.keyFile,
    },
    handshakeTimeout: 10_000,
    clock: realClock,
    log: memoryLog(),
    preferredProtocol: prefers,
    refused: () => undefined,
    accept: (socket, protocol) => {
      admitted.push(protocol);
      socket.destroy();
    },
  });
  t.after(() => terminator.close());
  const listener = createServer((socket) => terminator.terminate(socket)).listen(where);
  t.after(() => listener.close());
  await new Promise((resolve) => listener.once("listening", resolve));
  const bound = listener.address();
  assert.ok(bound !== null);
  const to = typeof bound === "string" ? { path: bound } : { host: "localhost", port: bound.port };
  const choose = (ALPNProtocols?: string[]) =>
    new Promise((resolve, reject) => {
      const socket = connect({
        ...to,
        rejectUnauthorized: false,
        ...(ALPNProtocols !== undefined && { ALPNProtocols }),
      });
      socket.once("secureConnect", () => resolve(socket.alpnProtocol));
      socket.once("error", reject);
      t.after(() => socket.destroy());
    });
  return { choose, admitted };
}

for (const [prefers, first] of [
  ["http1", "http/1.1"],
  ["http2", "h2"],
] as const) {
  test(`a client that offers both protocols gets ${first} where ${prefers} is preferred`, async (t) => {
    const given = setting(t);
    for (const where of [
      { host: "127.0.0.1", port: 0 as const },
      { path: join(given.folder, "socket") },
    ]) {
      const { choose, admitted } = await terminatorAt(t, given, where, prefers);
      assert.equal(await choose(["h2", "http/1.1"]), first);
      assert.equal(await choose(["http/1.1", "h2"]), first);
      assert.equal(await choose(["h2"]), "h2");
      assert.equal(await choose(["http/1.1"]), "http/1.1");
      assert.equal(await choose(), false);
      await assert.rejects(choose(["spdy/3"]), /no.application.protocol/);
      await until("all inside", () => admitted.length === 5);
      assert.deepEqual(admitted, [prefers, prefers, "http2", "http1", "http1"]);
    }
  });
}

for (const transport of ["own", "grpc-js"] as const) {
  test(`does not speak HTTP/2 unless ALPN selected it: ${transport}`, async (t) => {
    const given = setting(t);
    const port = await withTls(t, given, {}, { grpc: { transport } });
    for (const ALPNProtocols of [undefined, ["http/1.1"]]) {
      const socket = connect({
        host: port.host,
        port: port.port,
        ca: given.ca.cert,
        ...(ALPNProtocols !== undefined && { ALPNProtocols }),
      });
      t.after(() => socket.destroy());
      const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
      assert.match(await exchange(socket, preface), /^HTTP\/1\.1 400 /);
    }
    assert.equal((await ask(port, { ca: given.ca.cert })).alpn, false);
  });

  test(`closes a connection that speaks HTTP/1.1 although ALPN selected HTTP/2: ${transport}`, async (t) => {
    const given = setting(t);
    const port = await withTls(t, given, {}, { grpc: { transport } });
    const to = { host: port.host, port: port.port, ca: given.ca.cert, ALPNProtocols: ["h2"] };
    const socket = connect(to);
    t.after(() => socket.destroy());
    assert.equal(await exchange(socket, "GET /hello HTTP/1.1\r\nhost: x\r\n\r\n"), "");
  });
}

test("refuses TLS versions below 1.2", async (t) => {
  const given = setting(t);
  const port = await withTls(t, given);
  const old = { ca: given.ca.cert, minVersion: "TLSv1", ciphers: "DEFAULT:@SECLEVEL=0" } as const;
  await assert.rejects(negotiate(port, { ...old, maxVersion: "TLSv1.1" }), /protocol.version/);
  assert.equal(await negotiate(port, { ...old, maxVersion: "TLSv1.2" }), false);
});

test("answers cleartext HTTP on a TLS port with an explanation", async (t) => {
  const port = await withTls(t, setting(t));
  const reply = await exchange(dial(t, port), "GET /hello HTTP/1.1\r\nhost: x\r\n\r\n");
  assert.match(reply, /^HTTP\/1\.1 400 .*"this port speaks TLS"/s);
  const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
  assert.match(await exchange(dial(t, port), preface), /^HTTP\/1\.1 400 /);
});

test("ends an incomplete TLS handshake", async (t) => {
  const port = await withTls(t, setting(t), {}, { grpc: { connection_timeout: 150 } });
  assert.equal(await exchange(dial(t, port), Uint8Array.of(0x16, 3, 1, 0, 200)), "");
});

test("with client_ca_file, admits only clients with a certificate of that CA, over both protocols", async (t) => {
  const given = setting(t);
  const port = await withTls(t, given, { client_ca_file: given.ca.certFile });
  const ca = given.ca.cert;
  const client = given.ca.issue("client");
  const stranger = authority(given.folder, "stranger").issue("client");
  const call = (shown?: Certificate) =>
    grpcClient(
      t,
      byName(port),
      ChannelCredentials.createSsl(ca, shown?.key ?? null, shown?.cert ?? null),
    ).unary("/test.Echo/Say", message);
  assert.equal((await ask(port, { ca, cert: client.cert, key: client.key })).status, 200);
  assert.equal((await call(client)).code, 0);
  await assert.rejects(ask(port, { ca }));
  await assert.rejects(ask(port, { ca, cert: stranger.cert, key: stranger.key }));
  assert.equal((await call()).code, 14);
  assert.equal((await call(stranger)).code, 14);
});

test("matches allowed_cn exactly", async (t) => {
  const given = setting(t);
  const port = await withTls(t, given, {
    client_ca_file: given.ca.certFile,
    allowed_cn: "sidecar.example",
  });
  const ca = given.ca.cert;
  const enter = ({ cert, key }: Certificate) => ask(port, { ca, cert, key });
  assert.equal((await enter(given.ca.issue("sidecar.example"))).status, 200);
  await assert.rejects(enter(given.ca.issue("other.example")));
  await assert.rejects(enter(given.ca.issue("sidecar.example.org")));
  await assert.rejects(enter(given.ca.issue("SIDECAR.example")));
});

const broken: readonly (readonly [
  what: string,
  over: (given: Setting) => Overrides["tls"],
  said: RegExp,
])[] = [
  [
    "a missing certificate",
    ({ folder }) => ({ cert_file: join(folder, "none") }),
    /server\.tls\.cert_file: .*none: wanted a file that can be read, got ENOENT/,
  ],
  ["no key", () => ({ key_file: "" }), /cert_file and key_file/],
  [
    "a key of another certificate",
    ({ ca }) => ({ key_file: ca.issue("b").keyFile }),
    /do not contain/,
  ],
  [
    "a file that holds no certificate",
    ({ server }) => ({ cert_file: server.keyFile }),
    /do not contain/,
  ],
  [
    "a CA file that holds no certificate",
    ({ server }) => ({ client_ca_file: server.keyFile }),
    /client_ca_file/,
  ],
  [
    "allowed_cn without client_ca_file",
    () => ({ allowed_cn: "x" }),
    /allowed_cn needs client_ca_file/,
  ],
];
for (const [what, over, said] of broken) {
  test(`refuses to start with ${what}`, async (t) => {
    const given = setting(t);
    await assert.rejects(withTls(t, given, over(given)), said);
  });
}

test("refuses to start with a file that is no regular file, or too large", async (t) => {
  const given = setting(t);
  const { folder } = given;
  execFileSync("mkfifo", [join(folder, "pipe")]);
  writeFileSync(join(folder, "large"), "x".repeat(1024 * 1024 + 1));
  const refusals = [
    [{ cert_file: join(folder, "pipe") }, /^server\.tls\.cert_file: .* regular file, got a pipe$/],
    [{ key_file: "/dev/zero" }, /^server\.tls\.key_file: \/dev\/zero: .*, got a device or socket$/],
    [{ client_ca_file: join(folder, "large") }, /^server\.tls\.client_ca_file: .*at most 1048576/],
  ] as const;
  for (const [over, message] of refusals) {
    await assert.rejects(withTls(t, given, over), { code: "INVALID_ARGUMENT", message });
  }
});

test("reloads changed files without a restart and keeps the old ones if the new ones are bad", async (t) => {
  const given = setting(t);
  const port = await withTls(t, given);
  const { server } = given;
  const ca = given.ca.cert;
  const first = (await ask(port, { ca })).serial;
  const next = given.ca.issue("next");
  const logged = (text: RegExp) => () => port.log.lines.some((line) => text.test(line.message));

  writeFileSync(server.certFile, "no certificate");
  await until("refusal", logged(/keeping the current certificates/));
  assert.equal((await ask(port, { ca })).serial, first);

  copyFileSync(next.certFile, server.certFile);
  copyFileSync(next.keyFile, server.keyFile);
  await until("news", logged(/reloaded the certificate/));
  const second = (await ask(port, { ca })).serial;
  assert.notEqual(second, first);
});

test("reloads files behind a swapped symlink, a new client CA included", async (t) => {
  const given = setting(t);
  const { folder, ca } = given;
  const volume = (name: string, server: Certificate, clients: Certificate) => {
    mkdirSync(join(folder, name));
    copyFileSync(server.certFile, join(folder, name, "tls.crt"));
    copyFileSync(server.keyFile, join(folder, name, "tls.key"));
    copyFileSync(clients.certFile, join(folder, name, "ca.crt"));
  };
  const others = authority(folder, "others");
  volume("one", given.server, ca);
  volume("two", ca.issue("next"), others);
  symlinkSync("one", join(folder, "data"));
  const mounted = join(folder, "mounted");
  mkdirSync(mounted);
  for (const file of ["tls.crt", "tls.key", "ca.crt"]) {
    symlinkSync(join(folder, "data", file), join(mounted, file));
  }
  // The change of the link is visible in the volume's own folder only.
  symlinkSync(join(folder, "data"), join(mounted, "..data"));
  const port = await withTls(t, given, {
    cert_file: join(mounted, "tls.crt"),
    key_file: join(mounted, "tls.key"),
    client_ca_file: join(mounted, "ca.crt"),
  });
  const old = ca.issue("client");
  const fresh = others.issue("client");
  assert.equal((await ask(port, { ca: ca.cert, cert: old.cert, key: old.key })).status, 200);
  symlinkSync("two", join(folder, "data.next"));
  renameSync(join(folder, "data.next"), join(folder, "data"));
  unlinkSync(join(mounted, "..data"));
  symlinkSync(join(folder, "data"), join(mounted, "..data"));
  await until("news", () =>
    port.log.lines.some(({ message }) => /reloaded the certificate/.test(message)),
  );
  await assert.rejects(ask(port, { ca: ca.cert, cert: old.cert, key: old.key }));
  assert.equal((await ask(port, { ca: ca.cert, cert: fresh.cert, key: fresh.key })).status, 200);
});
