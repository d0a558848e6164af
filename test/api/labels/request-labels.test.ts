// Clients choose how many headers and members of baggage a request has: replies list few of their labels, and rules read all.

import assert from "node:assert/strict";
import { test } from "node:test";
import { agentOf, endpointsOf } from "../../kit/api/agent.ts";
import { perUser, threeEach } from "../../kit/api/corpus.ts";

const MANY = 180;
const SHOWN = 8;
const SHOWN_HEADERS = 64;

const { flowController } = agentOf([[perUser, threeEach]]);
const { checkHttpJson } = endpointsOf(flowController);

async function listed(headers: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const reply = await checkHttpJson({ control_point: "here", request: { method: "GET", headers } });
  return reply.check_response.flow_label_keys;
}

test("replies list the last eight labels of baggage, of repeated members once", async () => {
  const members = Array.from({ length: MANY }, (_, at) => `m${at}=v`);
  const labels = (names: readonly string[]) => names.filter((name) => /^m\d+$/.test(name));
  assert.equal(labels(await listed({ baggage: members.join() })).length, SHOWN);
  assert.ok((await listed({ baggage: members.join() })).includes(`m${MANY - 1}`));
  const repeated = Array.from({ length: MANY }, (_, at) => `m${at % 3}=v`);
  assert.deepEqual(labels(await listed({ baggage: repeated.join() })), ["m0", "m1", "m2"]);
});

test("replies list the labels of 64 headers", async () => {
  const headers = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${at}`, "v"]));
  const count = async (sent: number) =>
    (await listed(headers(sent))).filter((name) => name.startsWith("http.request.header.")).length;
  assert.equal(await count(SHOWN_HEADERS), SHOWN_HEADERS);
  assert.equal(await count(SHOWN_HEADERS + 1), SHOWN_HEADERS);
  assert.equal(await count(900), SHOWN_HEADERS);
});
