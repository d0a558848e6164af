// Requests that are easy to misread, with the expected results, from test/cases/adversarial/*.json. A case is a
// JSON body (`json` or, where spelling matters, `json_text`) or an ext_authz request (`proxy`, in protobuf
// JSON). `wanted` is the HTTP status of a refusal, or the labels (null: absent), the anomalies counted and the
// addresses looked up.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { describe, it } from "node:test";
import { fromJson, type JsonValue, toBinary } from "@bufbuild/protobuf";
import { createOperationContext } from "#api/context.ts";
import type { ServiceLookup } from "#api/service-lookup.ts";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import type { Flow } from "#flow/flow.ts";
import { LabelSlots } from "#flow/label.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { agentOf, callOf, endpointsOf, handlerOf } from "../kit/api/agent.ts";

const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");

interface Case {
  readonly about: string;
  readonly json?: object;
  readonly json_text?: string;
  readonly proxy?: object;
  readonly wanted: {
    /** HTTP status of an error: the caller's own message is wrong. */
    readonly refused?: number;
    /** HTTP status of a refused decision: the described request is one that no rule judges. */
    readonly denied?: number;
    readonly labels?: Readonly<Record<string, string | null>>;
    readonly anomalies?: readonly string[];
    readonly looked_up?: readonly string[];
  };
}

const files = globSync("test/cases/adversarial/*.json").sort();

it("there are cases", () => assert.ok(files.length >= 5));

/** An agent that records the labels of each flow when it is judged: the flow object is reused afterwards. */
function recordingAgent(names: readonly string[]) {
  const agent = agentOf([]);
  const labels: ReturnType<typeof labelsOf>[] = [];
  const addresses: string[] = [];
  const flowController = {
    ...agent.flowController,
    judge(flow: Flow) {
      labels.push(labelsOf(flow, names));
      return agent.flowController.judge(flow);
    },
  };
  const lookup: ServiceLookup = {
    byAddress(address) {
      addresses.push(address);
      return [];
    },
  };
  const endpoints = endpointsOf(
    flowController,
    lookup,
    createOperationContext(flowController, lookup, seededChance(2)),
  );
  return { ...agent, labels, addresses, endpoints };
}

async function ask(
  { json, json_text: text, proxy }: Case,
  agent: ReturnType<typeof recordingAgent>,
) {
  if (proxy === undefined) return agent.endpoints.checkHttpJson(text ?? json);
  const bytes = toBinary(CheckRequestSchema, fromJson(CheckRequestSchema, proxy as JsonValue));
  const handle = handlerOf(
    agent.endpoints.services,
    "envoy.service.auth.v3.Authorization",
    "Check",
  );
  return handle(bytes, callOf({ "control-point": "here" }));
}

/** Reads labels one by one, as rules do, and all together, as previews do: both must agree. */
function labelsOf(flow: Flow, names: readonly string[]) {
  const slots = new LabelSlots();
  for (const name of names) slots.of(name);
  const all = new Map<string, string>();
  flow.labels.each((name, value) => {
    assert.ok(!all.has(name), "a label came twice");
    all.set(name, value);
  });
  return slots.schema.keys.map((key) => {
    const value = flow.labels.get(key);
    assert.equal(all.get(key.name), value);
    assert.equal(flow.labels.origin(key) === undefined, value === undefined);
    return [key.name, value ?? null];
  });
}

for (const file of files) {
  describe(`adversarial ${basename(file, ".json")}`, () => {
    const cases: readonly Case[] = JSON.parse(readFileSync(file, "utf8"));
    for (const each of cases) {
      it(each.about, async () => {
        const { refused, denied, labels = {}, anomalies = [], looked_up: lookedUp } = each.wanted;
        const agent = recordingAgent(Object.keys(labels));
        if (refused !== undefined) {
          await assert.rejects(ask(each, agent), (thrown) => {
            assert.ok(thrown instanceof Fault);
            assert.equal(thrown.http, refused);
            return true;
          });
          assert.equal(agent.observer.verdicts.length, 0);
          return;
        }
        await ask(each, agent);
        assert.deepEqual(agent.observer.anomalies, anomalies);
        const [verdict] = agent.observer.verdicts;
        assert.equal(verdict?.deniedStatus, denied ?? 0);
        assert.equal(verdict?.accepted, denied === undefined);
        assert.deepEqual(agent.labels, denied === undefined ? [Object.entries(labels)] : []);
        if (lookedUp !== undefined) assert.deepEqual([...agent.addresses].sort(), lookedUp);
      });
    }
  });
}
