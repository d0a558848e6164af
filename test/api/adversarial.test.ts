// Requests made to be misread, with their wanted answers written down in test/cases/adversarial/*.json.
// A case is a JSON body (`json` or, where spelling matters, `json_text`) or a proxy's message (`proxy`, in
// protobuf JSON); `wanted` is the HTTP status of a refusal, or labels (null: none), oddities counted and
// addresses looked up.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { describe, it } from "node:test";
import { doorOf } from "#api/door.ts";
import type { ServiceLookup } from "#api/services.ts";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import type { Flow } from "#flow/flow.ts";
import { Slots } from "#flow/label.ts";
import { jsonToBinary } from "#wire/protojson.ts";
import { CheckRequestSchema } from "../../src/wire/gen/envoy/service/auth/v3/external_auth_pb.ts";
import { agentOf, callOf, doorsOf, handlerOf } from "./agent.ts";

interface Case {
  readonly about: string;
  readonly json?: object;
  readonly json_text?: string;
  readonly proxy?: object;
  readonly wanted: {
    readonly refused?: number;
    readonly labels?: Readonly<Record<string, string | null>>;
    readonly odd?: readonly string[];
    readonly looked_up?: readonly string[];
  };
}

const files = globSync("test/cases/adversarial/*.json").sort();

it("there are cases", () => assert.ok(files.length >= 5));

/** An agent that notes the labels which its mind was given; a flow is only lent. */
function noting(names: readonly string[]) {
  const agent = agentOf([]);
  const labels: ReturnType<typeof labelsOf>[] = [];
  const addresses: string[] = [];
  const mind = {
    ...agent.mind,
    judge(flow: Flow) {
      labels.push(labelsOf(flow, names));
      return agent.mind.judge(flow);
    },
  };
  const lookup: ServiceLookup = {
    byAddress(address) {
      addresses.push(address);
      return [];
    },
  };
  const doors = doorsOf(mind, lookup, doorOf(mind, lookup, seededChance(2)));
  return { ...agent, labels, addresses, doors };
}

async function ask({ json, json_text: text, proxy }: Case, agent: ReturnType<typeof noting>) {
  if (proxy === undefined) return agent.doors.checkHttpJson(text ?? json);
  const bytes = jsonToBinary(CheckRequestSchema, JSON.stringify(proxy));
  const handle = handlerOf(agent.doors.services, "envoy.service.auth.v3.Authorization", "Check");
  return handle(bytes, callOf({ "control-point": "here" }));
}

/** Labels one by one, as rules read them, and all together, as previews do: both must say the same. */
function labelsOf(flow: Flow, names: readonly string[]) {
  const slots = new Slots();
  for (const name of names) slots.of(name);
  const all = new Map<string, string>();
  flow.labels.each((name, value) => {
    assert.ok(!all.has(name), "a label came twice");
    all.set(name, value);
  });
  return slots.keys.map((key) => {
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
        const { refused, labels = {}, odd = [], looked_up: lookedUp } = each.wanted;
        const agent = noting(Object.keys(labels));
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
        assert.deepEqual(agent.labels, [Object.entries(labels)]);
        assert.deepEqual(agent.observer.oddities, odd);
        if (lookedUp !== undefined) assert.deepEqual([...agent.addresses].sort(), lookedUp);
      });
    }
  });
}
