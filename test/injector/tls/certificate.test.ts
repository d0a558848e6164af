// The certificates that Sluice makes are what OpenSSL and Node's TLS accept, and no more than they should be.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { connect, createServer } from "node:tls";
import { issue, makeAuthority } from "../../../src/injector/tls/certificate.ts";
import { folderOf } from "../../kit/folder.ts";

const NAMES = ["sluice-injector.sluice.svc", "sluice-injector.sluice.svc.cluster.local"] as const;
const DAY = 86_400_000;

function made(from = Date.now() - DAY, to = Date.now() + DAY) {
  const authority = makeAuthority("sluice-injector", { from, to });
  return { authority, serving: issue(authority, [...NAMES], { from, to }) };
}

function verify(t: TestContext, authority: string, cert: string, ...options: readonly string[]) {
  const folder = folderOf(t);
  const [ca, leaf] = [join(folder, "ca.pem"), join(folder, "leaf.pem")];
  writeFileSync(ca, authority);
  writeFileSync(leaf, cert);
  return execFileSync("openssl", ["verify", "-x509_strict", "-CAfile", ca, ...options, leaf], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

test("OpenSSL verifies a certificate strictly, for servers and by its names", (t) => {
  const { authority, serving } = made();
  const options = ["-purpose", "sslserver", "-verify_hostname", NAMES[0]];
  assert.match(verify(t, authority.cert, serving.cert, ...options), /: OK/);
  assert.throws(() => verify(t, authority.cert, serving.cert, "-verify_hostname", "other"));
  assert.throws(() => verify(t, authority.cert, serving.cert, "-purpose", "sslclient"));
  assert.throws(() => verify(t, made().authority.cert, serving.cert));
});

test("a certificate that was issued issues none", (t) => {
  const { serving } = made();
  const below = issue(serving, ["x.svc"], { from: Date.now() - DAY, to: Date.now() + DAY });
  assert.throws(() => verify(t, serving.cert, below.cert, "-partial_chain"));
  assert.equal(new X509Certificate(serving.cert).ca, false);
});

test("times and names as asked, also beyond 2049", () => {
  const [from, to] = [Date.UTC(2040, 0, 2, 3, 4, 5), Date.UTC(2051, 10, 12, 13, 14, 15)];
  const { authority, serving } = made(from, to);
  for (const { cert } of [authority, serving]) {
    const { validFromDate, validToDate } = new X509Certificate(cert);
    assert.equal(validFromDate.getTime(), from);
    assert.equal(validToDate.getTime(), to);
  }
  const { subjectAltName, keyUsage, subject } = new X509Certificate(serving.cert);
  assert.equal(subjectAltName, NAMES.map((name) => `DNS:${name}`).join(", "));
  assert.equal(subject, `CN=${NAMES[0]}`);
  assert.deepEqual(keyUsage, ["1.3.6.1.5.5.7.3.1"]);
});

test("serial numbers differ", () => {
  const { authority } = made();
  const one = () =>
    new X509Certificate(issue(authority, ["a.svc"], { from: 0, to: DAY }).cert).serialNumber;
  assert.notEqual(one(), one());
});

test("a client that trusts both authorities of one name finds the right one", async (t) => {
  const [old, young] = [made(), made()];
  for (const { serving } of [old, young]) {
    const server = createServer({ cert: serving.cert, key: serving.key }, (socket) => socket.end());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => server.close());
    const { port } = server.address() as AddressInfo;
    const ca = `${young.authority.cert}${old.authority.cert}`;
    const socket = connect({ port, host: "127.0.0.1", ca, servername: NAMES[0] });
    await once(socket, "secureConnect");
    assert.equal(socket.authorized, true);
    socket.destroy();
  }
});
