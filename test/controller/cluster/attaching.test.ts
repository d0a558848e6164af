// A controller that attaches policy resources to gateways and routes, beside an API server that the test plays.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { KubeObject } from "#kube/api/objects.ts";
import { fakePolicies } from "../../kit/kube/fake-policies.ts";
import { standalone } from "../../kit/sluice/standalone.ts";
import { until } from "../../kit/until.ts";

const GATEWAY_API = "/apis/gateway.networking.k8s.io/v1";
const ROUTES = `${GATEWAY_API}/namespaces/shop/httproutes`;
const POLICIES = "/apis/gateway.envoyproxy.io/v1alpha1/namespaces/shop/securitypolicies";
const FILTERS = "/apis/networking.istio.io/v1alpha3/namespaces/shop/envoyfilters";
const ENVOY_GATEWAY = "gateway.envoyproxy.io/gatewayclass-controller";
const WRITTEN = "sluice-httproute-checkout";

type Stored = KubeObject & { readonly spec?: object; readonly status?: object };

/** Policies, gateways and what control planes are told, of the namespace `shop`. */
async function cluster(t: TestContext) {
  const policies = await fakePolicies(t);
  const { api } = policies;
  /** By their paths. */
  const objects = new Map<string, Stored>();
  const collections = [
    `${GATEWAY_API}/gatewayclasses`,
    `${GATEWAY_API}/namespaces/shop/gateways`,
    ROUTES,
    POLICIES,
    FILTERS,
  ];
  let version = 1;
  let refusal: string | undefined;
  const tell = (type: string, path: string, object: Stored) => {
    for (const watch of api.watches)
      if (watch.path === path.slice(0, path.lastIndexOf("/")) && watch.isOpen())
        watch.send(type, object);
  };
  const put = (path: string, object: object): Stored => {
    version += 1;
    const name = path.slice(path.lastIndexOf("/") + 1);
    const before = objects.get(path);
    const { metadata = {}, ...rest } = object as Partial<Stored>;
    const stored = {
      ...before,
      ...rest,
      metadata: {
        ...metadata,
        name,
        namespace: "shop",
        generation: 1,
        resourceVersion: `${version}`,
      },
    };
    objects.set(path, stored);
    tell(before === undefined ? "ADDED" : "MODIFIED", path, stored);
    return stored;
  };
  const remove = (path: string) => {
    const found = objects.get(path);
    objects.delete(path);
    if (found !== undefined) tell("DELETED", path, found);
  };
  const others = api.before;
  api.before = (asked) => {
    const { method, path, query, body, reply } = asked;
    const collection = collections.find((each) => path === each || path.startsWith(`${each}/`));
    if (collection === undefined) return others(asked);
    if (query.get("watch") === "true") return false;
    if (method === "GET") {
      const items = [...objects].flatMap(([at, object]) =>
        at.startsWith(`${collection}/`) ? [object] : [],
      );
      reply(200, { items, metadata: { resourceVersion: `${version}` } });
    } else if (method === "DELETE") {
      remove(path);
      reply(200, {});
    } else if (refusal !== undefined) reply(409, { reason: "Conflict", message: refusal });
    else reply(200, put(path, JSON.parse(body)));
    return true;
  };
  return {
    policies,
    put,
    remove,
    written: () => objects.get(`${POLICIES}/${WRITTEN}`),
    /** From now on, writes are refused with this message. */
    refuse: (message: string | undefined) => {
      refusal = message;
    },
  };
}

function limited(refs: readonly object[] | undefined, selectors: readonly object[] = [{}]): object {
  const one = { constant_signal: { value: 1 } };
  const rate_limiter = {
    selectors,
    in_ports: { bucket_capacity: one, fill_amount: one },
    parameters: { interval: "1s" },
  };
  return { targetRefs: refs, circuit: { components: [{ flow_control: { rate_limiter } }] } };
}

const ROUTE = { group: "gateway.networking.k8s.io", kind: "HTTPRoute", name: "checkout" };
const WATCHES = { SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED: "true" };
const ATTACHES = {
  ...WATCHES,
  SVC_CONTROLLER_GATEWAY_API_ENABLED: "true",
  SVC_CONTROLLER_GATEWAY_API_AGENTS: "sluice-agent.sluice.svc.cluster.local:8080",
};

type Shop = Awaited<ReturnType<typeof cluster>>;

const start = (t: TestContext, { policies }: Shop, controller: Readonly<Record<string, string>>) =>
  standalone(t, { policies: {}, controller, variables: policies.variables });

/** Waits until a policy says so, and does something each time before it looks. */
async function says(
  { policies }: Shop,
  name: string,
  wanted: RegExp,
  meanwhile: () => void = () => undefined,
): Promise<void> {
  let last = "";
  await until(`${name} says ${wanted}`, () => {
    meanwhile();
    const { conditions = [] } = policies.status(name) ?? {};
    last = conditions
      .filter(({ type }) => type === "Attached" || type === "Ready")
      .map(({ type, status, reason, message }) => `${type} ${status} ${reason} ${message}`)
      .join("\n");
    return wanted.test(last);
  }).catch((thrown: unknown) => {
    throw new Error(`it says ${last}`, { cause: thrown });
  });
}

test("a policy is attached to a route, says what its control plane says, and is detached again", async (t) => {
  const shop = await cluster(t);
  shop.policies.put("p", limited([ROUTE]));
  await start(t, shop, ATTACHES);
  await says(shop, "p", /Ready False NotAttached .*\n.*there is no HTTPRoute shop\/checkout/);
  shop.put(`${ROUTES}/checkout`, { status: {} });
  await says(shop, "p", /no controller of a gateway has accepted the route yet/);
  shop.put(`${ROUTES}/checkout`, { status: { parents: [{ controllerName: ENVOY_GATEWAY }] } });
  await says(shop, "p", /Envoy Gateway has not said yet/);
  const { metadata, spec } = shop.written() ?? {};
  assert.deepEqual(
    metadata?.ownerReferences?.map(({ kind, name }) => `${kind} ${name}`),
    ["Policy p"],
  );
  const written = JSON.stringify(spec);
  assert.match(written, /"value":"httproute\/shop\/checkout"/);
  assert.match(written, /"name":"sluice-agent","namespace":"sluice","port":8080/);

  const say = (status: string, reason: string) =>
    shop.put(`${POLICIES}/${WRITTEN}`, {
      ...shop.written(),
      status: {
        ancestors: [
          {
            conditions: [
              { type: "Accepted", status, reason, message: "so", observedGeneration: 1 },
            ],
          },
        ],
      },
    });
  say("False", "Conflicted");
  await says(shop, "p", /Attached False NotAttached .*Envoy Gateway says Conflicted: so/);
  say("True", "Accepted");
  await says(shop, "p", /Ready True Running(?:.|\n)*Attached True Attached/);

  // Another policy of the same route owns it as well, and has it to itself when the first one lets go.
  shop.policies.put("q", limited([ROUTE]));
  await says(shop, "q", /Attached True/);
  await until("both own it", () => shop.written()?.metadata.ownerReferences?.length === 2);
  shop.policies.put("p", limited(undefined, [{ control_point: "ingress" }]));
  await until("one owns it", () => shop.written()?.metadata.ownerReferences?.length === 1);

  // A fault leaves everything as it is.
  shop.policies.put("q", { targetRefs: [ROUTE], circuit: { components: [{ nothing: {} }] } });
  await until("it has faults", () => shop.policies.status("q")?.status === "rejected");
  assert.ok(shop.written());
  shop.policies.put("q", limited(undefined, [{ control_point: "ingress" }]));
  await until("it is removed", () => shop.written() === undefined);
});

test("a policy with faults keeps its part in what another one lets go of", async (t) => {
  const shop = await cluster(t);
  shop.put(`${ROUTES}/checkout`, { status: { parents: [{ controllerName: ENVOY_GATEWAY }] } });
  shop.policies.put("p", limited([ROUTE]));
  shop.policies.put("q", limited([ROUTE]));
  await start(t, shop, ATTACHES);
  const owners = () => shop.written()?.metadata.ownerReferences?.map(({ name }) => name);
  await until("both own it", () => owners()?.length === 2);
  shop.policies.put("p", { targetRefs: [ROUTE], circuit: { components: [{ nothing: {} }] } });
  await until("it has faults", () => shop.policies.status("p")?.status === "rejected");
  shop.policies.put("q", limited(undefined, [{ control_point: "ingress" }]));
  await says(shop, "q", /^Ready True Running .*$/);
  assert.deepEqual(owners()?.includes("p"), true);
  assert.deepEqual(
    shop.policies.status("p")?.warnings.filter((text) => text.includes("gateway_api")),
    [],
  );
});

test("a change of targets alone is a change", async (t) => {
  const shop = await cluster(t);
  const selectors = [{ control_point: "httproute/shop/checkout" }];
  shop.policies.put("p", limited(undefined, selectors));
  await start(t, shop, ATTACHES);
  await says(shop, "p", /^Ready True Running .*$/);
  shop.policies.put("p", limited([ROUTE], selectors));
  await says(shop, "p", /Ready False NotAttached .*\n.*there is no HTTPRoute shop\/checkout/);
  shop.policies.put("p", limited(undefined, selectors));
  await says(shop, "p", /^Ready True Running .*$/);
});

test("an object that is not written is tried again, and the reason is said", async (t) => {
  const shop = await cluster(t);
  shop.put(`${ROUTES}/checkout`, { status: { parents: [{ controllerName: ENVOY_GATEWAY }] } });
  shop.refuse("conflict with kubectl");
  shop.policies.put("p", limited([ROUTE]));
  const { address } = await start(t, shop, ATTACHES);
  await says(
    shop,
    "p",
    /SecurityPolicy sluice-httproute-checkout was not written: .*conflict with/,
  );
  const degraded = async () => {
    const metrics = await (await fetch(`http://${address}/metrics`)).text();
    return /sluice_dependency_degraded\{[^}]*"gateway_api"[^}]*\} (\d)/.exec(metrics)?.[1];
  };
  assert.equal(await degraded(), "1", "the metric of the alert");
  shop.refuse(undefined);
  await says(shop, "p", /Envoy Gateway has not said yet/);
  assert.equal(await degraded(), "0");
});

test("what somebody else does to an object is undone at once, and only after a pause where it goes on", async (t) => {
  const shop = await cluster(t);
  shop.put(`${ROUTES}/checkout`, { status: { parents: [{ controllerName: ENVOY_GATEWAY }] } });
  shop.policies.put("p", limited([ROUTE]));
  await start(t, shop, ATTACHES);
  await says(shop, "p", /Envoy Gateway has not said yet/);
  const ours = shop.written();
  const change = () => shop.put(`${POLICIES}/${WRITTEN}`, { ...ours, spec: { other: true } });
  const isOurs = () => shop.written() !== undefined && !("other" in (shop.written()?.spec ?? {}));
  change();
  await until("it is undone", isOurs);
  const goOn = () => void (isOurs() && change());
  await says(shop, "p", /somebody else keeps changing the SecurityPolicy sluice-http/, goOn);
  assert.ok(!isOurs());
  // What another policy needs is written at once, and an object that somebody deletes as well.
  shop.policies.put("q", limited([ROUTE]));
  await until("both own it", () => shop.written()?.metadata.ownerReferences?.length === 2);
  assert.ok(isOurs());
  await says(shop, "q", /Envoy Gateway has not said yet/);
  shop.remove(`${POLICIES}/${WRITTEN}`);
  await until("it is there again", isOurs);
  await says(shop, "q", /Envoy Gateway has not said yet/);
  await says(shop, "q", /somebody else keeps changing/, goOn);
  await until("it is written after the pause", isOurs);
});

test("without gateway_api.enabled the status names the key and the value of the chart", async (t) => {
  const shop = await cluster(t);
  shop.policies.put("p", limited([ROUTE]));
  await start(t, shop, WATCHES);
  await says(shop, "p", /Ready False NotAttached .*gateway_api\.enabled .*gatewayApi\.enabled/);
  assert.equal(shop.written(), undefined);
});

test("gateway_api.fail_open says what a gateway does while no agent answers", async (t) => {
  for (const failOpen of [true, false]) {
    const shop = await cluster(t);
    shop.put(`${ROUTES}/checkout`, { status: { parents: [{ controllerName: ENVOY_GATEWAY }] } });
    shop.policies.put("p", limited([ROUTE]));
    await start(t, shop, { ...ATTACHES, SVC_CONTROLLER_GATEWAY_API_FAIL_OPEN: `${failOpen}` });
    await until("it is written", () => shop.written() !== undefined);
    assert.match(JSON.stringify(shop.written()?.spec), new RegExp(`"failOpen":${failOpen}`));
  }
});
