// An agent that gets three times as many checks as it can judge, through the port and from another process. What classifiers
// and selectors do to each check is what takes its time.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Answers,
  costlyPolicy,
  type LoadResult,
  OverloadCaller,
} from "../kit/faults/overload.ts";
import { call } from "../kit/sluice/check.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { type StandaloneOptions, standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

/** Judging takes several times as long as all the rest of a check. */
const PATTERNS = 240;
/** Callers that keep the agent busy without a backlog. */
const FEW = 8;
/** Checks that are shed before the load ends, so that there are enough of them to compare. */
const ENOUGH = 400;
const MOST_MS = 60_000;

async function overloaded(
  t: Parameters<typeof standaloneProcess>[0],
  env: StandaloneOptions["env"],
) {
  const policies = { "costly.yaml": costlyPolicy(PATTERNS) };
  const sluice = await standaloneProcess(t, { policies, ...(env && { env }) });
  const { address } = sluice;
  await until("the policy is in force", async () => {
    const decisions = await counted(address, "sluice_circuit_decisions_total", "policy_name");
    return (decisions["costly"] ?? 0) > 0;
  });
  const caller = new OverloadCaller(address);
  t.after(() => caller.close());
  await caller.capacity(FEW, 400);
  const rate = 3 * (await caller.capacity(FEW, 400));
  return { ...sluice, caller, rate, before: await shedBy(address) };
}

/** Checks that were shed, by control point. */
async function shedBy(
  address: string,
): Promise<{ readonly closed: number; readonly open: number }> {
  const { closed = 0, open = 0 } = await counted(
    address,
    "sluice_shed_checks_total",
    "control_point",
  );
  return { closed, open };
}

function sum(result: LoadResult, of: string, what: (answers: Answers) => number): number {
  return [...result.answers].reduce(
    (all, [key, own]) => all + (key.includes(of) ? what(own) : 0),
    0,
  );
}

/** Asks for a route again and again until the returned function is called, which returns the statuses of the answers. */
function asking(address: string, path: string): () => Promise<number[]> {
  const statuses: number[] = [];
  const stop = new AbortController();
  const loop = (async () => {
    while (!stop.signal.aborted) statuses.push((await call(address, "GET", path)).status);
  })();
  return async () => {
    stop.abort();
    await loop;
    return statuses;
  };
}

test("an overloaded agent sheds by failure modes, the least important checks first, and recovers", async (t) => {
  const { address, caller, rate, before, child } = await overloaded(t, {
    // A smaller delay than the default is reached sooner where the load gets little of the processor.
    SVC_AGENT_FLOW_CONTROL_OVERLOAD_MAX_DELAY: "20ms",
  });
  const routes = ["/healthz", "/metrics", "/v1/status"].map((path) => asking(address, path));
  const shedOf = (result: LoadResult) => sum(result, "", ({ shed }) => shed);
  const enough = (result: LoadResult, ms: number) => shedOf(result) > ENOUGH || ms > MOST_MS;
  const result = await caller.send(rate, enough);
  for (const stop of routes) {
    const statuses = await stop();
    assert.ok(statuses.length > 0 && statuses.every((status) => status === 200), `${statuses}`);
  }
  assert.deepEqual(result.failed, []);
  const answered = sum(result, "", ({ judged, shed }) => judged + shed);
  assert.equal(answered, result.sent);
  assert.ok(shedOf(result) > ENOUGH, `${shedOf(result)} of ${answered} were shed`);
  // Each by the failure mode of its control point.
  assert.equal(
    sum(result, "closed", ({ passed }) => passed),
    0,
  );
  const open = sum(result, "open", ({ shed }) => shed);
  assert.equal(
    sum(result, "open", ({ passed }) => passed),
    open,
  );
  const closed = shedOf(result) - open;
  const all = { open: before.open + open, closed: before.closed + closed };
  assert.deepEqual(await shedBy(address), all);
  const decided = await counted(address, "flowcontrol_decisions_total", "control_point");
  assert.equal((decided["open"] ?? 0) + (decided["closed"] ?? 0), answered + 800);
  const judgedShare = (tier: string) => {
    const judged = sum(result, tier, (each) => each.judged);
    return judged / (judged + sum(result, tier, ({ shed }) => shed));
  };
  const [gold, tin] = [judgedShare("gold"), judgedShare("tin")];
  // How much more depends on how quickly the machine lets the load build up.
  assert.ok(gold > 1.2 * tin, `${gold} of the important ones, ${tin} of the others`);
  await until("all checks are judged again", async () => {
    const later = await caller.send(rate / 10, (_, ms) => ms > 200);
    return shedOf(later) === 0 && later.sent > 0;
  });
  const log = () => child.out() + child.err();
  await until("the log says so", () => log().includes("not overloaded any more"));
  const { status } = JSON.parse((await call(address, "GET", "/v1/status/system/overload")).body);
  assert.equal(status.message.value, "no check is shed");
  assert.ok(log().includes('"message":"overloaded, '), log());
});

test("flow_control.overload.enabled switches shedding off: all checks wait until they are judged", async (t) => {
  const { caller, rate, address } = await overloaded(t, {
    SVC_AGENT_FLOW_CONTROL_OVERLOAD_ENABLED: "false",
  });
  const result = await caller.send(rate, ({ sent }) => sent > 600);
  assert.deepEqual(result.failed, []);
  assert.equal(
    sum(result, "", ({ judged }) => judged),
    result.sent,
  );
  assert.deepEqual(await shedBy(address), { closed: 0, open: 0 });
});
