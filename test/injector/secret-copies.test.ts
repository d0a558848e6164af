// Copies of Secrets: how long each stays, and that the fault of one namespace is not that of the others.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { SidecarSecret } from "#injector/settings.ts";
import { COPY_OF, SecretCopies } from "../../src/injector/cluster/secret-copies.ts";
import { clientOf } from "../kit/kube/fake-api.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { type Cluster, cluster, HOME } from "./cluster.ts";

interface Copying extends Cluster {
  /** Names of the labelled namespaces. */
  readonly labelled: Set<string>;
  readonly everywhere: Set<string>;
  readonly copies: SecretCopies;
  readonly messages: () => readonly string[];
  /** A round for Secrets of which sidecars use the entry `a`. */
  round(...names: readonly string[]): Promise<void>;
  use(...secrets: readonly SidecarSecret[]): Promise<void>;
  /** Lets the server refuse what is asked about a path that ends so. */
  refuse(end: string, status: number): void;
}

async function copying(t: TestContext, ...namespaces: readonly string[]): Promise<Copying> {
  const held = await cluster(t);
  const log = memoryLog();
  const labelled = new Set(namespaces);
  const everywhere = new Set([HOME, ...namespaces]);
  for (const name of ["one", "two"])
    held.secrets.set(`${HOME}/${name}`, {
      metadata: { name, namespace: HOME },
      data: { a: "YQ==" },
    });
  const refused = new Map<string, number>();
  const { before } = held.api;
  held.api.before = (asked) => {
    const found = [...refused].find(([end]) => asked.path.endsWith(end));
    if (found === undefined) return before(asked);
    asked.reply(found[1], { reason: "Refused", message: "refused" });
    return true;
  };
  const copies = new SecretCopies({
    client: clientOf(t, held.api),
    home: HOME,
    namespaces: () => [...labelled].map((name) => ({ name, labels: {}, annotations: {} })),
    everywhere: () => everywhere,
    owner: async () => [],
    log,
  });
  const use = (...secrets: readonly SidecarSecret[]) =>
    copies.round(secrets, AbortSignal.timeout(60_000));
  return Object.assign(held, {
    labelled,
    everywhere,
    copies,
    messages: () => log.lines.map(({ message }) => message),
    round: (...names: readonly string[]) => use(...names.map((name) => ({ name, entries: ["a"] }))),
    use,
    refuse: (end: string, status: number) => void refused.set(end, status),
  });
}

const encoded = (texts: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(texts).map(([entry, text]) => [entry, btoa(text)]));
const decoded = (secret: { readonly data: Readonly<Record<string, string>> } | undefined) =>
  Object.fromEntries(
    Object.entries(secret?.data ?? {}).map(([entry, text]) => [entry, atob(text)]),
  );

test("a copy has the entries that sidecars use, and nothing else", async (t) => {
  const { secrets, use, copies } = await copying(t, "shop");
  const data = encoded({ "agent-password": "mine", "controller-password": "not theirs" });
  secrets.set(`${HOME}/users`, { metadata: { name: "users", namespace: HOME }, data });
  const users = { name: "users", entries: ["agent-password"] };
  await use(users);
  assert.deepEqual(decoded(secrets.get("shop/users")), { "agent-password": "mine" });
  assert.ok(!JSON.stringify(secrets.get("shop/users")).includes(btoa("not theirs")));
  assert.deepEqual(copies.faults, []);
  await use({ ...users, entries: ["agent-password", "pasword"] });
  assert.deepEqual(copies.faults, ["Secret sluice/users lacks pasword, which sidecars use"]);
});

test("a copy that has more than sidecars use loses it", async (t) => {
  const { secrets, use } = await copying(t, "shop");
  const labels = { [COPY_OF]: HOME };
  const data = encoded({ a: "old", b: "not theirs" });
  secrets.set("shop/one", { metadata: { name: "one", namespace: "shop", labels }, data });
  await use({ name: "one", entries: ["a"] });
  assert.deepEqual(decoded(secrets.get("shop/one")), { a: "a" });
});

test("a copy without the private key is a Secret of another type", async (t) => {
  const { secrets, use, api } = await copying(t, "shop");
  const type = "kubernetes.io/tls";
  const files = { "ca.crt": "authority", "tls.crt": "certificate", "tls.key": "key" };
  const metadata = { name: "tls", namespace: HOME };
  secrets.set(`${HOME}/tls`, { metadata, type, data: encoded(files) });
  await use({ name: "tls", entries: Object.keys(files) });
  assert.equal(secrets.get("shop/tls").type, type);
  assert.deepEqual(decoded(secrets.get("shop/tls")), files);
  // The API server demands both files of a Secret of that type, and lets no Secret change its type.
  await use({ name: "tls", entries: ["ca.crt"] });
  assert.equal(secrets.get("shop/tls").type, "Opaque");
  assert.deepEqual(decoded(secrets.get("shop/tls")), { "ca.crt": "authority" });
  const written = api.asked.filter(
    ({ method, path }) => method !== "GET" && path.startsWith("/api/v1/namespaces/shop/secrets"),
  );
  assert.deepEqual(
    written.map(({ method }) => method),
    ["POST", "DELETE", "POST"],
  );
});

test("a pull secret is copied with its type, and another type is not copied", async (t) => {
  const { secrets, use, copies } = await copying(t, "shop");
  const type = "kubernetes.io/dockerconfigjson";
  const registry = { name: "registry", type, entries: [".dockerconfigjson"] };
  const metadata = { name: "registry", namespace: HOME };
  const data = encoded({ ".dockerconfigjson": "{}" });
  secrets.set(`${HOME}/registry`, { metadata, type: "Opaque", data });
  await use(registry);
  assert.ok(!secrets.has("shop/registry"), "kubelets would not use it");
  assert.deepEqual(copies.faults, [
    `Secret sluice/registry: wanted the type ${type}, got Opaque; it is not copied`,
  ]);
  secrets.set(`${HOME}/registry`, { metadata, type, data });
  await use(registry);
  assert.equal(secrets.get("shop/registry").type, type);
  assert.deepEqual(decoded(secrets.get("shop/registry")), { ".dockerconfigjson": "{}" });
});

const SIDECAR = { name: "sluice-agent", image: "sluice" };
const PODS = {
  "a variable": {
    initContainers: [
      { ...SIDECAR, env: [{ name: "A", valueFrom: { secretKeyRef: { name: "one", key: "a" } } }] },
    ],
    containers: [],
  },
  "all variables": {
    containers: [{ ...SIDECAR, envFrom: [{ secretRef: { name: "one" } }] }],
  },
  "a volume": { containers: [], volumes: [{ name: "v", secret: { secretName: "one" } }] },
  "its pulls": { containers: [], imagePullSecrets: [{ name: "one" }] },
  "a part of a volume": {
    containers: [],
    volumes: [{ name: "v", projected: { sources: [{ secret: { name: "one" } }] } }],
  },
};

for (const [what, spec] of Object.entries(PODS)) {
  test(`a copy stays without the label while a pod refers to it by ${what}`, async (t) => {
    const { round, secrets, labelled, pods, api } = await copying(t, "shop");
    await round("one", "two");
    labelled.clear();
    pods.set("shop", [{ metadata: { name: "running", namespace: "shop" }, spec }]);
    await round("one", "two");
    assert.ok(secrets.has("shop/one"));
    assert.ok(!secrets.has("shop/two"), "nothing refers to it");
    const asked = api.asked.find(({ path }) => path.endsWith("/pods"));
    const selector = asked?.query.get("fieldSelector");
    assert.equal(selector, "status.phase!=Succeeded,status.phase!=Failed");
    pods.set("shop", []);
    await round("one", "two");
    assert.ok(!secrets.has("shop/one"));
  });
}

test("a copy of a Secret that sidecars no longer use is removed when no pod refers to it", async (t) => {
  const { round, secrets, pods } = await copying(t, "shop");
  await round("one");
  pods.set("shop", [{ metadata: { name: "running" }, spec: PODS["a variable"] }]);
  await round("two");
  assert.deepEqual([secrets.has("shop/one"), secrets.has("shop/two")], [true, true]);
  pods.set("shop", []);
  await round();
  assert.deepEqual([secrets.has("shop/one"), secrets.has("shop/two")], [false, false]);
  assert.ok(secrets.has(`${HOME}/one`));
});

test("an injector that starts removes the copies of another one, and leaves the Secrets of others", async (t) => {
  const { round, secrets, everywhere, api } = await copying(t, "shop");
  everywhere.add("former").add("other");
  const labels = { [COPY_OF]: HOME };
  secrets.set("former/one", { metadata: { name: "one", namespace: "former", labels } });
  secrets.set("other/one", { metadata: { name: "one", namespace: "other" } });
  await round("one");
  assert.deepEqual([...secrets.keys()].sort(), [
    "other/one",
    "shop/one",
    "sluice/one",
    "sluice/two",
  ]);
  const before = api.asked.length;
  await round("one");
  assert.equal(api.asked.length, before + 2, "the original and one copy");
});

for (const status of [403, 409, 413, 422]) {
  test(`a namespace that answers ${status} keeps no other one waiting`, async (t) => {
    const { round, secrets, refuse, copies, labelled } = await copying(t, "broken", "shop");
    refuse("/broken/secrets", status);
    await round("one", "two");
    assert.deepEqual([secrets.has("shop/one"), secrets.has("shop/two")], [true, true]);
    const faults = copies.faults.filter((fault) => fault.startsWith("Secret broken/"));
    assert.equal(faults.length, status === 409 ? 0 : 2, "a conflict is another replica's work");
    labelled.delete("shop");
    refuse("/broken/secrets/one", status);
    await round("one", "two");
    assert.deepEqual([secrets.has("shop/one"), secrets.has("shop/two")], [false, false]);
  });
}

test("a copy that may not be removed is said once; one that cannot be removed now is tried again", async (t) => {
  const { round, secrets, refuse, copies, labelled, messages } = await copying(t, "shop", "denied");
  await round("one");
  labelled.clear();
  refuse("/shop/secrets/one", 422);
  refuse("/denied/secrets/one", 403);
  await round("one");
  assert.match(copies.faults.join(), /^the copy shop\/one was not removed: DELETE|GET.*status 422/);
  await round("one");
  const denied = messages().filter((message) => /denied\/one .*cannot be removed/.test(message));
  assert.equal(denied.length, 1);
  assert.ok(secrets.has("shop/one"));
});

test("an API server that is away is a fault of the round", async (t) => {
  const { round, refuse } = await copying(t, "shop");
  refuse("/shop/secrets/one", 503);
  await assert.rejects(round("one"), /status 503/);
});
