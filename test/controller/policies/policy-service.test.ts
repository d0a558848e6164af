// Changes of policies over the API, and names that both files and the API want.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { memoryStore } from "#store/memory.ts";
import { COMPLETE } from "#sync/keys.ts";
import { storeWith } from "../../kit/sluice/stored.ts";
import { until } from "../../kit/until.ts";
import { bench, counting, decisionsOf, fault, variable } from "../kit.ts";

test("a policy of the API runs when the call returns, is stored in full, and can be removed", async (t) => {
  const made = await bench(t);
  const { controller, store, turn } = made;
  const { policies } = controller;
  const hash = await policies.upsert("v", variable());
  assert.equal(policies.get("v").status, "VALID");
  assert.equal((await decisionsOf(made)).size, 1);
  const [entry] = (await store.list("/config/api/policies/")).entries;
  const stored = JSON.parse(new TextDecoder().decode(entry?.value)) as Record<string, unknown>;
  assert.deepEqual(Object.keys(stored), ["circuit", "resources"]);
  assert.deepEqual(policies.get("v").policy, stored);
  assert.equal(
    await policies.upsert("v", JSON.stringify(stored)),
    hash,
    "its full form means the same",
  );
  assert.notEqual(await policies.upsert("v", variable(6)), hash);
  assert.deepEqual([...policies.list().keys()], ["v"]);
  await policies.configure("v", { limit: { value: 1 } });
  await policies.remove("v");
  await policies.remove("v");
  assert.throws(() => policies.get("v"), fault("NOT_FOUND", /not found/));
  await turn();
  const left = (await store.list("/")).entries.map(({ key }) => key);
  assert.deepEqual(left, [COMPLETE]);
});

test("an invalid policy is refused with the place of the fault, and changes nothing", async (t) => {
  const { controller, store } = await bench(t, { files: { "v.yaml": variable() } });
  const { policies } = controller;
  const bad = "circuit:\n  components:\n    - inverter: {in_ports: {input: {signal_name: NOPE}}}\n";
  await assert.rejects(
    policies.upsert("a", bad),
    fault("INVALID_ARGUMENT", /policy_string:3:\d+.*NOPE/),
  );
  await assert.rejects(policies.upsert("a", "  "), fault("INVALID_ARGUMENT", /empty/));
  await assert.rejects(policies.upsert("a", "circuit: ["), fault("INVALID_ARGUMENT", /:1:/));
  await assert.rejects(policies.upsert("v", variable(9)), fault("ALREADY_EXISTS", /file/));
  await assert.rejects(policies.remove("v"), fault("FAILED_PRECONDITION", /file/));
  await assert.rejects(policies.decisions("nonsense"), fault("INVALID_ARGUMENT", /rate_limiter/));
  const wrapped = `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: { name: b }\nspec:\n  circuit: { components: [] }\n`;
  await assert.rejects(policies.upsert("a", wrapped), fault("INVALID_ARGUMENT", /without a name/));
  assert.deepEqual((await store.list("/config/api/")).entries, []);
  const judged = await policies.validate("a", bad);
  assert.equal(judged["valid"], false);
  assert.match(JSON.stringify(judged["faults"]), /NOPE/);
  assert.equal((await policies.validate("a", variable()))["valid"], true);
});

test("a dry run reports every fault with which the change would be refused", async (t) => {
  const { controller } = await bench(t, { files: { "v.yaml": variable() } });
  const { policies } = controller;
  const bare = "circuit: { components: [] }\n";
  const wrapped = (name: string, more = "") =>
    `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: { name: ${name} }\nspec: { circuit: { components: [] } }\n${more}`;
  const cases: [name: string, text: string, why: RegExp][] = [
    ["v", variable(9), /^a file has a policy of this name: change it there$/],
    ["a", wrapped("b"), /^policy_string: wanted a policy without a name, or with that/],
    ["a", wrapped("a", "dynamicConfig: {}\n"), /^policy_string: wanted no dynamicConfig/],
    ["a", `${bare}---\n${bare}`, /^policy_string: wanted one document with one policy, got 2/],
    ["a", "circuit: [\n", /^policy_string:2:1: wanted well-formed YAML/],
  ];
  for (const [name, text, why] of cases) {
    const judged = await policies.validate(name, text);
    const faults = judged["faults"] as readonly string[];
    assert.equal(judged["valid"], false, text);
    assert.match(faults.join("; "), why);
    await assert.rejects(policies.upsert(name, text), (thrown: Error) => {
      assert.ok(thrown.message.endsWith(faults.join("; ")), thrown.message);
      return true;
    });
  }
});

test("a format that circuits are not drawn in is refused with the ones that are", async (t) => {
  const { policies } = (await bench(t, { files: { "v.yaml": variable() } })).controller;
  assert.throws(
    () => policies.graph("v", "png", 0),
    fault("INVALID_ARGUMENT", /^format: wanted one of mermaid, dot, json, got "png"$/),
  );
});

test("dynamic configuration of the API takes precedence over a file's until it is removed", async (t) => {
  const made = await bench(t, {
    files: { "v.yaml": variable(), "v.dynamic.yaml": "limit: { value: 7 }\n" },
  });
  const { controller, clock, store, turn } = made;
  const { policies } = controller;
  const capacity = async () => {
    clock.advance(1_000);
    await turn();
    const [decision] = (await decisionsOf(made)).values();
    return decision?.rateLimiterDecision?.bucketCapacity ?? 0;
  };
  await policies.configure("v", { limit: { value: 9 } });
  assert.equal(await capacity(), 9);
  const mirrored = await store.list("/config/dynamic-config-policies/v");
  assert.equal(new TextDecoder().decode(mirrored.entries[0]?.value), '{"limit":{"value":9}}');
  await policies.configure("v", {});
  assert.equal(await capacity(), 5, "an empty object overrides nothing");
  await policies.configure("v", undefined);
  assert.equal(await capacity(), 7);
  await assert.rejects(policies.configure("w", {}), fault("NOT_FOUND", /not found/));
  assert.throws(() => policies.dynamicConfig("w"), fault("NOT_FOUND", /not found/));
});

test("dynamic configuration of the API outlives the removal and return of its policy's file", async (t) => {
  const { controller, write, remove, when } = await bench(t, { files: { "v.yaml": variable() } });
  const { policies } = controller;
  await policies.configure("v", { limit: { value: 9 } });
  remove("v.yaml");
  await when("the policy is gone", () => !policies.list().has("v"));
  write("v.yaml", variable());
  await when("the policy is back", () => policies.list().has("v"));
  assert.deepEqual(policies.dynamicConfig("v"), { limit: { value: 9 } });
});

test("a change over the API keeps the state of components", async (t) => {
  const made = await bench(t);
  const { controller, clock } = made;
  await controller.policies.upsert("c", counting());
  clock.advance(9_000);
  await controller.policies.upsert("c", counting({ fill: 2 }));
  const [decision] = (await decisionsOf(made)).values();
  assert.equal(decision?.rateLimiterDecision?.bucketCapacity, 10);
  assert.equal(decision?.rateLimiterDecision?.fillAmount, 2);
});

test("a stored document that cannot be read is INVALID, or OUTDATED where an earlier version runs", async (t) => {
  const { controller, store, when } = await bench(t);
  const { policies } = controller;
  const put = (name: string, text: string) =>
    store.commit([
      { kind: "put", key: `/config/api/policies/${name}`, value: new TextEncoder().encode(text) },
    ]);
  await put("bad", '{"circuit": 5}');
  await when("it is known", () => policies.list().has("bad"));
  assert.equal(policies.get("bad").status, "INVALID");
  assert.match(policies.get("bad").reason, /circuit/);
  await policies.upsert("v", variable());
  await put("v", '{"circuit": 5}');
  await when("it is outdated", () => policies.get("v").status === "OUTDATED");
  assert.notEqual(policies.get("v").policy, null);
});

test("a file whose name the API has is left out, other files are applied, and it runs once the name is free", async (t) => {
  const made = await bench(t, { files: { "c.yaml": counting() } });
  const { controller, write, when, reloads, status, logged, counts } = made;
  const { policies } = controller;
  const trouble = () => status.find("system/policies")?.firstError();
  await policies.upsert("v", variable());
  write("v.yaml", variable(1));
  await when("the refused file is reported", () => trouble() !== undefined);
  const words = /v\.yaml: left out: policy v: a policy of that name came over the API/;
  assert.match(trouble() ?? "", words);
  assert.equal(logged.filter((line) => words.test(line)).length, 1);
  assert.equal(reloads.failure, 1);
  assert.deepEqual(counts, { loaded: 2, refused: 1 });
  write("w.yaml", variable(2).replace("point: v", "point: w"));
  await when("another file comes", () => policies.list().has("w"));
  write("c.yaml", counting({ fill: 3 }));
  const fill = async () =>
    (await decisionsOf(made)).get("c root.1")?.rateLimiterDecision?.fillAmount;
  await when("and one changes", () =>
    JSON.stringify(policies.get("c").policy).includes('"value":3'),
  );
  assert.equal(await fill(), 3);
  assert.match(JSON.stringify(policies.get("v").policy), /"value":5/);
  await policies.upsert("v", variable(6));
  await policies.remove("v");
  assert.equal(trouble(), undefined);
  assert.match(JSON.stringify(policies.get("v").policy), /"value":1[,}]/);
  assert.deepEqual(counts, { loaded: 3, refused: 0 });
  await assert.rejects(policies.upsert("v", variable(9)), fault("ALREADY_EXISTS", /file/));
});

test("a conflict at the start leaves out only the file, also because of a flux meter", async (t) => {
  const meter = (value: number) =>
    `${variable(value)}resources: { flow_control: { flux_meters: { m: { selectors: [{ control_point: m, agent_group: default }] } } } }\n`;
  const store = memoryStore();
  const value = new TextEncoder().encode(meter(1));
  await store.commit([{ kind: "put", key: "/config/api/policies/a", value }]);
  const { controller, status } = await bench(t, {
    store,
    files: { "b.yaml": meter(2), "c.yaml": counting() },
  });
  const { policies } = controller;
  assert.deepEqual([...policies.list().keys()], ["a", "c"]);
  const trouble = status.find("system/policies")?.firstError() ?? "";
  assert.match(
    trouble,
    /b\.yaml: left out: flux meter m: policy a, which came over the API, has it/,
  );
  await policies.remove("a");
  assert.deepEqual([...policies.list().keys()], ["b", "c"]);
});

test("changes of one policy are applied in order, however long each takes to compile", async (t) => {
  const { controller } = await bench(t);
  const { policies } = controller;
  const first = policies.upsert("v", padded(variable(6)));
  const second = policies.upsert("v", variable(7));
  const removed = policies.upsert("w", padded(variable(8)).replaceAll(": v,", ": w,"));
  const gone = policies.remove("w");
  assert.notEqual(await first, await second);
  await Promise.all([removed, gone]);
  assert.deepEqual([...policies.list().keys()], ["v"]);
  assert.match(JSON.stringify(policies.get("v").policy), /"value":7/);
});

test("a refused change does not fail the next one of the same policy", async (t) => {
  const { policies } = (await bench(t)).controller;
  const refused = policies.upsert("v", "nonsense: 1\nresources: {}");
  const next = policies.upsert("v", variable());
  await assert.rejects(refused, fault("INVALID_ARGUMENT", /nonsense/));
  await next;
  assert.equal(policies.get("v").status, "VALID");
});

test("a call waits up to five seconds until its write is in force, and leaves no alarm", async (t) => {
  const store = memoryStore();
  let stuck = false;
  const slow = storeWith(store, {
    async *watch(prefixes, signal) {
      for await (const batch of store.watch(prefixes, signal)) {
        if (stuck) await new Promise((resolve) => signal.addEventListener("abort", resolve));
        yield batch;
      }
    },
  });
  const { controller, clock, turn } = await bench(t, { store: slow });
  const { policies } = controller;
  await policies.upsert("v", variable());
  await turn();
  const { alarms } = clock;
  await policies.configure("v", { limit: { value: 7 } });
  await turn();
  assert.equal(clock.alarms, alarms);
  stuck = true;
  let returned = false;
  const late = policies.configure("v", { limit: { value: 8 } }).then(() => {
    returned = true;
  });
  for (let at = 0; at < 10; at++) await turn();
  clock.advance(4_999);
  await turn();
  assert.equal(returned, false);
  clock.advance(1);
  await late;
  assert.deepEqual(policies.dynamicConfig("v"), { limit: { value: 7 } });
});

test("a configuration of a policy that was removed meanwhile is refused and not stored", async (t) => {
  const { controller, store } = await bench(t);
  const { policies } = controller;
  await policies.upsert("v", variable());
  // The controller learns of this removal only after it has begun to judge the configuration.
  const removed = store.commit([{ kind: "delete", key: "/config/api/policies/v" }]);
  await assert.rejects(policies.configure("v", {}), fault("NOT_FOUND", /not found/));
  await removed;
  const { entries } = await store.list("/config/api/dynamic-config-policies/");
  assert.deepEqual(entries, []);
});

test("a configuration whose policy is removed or replaced while it is written is refused and not stored", async (t) => {
  const store = memoryStore();
  const key = "/config/api/policies/v";
  let meanwhile: (() => Promise<unknown>) | undefined;
  const racing = storeWith(store, {
    commit: async (ops, options) => {
      const first = meanwhile;
      meanwhile = undefined;
      await first?.();
      return store.commit(ops, options);
    },
  });
  const { policies } = (await bench(t, { store: racing })).controller;
  const configs = async () => (await store.list("/config/api/dynamic-config-policies/")).entries;
  await policies.upsert("v", variable());
  const [entry] = (await store.list(key)).entries;
  assert.ok(entry !== undefined);
  meanwhile = () => store.commit([{ kind: "put", key, value: entry.value }]);
  const refused = fault("ABORTED", /changed or removed meanwhile/);
  await assert.rejects(policies.configure("v", { limit: { value: 7 } }), refused);
  assert.deepEqual(await configs(), []);
  meanwhile = () => store.commit([{ kind: "delete", key }]);
  await assert.rejects(policies.configure("v", { limit: { value: 7 } }), refused);
  assert.deepEqual(await configs(), []);
});

test("decisions are listed by kind, or all with their kinds", async (t) => {
  const { policies } = (await bench(t, { files: { "c.yaml": counting() } })).controller;
  const key = "agent_group-default-policy-c-component_id-root.1";
  assert.deepEqual(Object.keys(await policies.decisions("rate_limiter")), [key]);
  assert.deepEqual(Object.keys(await policies.decisions("")), [`rate_limiter/${key}`]);
  assert.deepEqual(await policies.decisions("sampler"), {});
  await assert.rejects(policies.decisions("x"), fault("INVALID_ARGUMENT", /decision_type/));
});

test("changes of the store are applied in order, too", async (t) => {
  const { controller, store } = await bench(t);
  const { policies } = controller;
  const put = (text: string) =>
    store.commit([
      { kind: "put", key: "/config/api/policies/v", value: new TextEncoder().encode(text) },
    ]);
  await Promise.all([put(padded(variable(6))), put(variable(7))]);
  const value = () => JSON.stringify(policies.list().get("v")?.policy ?? null);
  // The clock stands still: it bounds the time that the child process may take.
  await until("the second one is in force", () => /"value":7/.test(value()));
  await put(padded(variable(8)));
  await until("and the third", () => /"value":8/.test(value()));
});

test("a stop while a document is compiled fails that call and deletes nothing", async (t) => {
  const { controller, store } = await bench(t, { files: { "c.yaml": counting() } });
  const late = controller.policies.upsert("v", padded(variable()));
  const [stopped] = await Promise.all([
    controller.stop("drain"),
    assert.rejects(late, fault("UNAVAILABLE", /stopping/)),
  ]);
  assert.equal(stopped, undefined);
  assert.ok((await store.list("/decisions/")).entries.length > 0);
});

test("a value that its component cannot read is refused by key; a key that no component reads is warned of", async (t) => {
  const { controller, logged } = await bench(t);
  const { policies } = controller;
  await policies.upsert("v", variable());
  for (const limit of [7, "7", [7], { value: "7" }]) {
    await assert.rejects(
      policies.configure("v", { limit }),
      fault("INVALID_ARGUMENT", /^dynamic_config: limit: wanted \{value: number\}/),
    );
  }
  await assert.rejects(
    policies.configure("v", { limit: { value: Number.POSITIVE_INFINITY } }),
    fault("INVALID_ARGUMENT", /got \{"value":Infinity\}$/),
  );
  assert.equal(policies.dynamicConfig("v"), undefined);
  const config = { limit: { value: 7 }, limits: 1, other: { x: [null] } };
  const warnings = [
    'dynamic configuration: no component reads "limits"; did you mean limit?',
    'dynamic configuration: no component reads "other"',
  ];
  assert.deepEqual(await policies.configure("v", config), warnings);
  const lines = logged.filter((line) => line.includes("no component reads"));
  assert.deepEqual(lines, warnings);
  const { status, reason } = policies.get("v");
  assert.deepEqual([status, reason], ["VALID", warnings.join("; ")]);
  assert.deepEqual(await policies.configure("v", { limit: { value: 7 } }), []);
  assert.equal(policies.get("v").reason, "");
});

test("each change over the API is one line in the log, and refused ones are none", async (t) => {
  const { controller, logged } = await bench(t);
  const { policies } = controller;
  const lines = () => logged.filter((line) => line.startsWith("policy over the API"));
  await policies.upsert("v", variable(), "192.0.2.7");
  await assert.rejects(policies.upsert("v", "nonsense: 1"));
  await policies.configure("v", {});
  await policies.configure("v", undefined);
  await policies.remove("v");
  await policies.remove("v");
  assert.deepEqual(lines(), [
    "policy over the API: stored",
    "policy over the API: dynamic configuration replaced",
    "policy over the API: dynamic configuration removed",
    "policy over the API: removed",
  ]);
});

/** Large enough to be judged in the child process. */
function padded(text: string): string {
  return `${text}${"# and so on\n".repeat(1_000)}`;
}

test("a dynamic configuration beyond 256 KiB is refused with 413 before it is examined, and the one in force stays", async (t) => {
  const { policies } = (await bench(t)).controller;
  await policies.upsert("v", variable());
  await policies.configure("v", { limit: { value: 7 } });
  const keys = Array.from({ length: 20_000 }, (_, at) => [`key-${at}`, at] as const);
  await assert.rejects(policies.configure("v", Object.fromEntries(keys)), (thrown) => {
    assert.ok(thrown instanceof Fault);
    assert.deepEqual([thrown.code, thrown.http], ["RESOURCE_EXHAUSTED", 413]);
    assert.match(
      thrown.message,
      /^dynamic_config: wanted at most 262144 characters of JSON, got \d+$/,
    );
    return true;
  });
  assert.deepEqual(policies.dynamicConfig("v"), { limit: { value: 7 } });
});

test("a dynamic configuration for a policy that is unknown, or is removed meanwhile, changes nothing", async (t) => {
  const key = "/config/api/policies/v";
  const inner = memoryStore();
  let removing = false;
  /** Removes the policy when the service has just looked for it. */
  const store = storeWith(inner, {
    list: async (prefix) => {
      const found = await inner.list(prefix);
      if (removing && prefix === key) await inner.commit([{ kind: "delete", key }]);
      return found;
    },
  });
  const { policies } = (await bench(t, { store })).controller;
  await assert.rejects(policies.configure("v", {}), fault("NOT_FOUND", /policy not found/));
  await policies.upsert("v", variable());
  removing = true;
  const late = policies.configure("v", { limit: { value: 7 } });
  await assert.rejects(late, fault("ABORTED", /changed or removed meanwhile/));
  assert.deepEqual((await store.list("/config/api/dynamic-config-policies/")).entries, []);
});
