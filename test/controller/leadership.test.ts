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
    stop = async () => undefined,
  }: {
    readonly elected?: (first: Leadership, store: Store) => Promise<void>;
    readonly starting?: (first: Leadership, store: Store) => Promise<void>;
    /** Stops what each of its leaderships started. */
    readonly stop?: () => Promise<void>;
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
  const stores: Store[] = [];
  const candidate = new Candidate(process, async (own, over) => {
    stores.push(own);
    starts.push(over);
    if (starts.length === 1) await starting(won[0] ?? assert.fail(), store);
    return { stop };
  });
  const stood = candidate.stand();
  t.after(() => candidate.close());
  const messages = () => lines.map(({ message }) => message);
  return { clock, store, stores, candidate, stood, starts, won, messages };
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

test("a leader whose parts cannot be stopped resigns all the same, and leads again", async (t) => {
  let stops = 0;
  const { clock, store, stores, stood, won, starts, messages } = await standing(t, {
    stop: async () => {
      stops += 1;
      if (stops === 1) throw new Error("a part did not stop");
    },
  });
  await stood;
  const { key } = won[0]?.guard ?? assert.fail();
  await until("it leads", () => messages().includes("this controller leads"));
  // Its key is there and another revision wrote it, so the next write tells it that it no longer leads.
  await store.commit([{ kind: "put", key, value: Buffer.from("{}") }]);
  await assert.rejects(
    async () => stores[0]?.commit([{ kind: "put", key: "/k", value: Buffer.alloc(0) }]),
    { code: "ABORTED" },
  );
  await until("it leads again", () => {
    clock.advance(1_000);
    return starts.length === 2;
  });
  const { entries } = await store.list(key);
  assert.deepEqual(entries, [], "its first key is gone");
  assert.match(messages().join("\n"), /cannot lead, and tries again: /);
});
