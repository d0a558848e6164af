// A candidate whose key of the election goes before it has begun to lead.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Candidate } from "#controller/leadership.ts";
import type { Leadership, Store } from "#store/store.ts";
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
