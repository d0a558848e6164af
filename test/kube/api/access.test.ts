// The ways to find the API server: the service account of a pod, or a kubeconfig.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Code, Fault } from "#base/fault.ts";
import { findAccess } from "#kube/api/access.ts";
import { fakeClock } from "../../kit/clock.ts";
import { folderOf } from "../../kit/folder.ts";

const POD = { KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" };

function kubeconfig(t: TestContext, parts: { cluster?: object; user?: object; context?: object }) {
  const folder = folderOf(t);
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      { name: "c", cluster: { server: "https://api.example:6443/k8s/", ...parts.cluster } },
    ],
    users: [{ name: "u", user: { token: "t0ken", ...parts.user } }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u", ...parts.context } }],
    "current-context": "x",
  };
  const file = join(folder, "config");
  writeFileSync(file, JSON.stringify(config));
  return { folder, env: { KUBECONFIG: file } };
}

async function refused(work: Promise<unknown>, code: Code, words: RegExp): Promise<void> {
  await assert.rejects(work, (fault: Fault) => {
    assert.equal(fault.code, code, fault.message);
    assert.match(fault.message, words);
    assert.doesNotMatch(fault.message, /t0ken/);
    return true;
  });
}

test("a pod uses its service account, whose token is read again when the server refuses it", async (t) => {
  const account = folderOf(t, { token: "one\n", namespace: "shop", "ca.crt": "" });
  const clock = fakeClock();
  const access = await findAccess(POD, clock, account);
  assert.equal(access.url, "https://10.96.0.1:443");
  assert.equal(access.namespace, "shop");
  assert.equal(access.files.ca_file, join(account, "ca.crt"));
  const { credentials } = access;
  assert.equal(await credentials.authorization(), "Bearer one");
  writeFileSync(join(account, "token"), "two\n");
  assert.equal(await credentials.authorization(), "Bearer one");
  assert.equal(await credentials.refused("Bearer one"), true);
  assert.equal(await credentials.refused("Bearer two"), false);
  writeFileSync(join(account, "token"), "three\n");
  clock.advance(60_000);
  assert.equal(await credentials.authorization(), "Bearer three");
});

test("an address of IPv6 is written as a URL wants it", async (t) => {
  const env = { ...POD, KUBERNETES_SERVICE_HOST: "fd00::1" };
  assert.equal((await findAccess(env, fakeClock(), folderOf(t))).url, "https://[fd00::1]:443");
});

test("the namespace of a pod without that file is POD_NAMESPACE, or else default", async (t) => {
  const folder = folderOf(t);
  const namespaceWith = async (env: Readonly<Record<string, string>>) =>
    (await findAccess({ ...POD, ...env }, fakeClock(), folder)).namespace;
  assert.equal(await namespaceWith({ POD_NAMESPACE: "shop" }), "shop");
  assert.equal(await namespaceWith({}), "default");
});

test("a token that cannot be read is a fault with its path", async (t) => {
  const account = folderOf(t);
  const { credentials } = await findAccess(POD, fakeClock(), account);
  await refused(credentials.authorization(), "UNAUTHENTICATED", /token.*ENOENT/);
});

test("a kubeconfig counts before the service account; its paths are relative to it", async (t) => {
  const { folder, env } = kubeconfig(t, {
    cluster: { "certificate-authority": "ca.pem" },
    user: { "client-certificate-data": btoa("cert"), "client-key-data": btoa("key") },
    context: { namespace: "shop" },
  });
  const access = await findAccess({ ...POD, ...env }, fakeClock());
  assert.equal(access.url, "https://api.example:6443/k8s");
  assert.equal(access.namespace, "shop");
  assert.equal(await access.credentials.authorization(), "Bearer t0ken");
  assert.equal(access.files.ca_file, join(folder, "ca.pem"));
  assert.deepEqual(access.material, { cert: Buffer.from("cert"), key: Buffer.from("key") });
  assert.equal(access.insecure, false);
});

test("what a kubeconfig says and cannot be honoured is refused", async (t) => {
  for (const [parts, words] of [
    [{ user: { exec: { command: "aws" } } }, /exec of a user is not supported/],
    [{ cluster: { "tls-server-name": "x" } }, /tls-server-name of a cluster is not supported/],
    [{ cluster: { server: "ftp://x" } }, /wanted an http:\/\/ or https:\/\/ URL in server/],
    [{ context: { user: "nobody" } }, /wanted user "nobody" in users, got none/],
  ] as const) {
    const { env } = kubeconfig(t, parts);
    await refused(findAccess(env, fakeClock()), "INVALID_ARGUMENT", words);
  }
  const folder = folderOf(t, { bad: "token: t0ken\n\t- [" });
  const bad = findAccess({ KUBECONFIG: join(folder, "bad") }, fakeClock());
  await refused(bad, "INVALID_ARGUMENT", /wanted YAML/);
  const missing = findAccess({ KUBECONFIG: join(folder, "none") }, fakeClock());
  await refused(missing, "INVALID_ARGUMENT", /^KUBECONFIG: .*none: wanted a file .*ENOENT/);
});

test("without either there is no server", async () => {
  await refused(findAccess({}, fakeClock()), "FAILED_PRECONDITION", /KUBECONFIG, got neither/);
});
