// The circuit of every recorded policy: the same components with the same wires as recorded, and, tick by tick,
// the same readings. Where they differ, the recording is wrong, and the right values are listed here.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { compilePolicy } from "#policy/compile.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { expanded } from "#policy/diagram/expand.ts";
import { readPolicies } from "#policy/document/read.ts";
import { type RecordedCase, readCase } from "../../golden/control-plane/case.ts";
import { HASH, planOf } from "../../golden/control-plane/plan.ts";
import { replay } from "../../golden/control-plane/replay.ts";

const CASES = "test/golden/control-plane/cases";
const recordings = readdirSync(CASES).map((name) => grouped(readCase(join(CASES, name))));

/** Documents that the recorded system accepts and Sluice refuses, with what the finding mentions. */
const REFUSED: ReadonlyMap<string, string> = new Map([
  ["accepted-bad-label-regex", "regex"],
  ["accepted-empty-in-signal-name", "signal_name"],
  ["accepted-max-below-min-custom-bucket-range", "max"],
  ["document-unknown-keys", "tru_for"],
]);

/** In-ports and configuration that differ, by case and id: the right value in place of the recorded one. */
const RIGHT: Readonly<
  Record<
    string,
    Readonly<Record<string, { readonly in?: JsonObject; readonly config?: JsonObject }>>
  >
> = {
  // The alert of a controller is raised while it proposes another scale than the actual one (D-19).
  "auto-scaler-gradient": {
    "root.1.17": { in: { signal: "root.1/SCALE_IN_PROPOSED_0" } },
    "root.1.23": { in: { signal: "root.1/SCALE_OUT_PROPOSED_0" } },
  },
  "document-defaults": { "root.11.17": { in: { signal: "root.11/SCALE_IN_PROPOSED_0" } } },
  // A ramp hands its label values on to its sampler (D-6).
  "load-ramp-backward-reset": {
    "root.3.1": {
      config: { pass_through_label_values: ["vip"], pass_through_label_values_config_key: "ptv" },
    },
  },
  // An overload that is not confirmed lets everything pass (D-5).
  "range-driven-confirmation": { "root.2.2": { in: { switch: "root.2/PASS_THROUGH" } } },
  "range-driven-load-scheduler": { "root.1.2": { in: { switch: "root.1/PASS_THROUGH" } } },
  "range-driven-rising": { "root.1.2": { in: { switch: "root.1/PASS_THROUGH" } } },
  // An empty element of a list is unconnected, as an empty port is (D-10).
  "unconnected-ports": { "root.2": { in: { inputs: [null, -5] } } },
};

/** Components that the recorded system does not have: they come last in their composite. */
const ADDED: Readonly<Record<string, readonly string[]>> = {
  "auto-scaler-gradient": ["root.1.50", "root.1.51"],
  "document-defaults": ["root.11.44"],
};

/** Readings that must not be copied either, downstream of those that the recording names. */
const NOT_COPIED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "range-driven-confirmation": {
    "root.2/LOAD_MULTIPLIER_ALERT": "from tick 12",
    alerts: "those of component root.2.5",
  },
};

/** The group of selectors without one: another in the recorded system (D-29). */
function grouped<T>(recorded: T): T {
  return JSON.parse(JSON.stringify(recorded).replaceAll("aperture-cloud", "default")) as T;
}

type Parts = ReadonlyMap<string, JsonObject>;

/** Components by id; in-ports that read nothing are left out, whether they were written or not. */
function partsOf(policy: CompiledPolicy): Parts {
  const components = expanded(policy)["components"] as readonly JsonObject[];
  const parts = components.map(({ id, in: ins = {}, ...rest }) => {
    const read = Object.entries(ins as JsonObject).filter(
      ([, from]) => from !== null && !(Array.isArray(from) && from.length === 0),
    );
    return [String(id), { ...rest, in: Object.fromEntries(read) }] as const;
  });
  return new Map(parts);
}

function compiled({ name }: RecordedCase): CompiledPolicy {
  const [document] = readPolicies(
    readFileSync(join(CASES, name, "policy.yaml"), "utf8"),
    name,
  ).documents;
  assert.ok(document);
  const outcome = compilePolicy(document, { digest: () => HASH, queries: "prometheus" });
  if (!outcome.ok) assert.fail(JSON.stringify(outcome.findings));
  return outcome.policy;
}

for (const recorded of recordings) {
  const { name, leaves, ticks } = recorded;
  if (REFUSED.has(name)) {
    test(`refuses: ${name}`, () => {
      assert.throws(() => compiled(recorded), new RegExp(REFUSED.get(name) ?? "none"));
    });
    continue;
  }
  test(`compiles: ${name}`, () => {
    const policy = compiled(recorded);
    if (leaves === undefined || policy.document.circuit?.evaluation_interval === 0) {
      assert.equal(policy.circuit, undefined);
      return;
    }
    const got = partsOf(policy);
    const wanted = partsOf({ ...policy, circuit: planOf(recorded) });
    const added = new Set(ADDED[name]);
    assert.deepEqual(
      [...got.keys()].filter((id) => !added.has(id)),
      [...wanted.keys()],
    );
    for (const id of added) assert.ok(got.has(id), id);
    for (const [id, part] of wanted) {
      const { in: ins, config } = RIGHT[name]?.[id] ?? {};
      const right = {
        ...part,
        in: { ...(part["in"] as JsonObject), ...ins },
        ...(config && { config: { ...(part["config"] as JsonObject), ...config } }),
      };
      assert.deepEqual(got.get(id), right, id);
    }
  });
  if (ticks === undefined || ticks.ticks === 0) continue;
  test(`runs: ${name}`, () => {
    const { circuit } = compiled(recorded);
    assert.ok(circuit);
    const doNotCopy = { ...recorded.doNotCopy, ...NOT_COPIED[name] };
    assert.deepEqual(replay({ ...recorded, doNotCopy }, circuit), []);
  });
}

test("every listed exception refers to an existing case and component", () => {
  const names = new Set(recordings.map(({ name }) => name));
  const told = [...REFUSED.keys(), ...[RIGHT, ADDED, NOT_COPIED].flatMap(Object.keys)];
  for (const name of told) assert.ok(names.has(name), name);
  assert.ok(names.size >= 89);
});
