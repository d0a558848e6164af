// Pods that live while parts of the cluster are replaced or away: users send requests all the time, none of which is lost,
// and no user gets more than the policy says. Agents count for each other (engine `peers`, the default of the chart). Buckets
// are not refilled here and `on_failure` is `closed`, so the bound is the capacity of a bucket, as long as each agent that
// ends hands over what it has counted; an agent that reports that it got no hand-over in time (docs/counters.md, "Bound")
// adds one capacity.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { suiteEnding } from "../../../kit/ending.ts";
import { onOwnMachine } from "../../../lab/kubelet/node/machine.ts";
import { type Counts, Load } from "./load.ts";
import {
  applyPolicy,
  DEPLOYMENT,
  HOME,
  inForce,
  openShop,
  podsOf,
  rollOut,
  type Shop,
  startInstalled,
} from "./shop.ts";

const CAPACITY = 5;
const OUTAGE_MS = 60_000;
const CONTROLLER = { ...DEPLOYMENT, name: "sluice-controller", namespace: HOME };
/** Users who have used up what the policy gives them. */
const REGULARS = [...Array(20).keys()].map((at) => `regular-${at}`);

await onOwnMachine(import.meta.filename, () => {
  suite("disruptions", async () => {
    const { client, logs, kill, restart } = await startInstalled(suiteEnding());

    const open = async (t: TestContext) => {
      const shop = await openShop(t, client, 2);
      await applyPolicy(client, CAPACITY);
      for (const pod of await podsOf(client, shop)) await inForce(pod, CAPACITY);
      const load = new Load(shop.front);
      t.after(() => load.stop());
      for (let at = 0; at < CAPACITY; at++) await sendRegulars(load);
      load.start();
      return { shop, load };
    };
    /** Ends the load. Whoever had used up what the policy gives still has. */
    const judge = async (what: string, { shop, load }: Awaited<ReturnType<typeof open>>) => {
      await load.stop();
      await sendRegulars(load);
      const counts = load.counts();
      const missed = missedHandOvers(logs, shop);
      print(`${what}: ${missed} hand-overs missed`, counts);
      assert.deepEqual(counts.lost, [], "no request is lost");
      assert.ok(counts.most.length <= CAPACITY * (1 + missed), counts.most.join("\n"));
      assert.ok(counts.admitted > 0 && counts.refused > 0);
      // Controllers and agents follow policies as before.
      await applyPolicy(client, CAPACITY + 1);
      for (const pod of await podsOf(client, shop)) await inForce(pod, CAPACITY + 1);
    };

    test("a rolling restart of the application and of the controller", async (t) => {
      const opened = await open(t);
      const { shop, load } = opened;
      const before = uidsOf(await podsOf(client, shop));
      await load.more(50);
      await rollOut(client, shop.deployment, "app=shop");
      await load.more(50);
      await rollOut(client, CONTROLLER, "app.kubernetes.io/component=controller");
      await load.more(50);
      const after = uidsOf(await podsOf(client, shop));
      assert.deepEqual(
        after.filter((uid) => before.includes(uid)),
        [],
        "every pod is another one",
      );
      await judge("rolling restarts", opened);
    });

    test("the API server is killed for a minute", async (t) => {
      const opened = await open(t);
      const { shop, load } = opened;
      await load.more(20);
      const pods = uidsOf(await podsOf(client, shop));
      await kill();
      const { sent } = load.counts();
      await sleep(OUTAGE_MS);
      await load.more(20);
      process.stdout.write(`without the API server: ${load.counts().sent - sent} requests\n`);
      await restart();
      await load.more(50);
      assert.deepEqual(uidsOf(await podsOf(client, shop)), pods, "the pods are the same");
      await judge(`${OUTAGE_MS / 1_000} s without the API server`, opened);
    });
  });
});

async function sendRegulars(load: Load): Promise<void> {
  await Promise.all(REGULARS.map((user) => load.send(user)));
}

/** Number of reports by the agents of a shop that counts of others may be lost. */
function missedHandOvers(logs: string, { namespace }: Shop): number {
  const files = readdirSync(logs).filter((name) => name.startsWith(`${namespace}.shop-`));
  assert.ok(files.length > 0, "agents have logs");
  return files
    .map(
      (name) =>
        readFileSync(join(logs, name), "utf8").match(/no hand-over from|limits may admit more/g) ??
        [],
    )
    .reduce((sum, { length }) => sum + length, 0);
}

function uidsOf(
  pods: readonly { readonly object: { readonly metadata: { readonly uid?: string } } }[],
): readonly string[] {
  return pods.map(({ object }) => object.metadata.uid ?? "").sort();
}

function print(what: string, { sent, admitted, refused, lost, late, most }: Counts): void {
  const counts = `${sent} requests, ${admitted} admitted, ${refused} refused, ${lost.length} lost`;
  process.stdout.write(
    `${what}; ${counts}, ${late} checks late, at most ${most.length} of a user\n`,
  );
}
