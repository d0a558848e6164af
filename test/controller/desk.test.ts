// What callers may do to policies over the API, and how files and the API share one space of names.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Code } from "#base/fault.ts";
import { Fault } from "#base/fault.ts";
import { memoryStore } from "#store/memory.ts";
import { bench, counting, decisionsOf, variable } from "./kit.ts";

function fault(code: Code, words: RegExp) {
  return (thrown: unknown) => {
    assert.ok(thrown instanceof Fault, String(thrown));
    assert.equal(thrown.code, code);
    assert.match(thrown.message, words);
    return true;
  };
}

test("a policy over the API runs when the call returns, is stored whole, and goes again", async (t) => {
  const made = await bench(t);
  const { controller, store, turn } = made;
  const { desk } = controller;
  const hash = await desk.upsert("v", variable());
  assert.equal(desk.get("v").status, "VALID");
  assert.equal((await decisionsOf(made)).size, 1);
  const [entry] = (await store.list("/config/api/policies/")).entries;
  const stored = JSON.parse(new TextDecoder().decode(entry?.value)) as Record<string, unknown>;
  assert.deepEqual(Object.keys(stored), ["circuit", "resources"]);
  assert.deepEqual(desk.get("v").policy, stored);
  assert.equal(
    await desk.upsert("v", JSON.stringify(stored)),
    hash,
    "its full form means the same",
  );
  assert.notEqual(await desk.upsert("v", variable(6)), hash);
  assert.deepEqual([...desk.list().keys()], ["v"]);
  await desk.configure("v", { limit: { value: 1 } });
  await desk.remove("v");
  await desk.remove("v");
  assert.throws(() => desk.get("v"), fault("NOT_FOUND", /not found/));
  await turn();
  assert.deepEqual((await store.list("/")).entries, []);
});

test("what cannot be used is refused with its place, and nothing changes", async (t) => {
  const { controller, store } = await bench(t, { files: { "v.yaml": variable() } });
  const { desk } = controller;
  const bad = "circuit:\n  components:\n    - inverter: {in_ports: {input: {signal_name: NOPE}}}\n";
  await assert.rejects(
    desk.upsert("a", bad),
    fault("INVALID_ARGUMENT", /policy_string:3:\d+.*NOPE/),
  );
  await assert.rejects(desk.upsert("a", "  "), fault("INVALID_ARGUMENT", /empty/));
  await assert.rejects(desk.upsert("a", "circuit: ["), fault("INVALID_ARGUMENT", /:1:/));
  await assert.rejects(desk.upsert("v", variable(9)), fault("ALREADY_EXISTS", /file/));
  await assert.rejects(desk.remove("v"), fault("FAILED_PRECONDITION", /file/));
  await assert.rejects(desk.decisions("nonsense"), fault("INVALID_ARGUMENT", /rate_limiter/));
  const wrapped = `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: { name: b }\nspec:\n  circuit: { components: [] }\n`;
  await assert.rejects(desk.upsert("a", wrapped), fault("INVALID_ARGUMENT", /without a name/));
  assert.deepEqual((await store.list("/config/api/")).entries, []);
  const judged = await desk.validate("a", bad);
  assert.equal(judged["valid"], false);
  assert.match(JSON.stringify(judged["faults"]), /NOPE/);
  assert.equal((await desk.validate("a", variable()))["valid"], true);
});

test("dynamic configuration over the API wins over a file's, and gives way when it goes", async (t) => {
  const made = await bench(t, {
    files: { "v.yaml": variable(), "v.dynamic.yaml": "limit: { value: 7 }\n" },
  });
  const { controller, clock, store, turn } = made;
  const { desk } = controller;
  const capacity = async () => {
    clock.advance(1_000);
    await turn();
    const [decision] = (await decisionsOf(made)).values();
    return decision?.rateLimiterDecision?.bucketCapacity ?? 0;
  };
  await desk.configure("v", { limit: { value: 9 } });
  assert.equal(await capacity(), 9);
  const mirrored = await store.list("/config/dynamic-config-policies/v");
  assert.equal(new TextDecoder().decode(mirrored.entries[0]?.value), '{"limit":{"value":9}}');
  await desk.configure("v", {});
  assert.equal(await capacity(), 5, "an empty object overrides nothing");
  await desk.configure("v", undefined);
  assert.equal(await capacity(), 7);
  await assert.rejects(desk.configure("w", {}), fault("NOT_FOUND", /not found/));
  assert.throws(() => desk.dynamicConfig("w"), fault("NOT_FOUND", /not found/));
});

test("a change over the API keeps what was counted", async (t) => {
  const made = await bench(t);
  const { controller, clock } = made;
  await controller.desk.upsert("c", counting());
  clock.advance(9_000);
  await controller.desk.upsert("c", counting({ fill: 2 }));
  const [decision] = (await decisionsOf(made)).values();
  assert.equal(decision?.rateLimiterDecision?.bucketCapacity, 10);
  assert.equal(decision?.rateLimiterDecision?.fillAmount, 2);
});

test("what others leave in the store: unreadable, it is INVALID; running before, OUTDATED", async (t) => {
  const { controller, store, when } = await bench(t);
  const { desk } = controller;
  const put = (name: string, text: string) =>
    store.commit([
      { kind: "put", key: `/config/api/policies/${name}`, value: new TextEncoder().encode(text) },
    ]);
  await put("bad", '{"circuit": 5}');
  await when("it is known", () => desk.list().has("bad"));
  assert.equal(desk.get("bad").status, "INVALID");
  assert.match(desk.get("bad").reason, /circuit/);
  await desk.upsert("v", variable());
  await put("v", '{"circuit": 5}');
  await when("it is outdated", () => desk.get("v").status === "OUTDATED");
  assert.notEqual(desk.get("v").policy, null);
});

test("a file with a name of the API is left out, others are taken over; it comes when the name is free", async (t) => {
  const made = await bench(t, { files: { "c.yaml": counting() } });
  const { controller, write, when, reloads, status, told, counts } = made;
  const { desk } = controller;
  const trouble = () => status.find("system/policies")?.trouble();
  await desk.upsert("v", variable());
  write("v.yaml", variable(1));
  await when("the file is told", () => trouble() !== undefined);
  const words = /v\.yaml: left out: policy v: a policy of that name came over the API/;
  assert.match(trouble() ?? "", words);
  assert.equal(told.filter((line) => words.test(line)).length, 1);
  assert.equal(reloads.failure, 1);
  assert.deepEqual(counts, { loaded: 2, refused: 1 });
  write("w.yaml", variable(2).replace("point: v", "point: w"));
  await when("another file comes", () => desk.list().has("w"));
  write("c.yaml", counting({ fill: 3 }));
  const fill = async () =>
    (await decisionsOf(made)).get("c root.1")?.rateLimiterDecision?.fillAmount;
  await when("and one changes", () => JSON.stringify(desk.get("c").policy).includes('"value":3'));
  assert.equal(await fill(), 3);
  assert.match(JSON.stringify(desk.get("v").policy), /"value":5/);
  await desk.upsert("v", variable(6));
  await desk.remove("v");
  assert.equal(trouble(), undefined);
  assert.match(JSON.stringify(desk.get("v").policy), /"value":1[,}]/);
  assert.deepEqual(counts, { loaded: 3, refused: 0 });
  await assert.rejects(desk.upsert("v", variable(9)), fault("ALREADY_EXISTS", /file/));
});

test("a clash at the start leaves out the file alone, by its flux meter too", async (t) => {
  const meter = (value: number) =>
    `${variable(value)}resources: { flow_control: { flux_meters: { m: { selectors: [{ control_point: m, agent_group: default }] } } } }\n`;
  const store = memoryStore();
  const value = new TextEncoder().encode(meter(1));
  await store.commit([{ kind: "put", key: "/config/api/policies/a", value }]);
  const { controller, status } = await bench(t, {
    store,
    files: { "b.yaml": meter(2), "c.yaml": counting() },
  });
  const { desk } = controller;
  assert.deepEqual([...desk.list().keys()], ["a", "c"]);
  const trouble = status.find("system/policies")?.trouble() ?? "";
  assert.match(
    trouble,
    /b\.yaml: left out: flux meter m: policy a, which came over the API, has it/,
  );
  await desk.remove("a");
  assert.deepEqual([...desk.list().keys()], ["b", "c"]);
});

test("changes of one policy are taken in the order in which they came, however long each is judged", async (t) => {
  const { controller } = await bench(t);
  const { desk } = controller;
  const first = desk.upsert("v", padded(variable(6)));
  const second = desk.upsert("v", variable(7));
  const removed = desk.upsert("w", padded(variable(8)).replaceAll(": v,", ": w,"));
  const gone = desk.remove("w");
  assert.notEqual(await first, await second);
  await Promise.all([removed, gone]);
  assert.deepEqual([...desk.list().keys()], ["v"]);
  assert.match(JSON.stringify(desk.get("v").policy), /"value":7/);
});

test("in the store too: a change that is judged quickly does not overtake the one before it", async (t) => {
  const { controller, store, when } = await bench(t);
  const { desk } = controller;
  const put = (text: string) =>
    store.commit([
      { kind: "put", key: "/config/api/policies/v", value: new TextEncoder().encode(text) },
    ]);
  await Promise.all([put(padded(variable(6))), put(variable(7))]);
  const value = () => JSON.stringify(desk.list().get("v")?.policy ?? null);
  await when("the second one is in force", () => /"value":7/.test(value()));
  await put(padded(variable(8)));
  await when("and the third", () => /"value":8/.test(value()));
});

test("a stop while a document is judged: its caller is told, and nothing is taken back", async (t) => {
  const { controller, store } = await bench(t, { files: { "c.yaml": counting() } });
  const late = controller.desk.upsert("v", padded(variable()));
  const [stopped] = await Promise.all([
    controller.stop("drain"),
    assert.rejects(late, fault("UNAVAILABLE", /stopping/)),
  ]);
  assert.equal(stopped, undefined);
  assert.ok((await store.list("/decisions/")).entries.length > 0);
});

test("a value of a form that its component cannot read is refused by key; an unread key is told", async (t) => {
  const { controller, told } = await bench(t);
  const { desk } = controller;
  await desk.upsert("v", variable());
  for (const limit of [7, "7", [7], { value: "7" }]) {
    await assert.rejects(
      desk.configure("v", { limit }),
      fault("INVALID_ARGUMENT", /^dynamic_config: limit: wanted \{value: number\}/),
    );
  }
  assert.equal(desk.dynamicConfig("v"), undefined);
  await desk.configure("v", { limit: { value: 7 }, limits: 1, other: { x: [null] } });
  const lines = told.filter((line) => line.includes("no component reads"));
  assert.deepEqual(lines, [
    'dynamic configuration: no component reads "limits"; did you mean limit?',
    'dynamic configuration: no component reads "other"',
  ]);
});

test("each change over the API is one line in the log; what was refused is none", async (t) => {
  const { controller, told } = await bench(t);
  const { desk } = controller;
  const lines = () => told.filter((line) => line.startsWith("policy over the API"));
  await desk.upsert("v", variable(), "192.0.2.7");
  await assert.rejects(desk.upsert("v", "nonsense: 1"));
  await desk.configure("v", {});
  await desk.configure("v", undefined);
  await desk.remove("v");
  await desk.remove("v");
  assert.deepEqual(lines(), [
    "policy over the API: taken over",
    "policy over the API: dynamic configuration replaced",
    "policy over the API: dynamic configuration taken away",
    "policy over the API: removed",
  ]);
});

/** Large enough to be judged in a thread of its own. */
function padded(text: string): string {
  return `${text}${"# and so on\n".repeat(1_000)}`;
}
