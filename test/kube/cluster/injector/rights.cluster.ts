// The rights of the injector: they suffice, each of them is needed, and they give nothing else.

import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../../kit/until.ts";
import {
  chartOf,
  client,
  copies,
  create,
  hasAgent,
  install,
  PARTS,
  PATIENCE_MS,
  pod,
  type Rule,
  rightsIn,
  secret,
  secretOf,
} from "./install.ts";

test("its rights suffice: nothing that it does is forbidden", async (t) => {
  const { start, labelled, home } = await install(t);
  const namespace = await labelled();
  await create(namespace, pod("old"));
  const areInStep = await copies(home, labelled);
  const { log, serve, get } = await start();
  await serve();
  await until("copies of Secrets are in step", areInStep, PATIENCE_MS);
  assert.ok(hasAgent((await create(namespace, pod("new"))).body));
  await until(
    "the old pod is reported",
    async () => /sluice_injector_missed_pods [1-9]/.test(await get("/metrics")),
    PATIENCE_MS,
  );
  assert.deepEqual(
    log.lines.filter(({ message }) => /forbidden|status 403/.test(message)),
    [],
  );
});

const RIGHTS = rightsIn(await chartOf("home", "injector"));
const EACH = PARTS.flatMap((where) =>
  RIGHTS[where].flatMap(({ resources, verbs }) =>
    verbs.map((verb) => [where, resources[0], verb] as const),
  ),
);

test("the charts give it rights", () => {
  for (const part of PARTS) assert.ok(RIGHTS[part].length > 0, part);
});

test("with its right to create Secrets it gets no token of an account, and changes no Secret of others", async (t) => {
  const { home, labelled, account } = await install(t);
  const namespace = await labelled();
  const name = secretOf(home);
  const copy = secret(name, "a", { "sluice/copy-of": home });
  const annotations = { "kubernetes.io/service-account.name": "default" };
  const token = (of: typeof copy) => ({
    ...of,
    metadata: { ...of.metadata, annotations },
    type: "kubernetes.io/service-account-token",
  });
  const post = (where: string, object: object) =>
    account.call("POST", `/api/v1/namespaces/${where}/secrets?dryRun=All`, object);
  // The API server learns of policies and rights by and by.
  await until(
    "the policy is in force",
    async () => (await post(namespace, token(copy))).status === 422,
    PATIENCE_MS,
  );
  const refused = async (where: string, object: object, why: RegExp) => {
    const { status, body } = await post(where, object);
    assert.equal(status, 422, JSON.stringify(body));
    assert.match(body.message, why);
  };
  await refused(namespace, token(copy), /only Secrets of the types Opaque/);
  await refused(
    home,
    token({ ...copy, metadata: { ...copy.metadata, name: "x" } }),
    /only Secrets/,
  );
  await refused(namespace, secret(name, "a"), /only copies/);
  await refused(namespace, secret(name, "a", { "sluice/copy-of": "other" }), /only copies/);
  await refused("kube-system", copy, /no Secret of kube-system/);
  assert.equal((await post(namespace, copy)).status, 201);
  const pull = { ...copy, type: "kubernetes.io/dockerconfigjson" };
  const config = { ".dockerconfigjson": '{"auths":{}}' };
  assert.equal((await post(namespace, { ...pull, stringData: config })).status, 201);
  await client.apply([secret(name, "of somebody else")], namespace);
  const path = `/api/v1/namespaces/${namespace}/secrets/${name}`;
  for (const [method, body] of [
    ["PUT", copy],
    ["DELETE", undefined],
  ] as const) {
    const answer = await account.call(method, path, body);
    assert.equal(answer.status, 422, JSON.stringify(answer.body));
    assert.match(answer.body.message, /only its own copies/);
  }
});

for (const [where, resource, verb] of EACH) {
  test(`without the right to ${verb} ${resource} (${where}) it says so`, async (t) => {
    // A namespace is read only where it has not been heard of yet, as here, where nothing is heard of.
    const isRead = resource === "namespaces" && verb === "get";
    const missing: readonly string[] = isRead ? ["get", "list"] : [verb];
    const fewer = (rules: readonly Rule[]) =>
      rules
        .map((rule) => ({
          ...rule,
          verbs: rule.verbs.filter(
            (each) => rule.resources[0] !== resource || !missing.includes(each),
          ),
        }))
        .filter(({ verbs }) => verbs.length > 0);
    const { start, labelled, home } = await install(t, (rights) => ({
      ...rights,
      [where]: fewer(rights[where]),
    }));
    const namespace = await labelled();
    await create(namespace, pod("old"));
    if (where === "secrets") await copies(home, labelled);
    const { log, get, serve } = await start();
    if (isRead) {
      await serve();
      assert.ok(
        hasAgent((await create(namespace, pod("new"))).body),
        "it is injected all the same",
      );
    }
    const wanted = isRead
      ? /annotations of a namespace.*403/
      : new RegExp(`${resource}.*status 403`);
    await until(
      "it names what it may not do",
      async () => {
        const said = [await get("/v1/status"), ...log.lines.map(({ message }) => message)];
        return said.some((text) => wanted.test(text));
      },
      PATIENCE_MS,
    );
  });
}
