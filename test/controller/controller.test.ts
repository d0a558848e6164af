// Policies of a directory from start to end: what is published and when, what a change keeps, and what is reported
// when something is wrong.

import assert from "node:assert/strict";
import { mkdirSync, renameSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { decode } from "#wire/protobuf/messages.ts";
import { type Bench, bench, counting, decisionsOf, variable } from "./kit.ts";

const EMPTY = "circuit: { components: [] }\n";
const KEY = "agent_group-default-policy-c-component_id-root";

async function numbers(of: Bench) {
  const found = [...(await decisionsOf(of))].map(([key, { commonAttributes, ...rest }]) => ({
    key,
    hash: commonAttributes.policyHash,
    capacity: rest.rateLimiterDecision?.bucketCapacity ?? 0,
  }));
  return found[0] ?? { key: "", hash: "", capacity: Number.NaN };
}

const hashOf = ({ controller }: Bench, name: string) => {
  const { text } = controller.policies.graph(name, "json", 0);
  return (JSON.parse(text) as { readonly hash: string }).hash;
};

test("a policy's configuration and its first decisions are in the first commit", async (t) => {
  const made = await bench(t, { files: { "c.yaml": counting() } });
  const [first] = made.commits;
  assert.ok(first?.has(`/config/rate_limiter/${KEY}.1`));
  assert.ok(first?.has(`/decisions/rate_limiter/${KEY}.1`));
  assert.ok(first?.has("/config/policies/c"));
  assert.equal((await numbers(made)).hash, hashOf(made, "c"));
});

test("stored policies and status name the true source: UNKNOWN for a file, ETCD for the API", async (t) => {
  const { controller, store, status, turn, write, when, reloads } = await bench(t, {
    files: { "c.yaml": counting() },
  });
  await controller.policies.upsert("v", variable());
  await turn();
  const sources = async (name: string) => {
    const { entries } = await store.list(`/config/policies/${name}`);
    const wrapper = decode(
      "aperture.policy.sync.v1.PolicyWrapper",
      entries[0]?.value ?? assert.fail(),
    );
    const shown = JSON.stringify(status.find(`system/policies/key/${name}`)?.view());
    const { text } = controller.policies.graph(name, "json", 0);
    const { origin } = JSON.parse(text) as { readonly origin: string };
    return [wrapper.source, /"origin":"(\w+)"/.exec(shown)?.[1], origin];
  };
  assert.deepEqual(await sources("c"), [0, "file", "file"]);
  assert.deepEqual(await sources("v"), [1, "api", "api"]);
  write("v.yaml", variable());
  await when("the file is left out", () => reloads.failure > 0);
  await controller.policies.remove("v");
  await turn();
  assert.deepEqual(await sources("v"), [0, "file", "file"], "the file takes over the same version");
});

test("a flux meter that moves from one policy to another in one step stays in the store", async (t) => {
  const document = (name: string, meter: boolean) => {
    const spec = `{ circuit: {}, resources: { flow_control: { ${meter ? METER : ""} } } }`;
    return `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: { name: ${name} }\nspec: ${spec}\n`;
  };
  const both = (owner: "a" | "b") =>
    `${document("a", owner === "a")}---\n${document("b", owner === "b")}`;
  const METER = "flux_meters: { m: { selectors: [{ control_point: m, agent_group: default }] } }";
  const { store, write, when, turn } = await bench(t, { files: { "ab.yaml": both("a") } });
  const owner = async () => {
    const { entries } = await store.list("/config/flux_meter/");
    const [entry, ...more] = entries;
    assert.deepEqual(more, []);
    return entry && decode("aperture.policy.sync.v1.FluxMeterWrapper", entry.value).policyName;
  };
  await turn();
  assert.equal(await owner(), "a");
  for (const next of ["b", "a"] as const) {
    const { revision } = await store.list("/config/");
    write("ab.yaml", both(next));
    let now = revision;
    await when("the edit is in the store", () => {
      void store.list("/config/").then((listed) => {
        now = listed.revision;
      });
      return now > revision;
    });
    assert.equal(await owner(), next);
  }
});

test("the decisions of a tick are one commit, and unchanged ones are not written", async (t) => {
  const made = await bench(t, { files: { "c.yaml": counting() } });
  const { clock, commits, turn } = made;
  for (let tick = 2; tick <= 5; tick++) {
    clock.advance(1_000);
    await turn();
    assert.equal((await numbers(made)).capacity, tick - 1);
    assert.deepEqual([...(commits.at(-1)?.keys() ?? [])], [`/decisions/rate_limiter/${KEY}.1`]);
  }
  assert.equal(commits.length, 5);
});

test("after a change an integrator keeps its sum, keys are overwritten in place, and decisions have the new hash at once", async (t) => {
  const made = await bench(t, { files: { "c.yaml": counting() } });
  const { clock, commits, write, when } = made;
  clock.advance(9_000);
  const [before, hash] = [(await numbers(made)).capacity, hashOf(made, "c")];
  const count = commits.length;
  // Another component in front of the limiter, so that its id changes too.
  const extra =
    "    - variable: { constant_output: { value: 1 }, out_ports: { output: { signal_name: X } } }\n";
  write("c.yaml", counting({ extra }));
  const isSwap = (each: ReadonlyMap<string, unknown>) => each.has("/config/policies/c");
  await when("the change is published", () => commits.slice(count).some(isSwap));
  await made.turn();
  assert.notEqual(hashOf(made, "c"), hash);
  const after = await numbers(made);
  assert.equal(after.key, "c root.2");
  assert.equal(after.hash, hashOf(made, "c"));
  assert.ok(after.capacity > before, `${after.capacity} follows ${before}`);
  await made.turn();
  const swap = commits.slice(count).find(isSwap);
  assert.equal(swap?.get(`/config/rate_limiter/${KEY}.1`), null);
  assert.ok(swap?.get(`/config/rate_limiter/${KEY}.2`));
  assert.ok(swap?.get(`/decisions/rate_limiter/${KEY}.2`));
  assert.equal(swap?.get(`/decisions/rate_limiter/${KEY}.1`), null);
});

test("a component that changes starts from scratch, and the limiter's key is put but never deleted", async (t) => {
  const made = await bench(t, { files: { "c.yaml": counting() } });
  const { clock, commits, write, when } = made;
  clock.advance(9_000);
  const hash = hashOf(made, "c");
  const changed = counting().replace(
    "in_ports: { input",
    "initial_value: 100\n        in_ports: { input",
  );
  write("c.yaml", changed);
  await when("the change is in force", () => hashOf(made, "c") !== hash);
  assert.ok((await numbers(made)).capacity >= 100);
  const deletes = commits.flatMap((each) => [...each].filter(([, value]) => value === null));
  assert.deepEqual(deletes, []);
});

test("a decision that its component does not renew at once is published under the new hash", async (t) => {
  const scheduler = (priority: number) => `circuit:
  evaluation_interval: 1s
  components:
    - flow_control:
        load_scheduler:
          in_ports: { load_multiplier: { constant_signal: { value: 0.5 } } }
          parameters:
            selectors: [{ control_point: l, agent_group: default }]
            scheduler: { default_workload_parameters: { priority: ${priority} } }
`;
  const made = await bench(t, { files: { "l.yaml": scheduler(1) } });
  made.clock.advance(10_000);
  assert.equal((await decisionsOf(made, "load_scheduler")).size, 1);
  const hash = hashOf(made, "l");
  made.write("l.yaml", scheduler(2));
  await made.when("the change is in force", () => hashOf(made, "l") !== hash);
  const [decision] = [...(await decisionsOf(made, "load_scheduler")).values()];
  assert.equal(decision?.commonAttributes.policyHash, hashOf(made, "l"));
});

test("removing a policy removes its keys, series and status, and no others", async (t) => {
  const files = { "c.yaml": counting(), "v.yaml": variable() };
  const made = await bench(t, { files });
  const { store, status, metrics, remove, when, controller, turn } = made;
  assert.ok(status.find("system/policies/key/c"));
  remove("c.yaml");
  await when("it is gone", () => !controller.policies.list().has("c"));
  await turn();
  const { entries } = await store.list("/");
  const keys = entries.map(({ key }) => key);
  assert.deepEqual(
    keys.filter((key) => /policy-c-|\/c$/.test(key)),
    [],
  );
  assert.ok(keys.some((key) => key.includes("policy-v-")));
  assert.equal(status.find("system/policies/key/c"), undefined);
  assert.equal(metrics.read("signal_reading", { policy_name: "c" }), undefined);
  assert.equal(metrics.read("sluice_circuit_ticks_total", { policy_name: "c" }), undefined);
  assert.ok(metrics.read("signal_reading", { policy_name: "v" }));
});

test("each reading counts once per tick: finite ones in quantiles, others in counters", async (t) => {
  const text = `circuit:
  evaluation_interval: 1s
  components:
    - variable: { constant_output: { special_value: NaN }, out_ports: { output: { signal_name: BAD } } }
    - variable: { constant_output: { special_value: +Inf }, out_ports: { output: { signal_name: MUCH } } }
    - first_valid:
        in_ports: { inputs: [{ signal_name: NEXT }, { constant_signal: { value: 0 } }] }
        out_ports: { output: { signal_name: SAFE } }
    - arithmetic_combinator:
        operator: add
        in_ports: { lhs: { signal_name: SAFE }, rhs: { constant_signal: { value: 1 } } }
        out_ports: { output: { signal_name: NEXT } }
`;
  const { clock, metrics, controller } = await bench(t, { files: { "s.yaml": text } });
  clock.advance(9_000);
  const of = (signal_name: string) => ({ signal_name, policy_name: "s", sub_circuit_id: "root" });
  assert.equal(metrics.read("invalid_signal_readings_total", of("BAD")), 10);
  assert.equal(metrics.read("infinite_signal_readings_total", of("MUCH")), 10);
  assert.equal(metrics.read("signal_reading", of("SAFE")), 10);
  const { body } = await metrics.scrape();
  assert.match(body, /signal_reading\{signal_name="NEXT",[^}]*quantile="1"\} 10\n/);
  assert.match(body, /signal_reading\{signal_name="NEXT",[^}]*quantile="0.5"\} 5\n/);
  assert.match(body, /signal_reading_sum\{signal_name="NEXT"[^}]*\} 55\n/);
  const { text: graph } = controller.policies.graph("s", "json", 0);
  const { readings } = JSON.parse(graph) as { readonly readings: Record<string, unknown> };
  assert.deepEqual(readings, {
    "root/BAD": null,
    "root/MUCH": "Infinity",
    "root/SAFE": 9,
    "root/NEXT": 10,
  });
});

test("status shows the last tick, decisions, and invalid signals with their reasons", async (t) => {
  const files = { "v.yaml": variable() };
  const { clock, status } = await bench(t, { files });
  clock.advance(2_000);
  const node = status.find("system/policies/key/v");
  const { value } = (node?.view().status?.message ?? {}) as { readonly value?: never };
  const shown = value as unknown as {
    readonly tick: object;
    readonly invalid_signals: readonly { readonly why: string; readonly signal_name: string }[];
    readonly decisions: readonly object[];
  };
  assert.deepEqual(shown.tick, {
    number: 3,
    timestamp: "2023-11-14T22:13:22.000000Z",
    late_ms: 0,
    skipped: 0,
  });
  assert.equal(shown.decisions.length, 1);
  const open = shown.invalid_signals.find(({ signal_name }) => signal_name === "PASS_THROUGH");
  assert.match(open?.why ?? "", /unconnected/);
  const readings = status.find("system/policies/key/v/circuit/circuit_signals")?.view();
  assert.match(JSON.stringify(readings), /"signal_name":"CAP","valid":true,"value":5/);
});

test("while the store is unavailable ticks go on and the failure is reported; it gets the latest numbers when it returns", async (t) => {
  const made = await bench(t, { files: { "c.yaml": counting() } });
  const { clock, commits, status, metrics, turn, setStore } = made;
  setStore("failing");
  for (let tick = 0; tick < 10; tick++) {
    clock.advance(1_000);
    await turn();
  }
  assert.equal(metrics.read("sluice_circuit_ticks_total", { policy_name: "c" }), 11);
  assert.match(status.find("system/policies")?.firstError() ?? "", /not published/);
  const count = commits.length;
  setStore("well");
  clock.advance(5_000);
  await turn();
  assert.ok(commits.length > count);
  assert.equal(status.find("system/policies")?.firstError(), undefined);
  assert.ok((metrics.read("sluice_controller_commits_total", { result: "failure" }) ?? 0) >= 3);
});

test("ticks go on while a commit never ends", async (t) => {
  const { clock, metrics, setStore, turn } = await bench(t, { files: { "c.yaml": counting() } });
  setStore("stuck");
  for (let tick = 0; tick < 5; tick++) {
    clock.advance(1_000);
    await turn();
  }
  assert.equal(metrics.read("sluice_circuit_ticks_total", { policy_name: "c" }), 6);
});

test("the process's own metrics answer queries from the next tick on; an unknown metric is logged", async (t) => {
  const text = `circuit:
  evaluation_interval: 1s
  components:
    - query: { promql: { query_string: sum(sluice_policy_reload_total) + 7, evaluation_interval: 1s, out_ports: { output: { signal_name: SEEN } } } }
    - query: { promql: { query_string: sum(no_such_meter), evaluation_interval: 1s, out_ports: { output: { signal_name: GONE } } } }
    - query: { promql: { query_string: sum(sluice_circuit_ticks_total), evaluation_interval: 1s, out_ports: { output: { signal_name: TICKS } } } }
`;
  const { clock, controller, logged, status, turn } = await bench(t, { files: { "q.yaml": text } });
  for (let tick = 0; tick < 5; tick++) {
    clock.advance(1_000);
    await turn();
  }
  const { readings } = JSON.parse(controller.policies.graph("q", "json", 0).text) as {
    readonly readings: Readonly<Record<string, number | null>>;
  };
  assert.ok((readings["root/TICKS"] ?? 0) >= 4, `${readings["root/TICKS"]}`);
  assert.equal(readings["root/GONE"], null);
  assert.equal(logged.filter((line) => line.includes("no_such_meter")).length, 1);
  const said = JSON.stringify(status.find("system/policies/key/q")?.view());
  assert.match(said, /query of root\.1: wanted one number, got a vector of 0/);
});

test("dynamic configuration of a file beside the policy: changed, unreadable, and removed", async (t) => {
  const made = await bench(t, {
    files: { "v.yaml": variable(), "v.dynamic.yaml": "limit: { value: 7 }\n" },
  });
  const { write, remove, when, controller, logged, status, clock } = made;
  const capacity = async () => {
    clock.advance(1_000);
    return (await numbers(made)).capacity;
  };
  assert.equal(await capacity(), 7);
  write("v.dynamic.yaml", "limit: { value: 8.5 }\n");
  const config = () => JSON.stringify(controller.policies.dynamicConfig("v"));
  await when("the change is in force", () => config() === '{"limit":{"value":8.5}}');
  assert.equal(await capacity(), 8.5);
  write("v.dynamic.yaml", "limit: [\n");
  await when("the fault is logged", () =>
    logged.some((line) => line.includes("dynamic configuration was ignored")),
  );
  assert.equal(await capacity(), 8.5, "what was in force stays");
  assert.match(JSON.stringify(status.find("system/policies")?.view()), /v\.dynamic\.yaml/);
  remove("v.dynamic.yaml");
  await when("it is gone", () => config() === undefined);
  assert.equal(await capacity(), 5, "the policy's own value is back");
});

test("a value of the wrong form is refused and logged, and so is dynamic configuration without a policy", async (t) => {
  const { logged, status } = await bench(t, {
    files: {
      "v.yaml": variable(),
      "v.dynamic.json": '{"limit": "much"}',
      "w.dynamic.json": "{}",
    },
  });
  assert.ok(
    logged.some((line) => /was refused.*limit: wanted/.test(line)),
    logged.join("\n"),
  );
  assert.ok(logged.some((line) => /for w: there is no such policy/.test(line)));
  assert.match(
    JSON.stringify(status.find("system/policies/key/v")?.view()),
    /"limit":"wanted \{value: number\}[^,]*,? .*got \\"much/,
  );
});

test("keys in a file of dynamic configuration that no component reads are logged, at the start and after edits", async (t) => {
  const { logged, status, write, when } = await bench(t, {
    files: { "v.yaml": variable(), "v.dynamic.yaml": "limt: { value: 7 }\n" },
  });
  const lines = () => logged.filter((line) => line.includes("no component reads"));
  const first =
    /v\.dynamic\.yaml: dynamic configuration: no component reads "limt"; did you mean limit\?$/;
  assert.equal(lines().length, 1);
  assert.match(lines()[0] ?? "", first);
  assert.match(JSON.stringify(status.find("system/policies")?.view()), /reads \\"limt\\"/);
  write("v.dynamic.yaml", "limit: { value: 7 }\nother: { x: 1 }\n");
  await when("the edit is read", () => lines().length === 2);
  assert.match(lines()[1] ?? "", /no component reads "other"$/);
});

test("a file with a fault changes nothing: circuits go on, and the policy's view gives the reason", async (t) => {
  const made = await bench(t, { files: { "c.yaml": counting(), "v.yaml": variable() } });
  const { write, when, controller, status, clock, counts, reloads, commits } = made;
  write("c.yaml", "circuit: [\n");
  await when("the fault is logged", () => reloads.failure === 1);
  assert.deepEqual(counts, { loaded: 2, refused: 1 });
  assert.match(status.find("system/policies")?.firstError() ?? "", /c\.yaml/);
  assert.equal(controller.policies.get("c").status, "OUTDATED");
  assert.equal(controller.policies.get("v").status, "VALID");
  const count = commits.length;
  clock.advance(3_000);
  await made.turn();
  assert.ok(commits.length > count, "it still ticks");
  write("c.yaml", counting());
  await when("it is well again", () => status.find("system/policies")?.firstError() === undefined);
  assert.equal(controller.policies.get("c").status, "VALID");
});

test("an edit or removal that another file's fault holds back is OUTDATED, and the reason names that file", async (t) => {
  const made = await bench(t, {
    files: {
      "c.yaml": counting(),
      "v.yaml": variable(),
      "w.yaml": variable().replace("point: v", "point: w"),
      "x.yaml": counting({ name: "x" }),
    },
  });
  const { write, remove, when, reloads } = made;
  const { policies } = made.controller;
  const statuses = () => [...policies.list()].map(([name, { status }]) => `${name} ${status}`);
  write("c.yaml", "circuit: [\n");
  await when("the fault is known", () => reloads.failure > 0);
  write("v.yaml", variable(9));
  remove("w.yaml");
  const wanted = ["c OUTDATED", "v OUTDATED", "w OUTDATED", "x VALID"];
  await when("the edits are read", () => statuses().join() === wanted.join());
  assert.match(policies.get("c").reason, /^[^ ]*\/c\.yaml:2:1: wanted well-formed YAML/);
  assert.match(
    policies.get("v").reason,
    /^the edit of [^ ]*\/v\.yaml is not in force.*: [^ ]*\/c\.yaml:2:1/,
  );
  assert.match(
    policies.get("w").reason,
    /^the removal of [^ ]*\/w\.yaml is not in force.*\/c\.yaml:2:1/,
  );
  assert.match(JSON.stringify(policies.get("v").policy), /"value":5/);
  write("v.yaml", variable());
  await when("the edit is undone", () => policies.get("v").status === "VALID");
  write("c.yaml", counting());
  await when("all is applied", () => statuses().join() === "c VALID,v VALID,x VALID");
});

test("a file that cannot be read holds back the edits of others, which are OUTDATED", async (t) => {
  const made = await bench(t, { files: { "c.yaml": counting(), "v.yaml": variable() } });
  const { directory, write, when, reloads } = made;
  const { policies } = made.controller;
  mkdirSync(join(directory, "b.yaml"));
  await when("the failure is known", () => reloads.failure > 0);
  write("v.yaml", variable(9));
  await when("the edit is read", () => policies.get("v").status === "OUTDATED");
  assert.match(policies.get("v").reason, /b\.yaml: wanted a regular file, got a directory$/);
  assert.equal(policies.get("c").status, "VALID");
  rmdirSync(join(directory, "b.yaml"));
  await when("the edit is in force", () => policies.get("v").status === "VALID");
  assert.match(JSON.stringify(policies.get("v").policy), /"value":9/);
});

test("the summary of the policies tells of files and of the API, whichever changed last", async (t) => {
  const made = await bench(t, { files: { "v.yaml": variable() } });
  const { logged, controller, remove, status, when, write } = made;
  const shown = () => status.find("system/policies")?.view().status?.message?.value;
  assert.equal(shown(), "policies from files in force: 1");
  assert.match(logged.join("\n"), /^policies from files in force: 1; new: v \([0-9a-f]+\)$/m);
  await controller.policies.upsert("c", counting());
  await when(
    "both are told of",
    () => shown() === "policies from files in force: 1, from other sources: 1",
  );
  remove("v.yaml");
  const none =
    /^no policies from files; policies from other sources in force: 1; removed: v \([0-9a-f]+\)$/m;
  await when("the removal is logged", () => none.test(logged.join("\n")));
  assert.equal(shown(), "no policies from files; policies from other sources in force: 1");
  await controller.policies.remove("c");
  const nothing = "no policies from files: every request passes, except those in ramp mode";
  await when("nothing is left", () => shown() === nothing);
  write("v.yaml", variable());
  await when("it is back", () => controller.policies.list().has("v"));
  remove("v.yaml");
  const all = `${nothing}; removed: v`;
  await when("every request passes", () => logged.some((line) => line.startsWith(all)));
});

test("a directory that disappeared and returns unchanged is in order again", async (t) => {
  const { directory, status, reloads, when } = await bench(t, { files: { "a.yaml": EMPTY } });
  const trouble = () => status.find("system/policies")?.firstError();
  renameSync(directory, `${directory}-away`);
  await when("the absence shows", () => trouble() !== undefined);
  assert.match(trouble() ?? "", /\/policies: wanted a directory that can be read, got ENOENT/);
  renameSync(`${directory}-away`, directory);
  await when("the return shows", () => trouble() === undefined);
  assert.deepEqual(reloads, { success: 2, failure: 1 });
});

test("an entry that cannot be read is a failed reload that names it", async (t) => {
  const { directory, status, logged, reloads, when, clock } = await bench(t, {
    files: { "a.yaml": EMPTY },
  });
  const trouble = () => status.find("system/policies")?.firstError();
  mkdirSync(join(directory, "b.yaml"));
  await when("the failure shows", () => trouble() !== undefined);
  assert.match(trouble() ?? "", /b\.yaml: wanted a regular file, got a directory/);
  assert.match(logged.join("\n"), /b\.yaml/);
  assert.deepEqual(reloads, { success: 1, failure: 1 });
  rmdirSync(join(directory, "b.yaml"));
  await when("it is well again", () => trouble() === undefined);
  assert.ok(clock.alarms > 0);
});

test("documents with faults make the start fail with every finding, and nothing is left running", async (t) => {
  const refused = bench(t, { files: { "a.yaml": "circuit: 5\n", "b.yaml": "nonsense: 1\n" } });
  await assert.rejects(refused, (thrown: unknown) => {
    assert.ok(thrown instanceof Fault);
    assert.equal(thrown.code, "INVALID_ARGUMENT");
    assert.match(thrown.message, /a\.yaml:1:\d+/);
    assert.match(thrown.message, /b\.yaml:1:\d+/);
    return true;
  });
});

test("a stopped controller no longer ticks, and deletes nothing", async (t) => {
  const { controller, clock, store, commits } = await bench(t, { files: { "c.yaml": counting() } });
  await controller.stop("drain");
  const count = commits.length;
  clock.advance(10_000);
  assert.equal(commits.length, count);
  assert.equal(clock.alarms, 0);
  assert.ok((await store.list("/decisions/")).entries.length > 0);
});
