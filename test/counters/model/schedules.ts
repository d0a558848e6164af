// Many schedules, each of a seed of its own, against the owner that counts in process.

import { OwnedBuckets } from "#counters/leases/owned-buckets.ts";
import { BucketStore } from "#flow/counters/bucket-store.ts";
import { testContext } from "../../flow/limit/setup.ts";
import { type Mode, type Owner, runSchedule } from "./schedule.ts";
import type { World } from "./world.ts";

/** Faults that are reported before the run ends. */
const ENOUGH = 5;

interface Sum {
  schedules: number;
  asked: number;
  admitted: number;
  local: number;
}

/** The owner that an agent is for its peers. */
export function localOwner({ now }: World): Owner {
  const context = testContext();
  context.clock.advance(now);
  const owned = new OwnedBuckets(new BucketStore(context, [1, 2]));
  return {
    ask(value, request, params, at) {
      context.clock.advance(at - (context.clock.now() - START));
      return owned.ask(value, request, params, context.clock.now());
    },
    adopt(params, at) {
      context.clock.advance(at - (context.clock.now() - START));
      owned.adopt(params);
    },
  };
}

/** The time at which test clocks begin. */
const START = testContext().clock.now();

/** Runs the schedules of so many seeds from one on. Returns a summary, and the faults with the commands that show them. */
export async function runSchedules(
  first: number,
  count: number,
  owner: (world: World) => Owner = localOwner,
): Promise<{ readonly lines: readonly string[]; readonly faults: readonly string[] }> {
  const sums = new Map<Mode, Sum>();
  const faults: string[] = [];
  for (let seed = first; seed < first + count && faults.length < ENOUGH; seed++) {
    const { mode, asked, admitted, local, fault } = await runSchedule(seed, owner);
    const sum = sums.get(mode) ?? { schedules: 0, asked: 0, admitted: 0, local: 0 };
    sum.schedules++;
    sum.asked += asked;
    sum.admitted += admitted;
    sum.local += local;
    sums.set(mode, sum);
    if (fault !== "") {
      const command = `npm run -s test:model -- --seed ${seed} --schedules 1`;
      faults.push(`${command}: ${fault}`);
    }
  }
  const lines = [...sums].map(
    ([mode, { schedules, asked, admitted, local }]) =>
      `${mode}: ${schedules} schedules, ${asked} flows, ${Math.round((100 * local) / asked)} % decided without asking, ${Math.round(admitted)} tokens admitted`,
  );
  return { lines, faults };
}
