// TLS of the HTTP client: authorities, client certificates and key logs.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { until } from "../../kit/until.ts";
import { caller, type clientSettings, fakeServer } from "../../prometheus/kit.ts";
import { fails, hello } from "./setup.ts";

test("TLS: private authority, client certificate, no redirect to cleartext", async (t) => {
  const folder = temporaryFolder(t);
  const ca = authority(folder, "ca");
  const [server, client] = [ca.issue("server"), ca.issue("client")];
  const plain = await fakeServer(t, hello);
  const secure = await fakeServer(
    t,
    ({ url }, reply) => {
      if (url === "/down") reply.writeHead(302, { location: plain.url });
      reply.end("secret");
    },
    {
      cert: server.cert,
      key: server.key,
      ca: ca.cert,
      requestCert: true,
      rejectUnauthorized: true,
    },
  );
  const own = { cert_file: client.certFile, key_file: client.keyFile };
  const get = async (tls: Parameters<typeof caller>[1], path = "/") =>
    (await caller(t, tls).call({ method: "GET", url: secure.url + path })).body.toString();
  const trusting = { ca_file: ca.certFile, ...own };
  assert.equal(await get({ tls: trusting }), "secret");
  assert.equal(await get({ tls: { insecure_skip_verify: true, ...own } }), "secret");
  await fails(get({ tls: own }), "UNAVAILABLE", /TLS: .*(certificate|issuer)/);
  await fails(
    get({ tls: { ca_file: ca.certFile } }),
    "UNAVAILABLE",
    /TLS: .*certificate|reset|closed/,
  );
  await fails(get({ tls: trusting }, "/down"), "UNAVAILABLE", /redirect that is not followed/);
  const spoken = `https://127.0.0.1:${plain.port}/`;
  await fails(
    caller(t).call({ method: "GET", url: spoken }),
    "UNAVAILABLE",
    /TLS: (handshake failed|wrong version number|packet length too long)/,
  );
  const elsewhere = secure.url.replace("127.0.0.1", "127.0.0.2");
  await fails(
    caller(t, { tls: trusting }).call({ method: "GET", url: elsewhere }),
    "UNAVAILABLE",
    /connection refused|TLS: .*altnames/,
  );
});

test("TLS: session keys are written to the key log file of either setting", async (t) => {
  const folder = temporaryFolder(t);
  const ca = authority(folder, "ca");
  const server = ca.issue("server");
  const secure = await fakeServer(t, hello, { cert: server.cert, key: server.key });
  const file = join(folder, "keys");
  for (const [at, key] of ["tls", "top"].entries()) {
    const tls = { ca_file: ca.certFile, key_log_file: key === "tls" ? file : "" };
    const http = caller(t, { tls, key_log_file: key === "top" ? file : "" });
    await http.call({ method: "GET", url: secure.url });
    const lines = () => readFileSync(file, "utf8").match(/CLIENT_HANDSHAKE_TRAFFIC_SECRET/g) ?? [];
    await until("keys are logged", () => lines().length === at + 1);
  }
});

test("an unusable TLS file makes the constructor throw an error with its key", (t) => {
  const folder = temporaryFolder(t);
  const [one, two] = [authority(folder, "one"), authority(folder, "two")];
  const refused = (tls: Parameters<typeof clientSettings>[0], words: RegExp) =>
    assert.throws(() => caller(t, tls), words);
  refused(
    { tls: { ca_file: "/nowhere/ca" } },
    /tls\.ca_file: \/nowhere\/ca: wanted a file that can be read, got ENOENT/,
  );
  refused({ tls: { cert_file: one.certFile } }, /cert_file and key_file together/);
  refused({ tls: { cert_file: one.certFile, key_file: two.keyFile } }, /belong together/);
  refused({ tls: { ca_file: one.keyFile } }, /in PEM/);
  refused(
    { key_log_file: "/nowhere/keys" },
    /http_client\.key_log_file: \/nowhere\/keys: wanted a file that can be written/,
  );
});
