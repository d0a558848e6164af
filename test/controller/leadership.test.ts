// A candidate whose key of the election goes before it has begun to lead.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Candidate } from "#controller/leadership.ts";
import type { Leadership, Store } from "#store/store.ts";
import { CONTROLLER_ELECTION } from "#sync/keys.ts";
import { processOn } from "../kit/process.ts";
import { until } from "../kit/until.ts";

const turn = () => new Promise<void>((done) => setImmediate(done));

/** A candidate over a store in memory; `elected` is called with the first election that it wins. */
async function standing(
  t: TestContext,
  {
    elected = async () => undefined,
    starting = async () => undefined,
  }: {
    readonly elected?: (first: Leadership, store: Store) => Promise<void>;
    readonly starting?: (first: Leadership, store: Store) => Promise<void>;
  },
) {
  const { process, clock, lines } = await processOn(t, "controller");
  const { store } = process;
  const won: Leadership[] = [];
  const starts: AbortSignal[] = [];
  const lead = store.lead.bind(store);
  store.lead = async (...args) => {
    const leadership = await lead(...args);
    won.push(leadership);
    if (won.length === 1) await elected(leadership, store);
    return leadership;
  };
  const candidate = new Candidate(process, async (_own, over) => {
    starts.push(over);
    if (starts.length === 1) await starting(won[0] ?? assert.fail(), store);
    return { stop: async () => undefined };
  });
  const stood = candidate.stand();
  t.after(() => candidate.close());
  const messages = () => lines.map(({ message }) => message);
  return { clock, candidate, stood, starts, won, messages };
}

const remove = async ({ guard: { key } }: Leadership, store: Store) => {
  await store.commit([{ kind: "delete", key }]);
  for (let turns = 0; turns < 10; turns++) await turn();
};

test("a candidate whose key is deleted as it is elected stands again", async (t) => {
  const { clock, stood, starts, won, messages } = await standing(t, { elected: remove });
  await until("it has given up", () => {
    clock.advance(1_000);
    return won.length === 2;
  });
  await stood;
  await until("it leads", () => messages().includes("this controller leads"));
  assert.equal(starts.length, 1, "it started nothing under the key that was gone");
  assert.match(messages().join("\n"), /gives up an election that it won: it did not see its key/);
});

test("a candidate whose key is deleted while it starts does not lead by it", async (t) => {
  const { stood, starts, messages } = await standing(t, { starting: remove });
  await stood;
  await until("it leads", () => messages().includes("this controller leads"));
  assert.deepEqual(
    starts.map(({ aborted }) => aborted),
    [true, false],
  );
});

test("a candidate whose store is away does not name a leader, but since when none is known", async (t) => {
  const { process, clock } = await processOn(t, "controller");
  const { store, health } = process;
  const { guard } = await store.lead(CONTROLLER_ELECTION, new AbortController().signal, "other/1");
  const candidate = new Candidate(process, () => assert.fail("it leads"));
  t.after(async () => {
    await store.commit([{ kind: "delete", key: guard.key }]);
    await candidate.close();
  });
  await candidate.stand();
  const said = () => JSON.stringify(health.root.at("system", "leadership").view());
  assert.match(said(), /other\/1 leads, seen since/);
  const dependency = health.dependency("store");
  dependency.ok("the store answers");
  dependency.degraded("no answer");
  const since = new Date(clock.wall()).toISOString();
  clock.advance(1_000);
  dependency.degraded("no answer again");
  const unknown = `the store cannot be used, it is unknown since ${since} who leads, other/1 did before`;
  assert.ok(said().includes(unknown), said());
  dependency.ok("the store answers");
  assert.match(said(), /other\/1 leads, seen since/);
});
