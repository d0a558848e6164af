// Certificates of clients that are rotated while the process runs (short-lived ones live for hours).

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { TLSSocket } from "node:tls";
import { GrpcClient } from "#client/grpc.ts";
import { HttpClient } from "#client/http.ts";
import { TlsFiles } from "#client/tls-files.ts";
import { fakeClock } from "../kit/clock.ts";
import { folderOf } from "../kit/folder.ts";
import { authority, type Certificate, temporaryFolder } from "../kit/servers/tls.ts";
import { configOf } from "../kit/sluice/config.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { portSettings, testPort } from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";

const PAST_LOOK = 31_000;

function setting(t: TestContext) {
  const ca = authority(temporaryFolder(t), "ca");
  const client = ca.issue("first", 30);
  const replaceBy = (next: Certificate) => {
    copyFileSync(next.certFile, client.certFile);
    copyFileSync(next.keyFile, client.keyFile);
  };
  const paths = {
    ca_file: ca.certFile,
    cert_file: client.certFile,
    key_file: client.keyFile,
  };
  const clock = fakeClock(1_000_000, Date.now());
  return { ca, client, replaceBy, paths, clock, log: memoryLog() };
}

/** Files that are watched until the test ends. */
function watched(t: TestContext, ...given: ConstructorParameters<typeof TlsFiles>): TlsFiles {
  const files = new TlsFiles(...given);
  t.after(() => files.close());
  return files;
}

test("files that changed are in use for the next connection", async (t) => {
  const { ca, replaceBy, paths, clock, log } = setting(t);
  const files = watched(t, paths, { clock, log, key: "tls" });
  const before = files.current;
  replaceBy(ca.issue("second", 30));
  assert.equal(files.current, before);
  clock.advance(PAST_LOOK);
  await until("the files are in use", () => files.current !== before);
  assert.deepEqual(
    log.lines.map(({ message }) => message),
    ["tls: reloaded the certificates"],
  );
});

test("files that are not usable never replace good ones", async (t) => {
  const { ca, client, replaceBy, paths, clock, log } = setting(t);
  const files = watched(t, paths, { clock, log, key: "tls" });
  const before = files.current;
  writeFileSync(client.certFile, "nothing");
  clock.advance(PAST_LOOK);
  await until("refusal", () => log.lines.length === 1);
  const short = ca.issue("short", 1);
  replaceBy(short);
  clock.advance(3 * 86_400_000);
  const expired = /tls\.cert_file: the certificate expired on/;
  await until("refusal", () => log.lines.some(({ message }) => expired.test(message)));
  assert.equal(files.current, before);
});

test("a client does not start with an expired certificate, or with half of a pair", (t) => {
  const { client, paths, clock } = setting(t);
  assert.throws(() => new TlsFiles({ ...paths, key_file: "" }, { clock, key: "tls" }), /together/);
  clock.advance(31 * 86_400_000);
  assert.throws(() => new TlsFiles(paths, { clock, key: "tls" }), /the certificate expired on/);
  assert.ok(client.cert.length > 0);
});

test("a client does not start with a file that is no regular file, or too large", (t) => {
  const { paths, clock } = setting(t);
  const folder = folderOf(t, { large: "x".repeat(1024 * 1024 + 1) });
  execFileSync("mkfifo", [join(folder, "pipe")]);
  const started = (ca_file: string) => () =>
    new TlsFiles({ ...paths, ca_file }, { clock, key: "tls" });
  const refusals = [
    [join(folder, "pipe"), /^tls\.ca_file: .*pipe: wanted a regular file, got a pipe$/],
    ["/dev/zero", /^tls\.ca_file: \/dev\/zero: wanted a regular file, got a device or socket$/],
    [join(folder, "large"), /^tls\.ca_file: .*large: wanted at most 1048576 bytes, got 1048577$/],
  ] as const;
  for (const [path, message] of refusals) {
    assert.throws(started(path), { code: "INVALID_ARGUMENT", message });
  }
});

test("an HTTP client presents the rotated certificate to its server", async (t) => {
  const { ca, replaceBy, paths, clock, log } = setting(t);
  const own = ca.issue("server", 30);
  const server = createServer(
    { cert: own.cert, key: own.key, ca: ca.cert, requestCert: true },
    (request, reply) => reply.end((request.socket as TLSSocket).getPeerCertificate().subject.CN),
  );
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => server.close());
  const settings = configOf("controller", {}).config.prometheus.http_client;
  const client = new HttpClient({
    settings: {
      ...settings,
      disable_keep_alives: true,
      tls: { ...settings.tls, ...paths },
    },
    key: "prometheus.http_client",
    proxy: { http: "", https: "", no_proxy: [] },
    env: {},
    clock,
    log,
  });
  t.after(() => client.close());
  const url = `https://localhost:${(server.address() as AddressInfo).port}/`;
  const name = async () => String((await client.call({ method: "GET", url })).body);
  assert.equal(await name(), "first");
  replaceBy(ca.issue("second", 30));
  clock.advance(PAST_LOOK);
  await until("news", () => log.lines.length === 1);
  assert.equal(await name(), "second");
});

test("a gRPC client reconnects with the rotated certificate", async (t) => {
  const { ca, replaceBy, paths, clock, log } = setting(t);
  const own = ca.issue("server", 30);
  const tls = portSettings({
    tls: {
      enabled: true,
      cert_file: own.certFile,
      key_file: own.keyFile,
      client_ca_file: ca.certFile,
      allowed_cn: "second",
    },
  }).tls;
  const echo = {
    name: "test.Echo",
    access: "data",
    methods: { Say: { kind: "unary", handle: (bytes: Uint8Array) => bytes } },
  } as const;
  const port = await testPort(t, { services: [echo], settings: { tls } });
  const client = new GrpcClient({
    address: `localhost:${port.port}`,
    tls: new TlsFiles(paths, { clock, log, key: "tls" }),
  });
  t.after(() => client.close());
  const say = () => client.call("/test.Echo/Say", Buffer.from("a"), { timeoutMs: 10_000 });
  await assert.rejects(say(), { code: "UNAVAILABLE" });
  replaceBy(ca.issue("second", 30));
  clock.advance(PAST_LOOK);
  await until("news", () => log.lines.length === 1);
  assert.equal(String(await say()), "a");
});

test("a bad file of an HTTP client is named with its whole key, and is wrong configuration", () => {
  const { http_client: settings } = configOf("controller", {}).config.prometheus;
  const { tls } = settings;
  for (const [changed, message] of [
    [
      { tls: { ...tls, ca_file: "/nowhere/a" } },
      /^prometheus\.http_client\.tls\.ca_file: \/nowhere\/a: /,
    ],
    [
      { tls: { ...tls, key_log_file: "/nowhere/k" } },
      /^prometheus\.http_client\.tls\.key_log_file: \/nowhere\/k: wanted a file that can be written, got ENOENT/,
    ],
    [{ key_log_file: "/nowhere/k" }, /^prometheus\.http_client\.key_log_file: \/nowhere\/k: /],
  ] as const)
    assert.throws(
      () =>
        new HttpClient({
          settings: { ...settings, ...changed },
          key: "prometheus.http_client",
          proxy: { http: "", https: "", no_proxy: [] },
          env: {},
          clock: fakeClock(),
        }),
      (thrown: Error) => {
        assert.match(thrown.message, message);
        assert.equal(thrown.cause, undefined, "a cause would be logged with its stack");
        return true;
      },
    );
});
