// The engine of Redis over a real server, in virtual time: scripts read the time that the test sets, and keys expire by
// it.

import type { TestContext } from "node:test";
import { Redis } from "ioredis";
import { RedisBuckets } from "#fleet/redis/buckets.ts";
import { KeySpace } from "#fleet/redis/keys.ts";
import { type Channel, Requests } from "#fleet/requests.ts";
import type { BucketParams, EngineAnswer } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import type { BucketBench } from "../../flow/counters/suite.ts";
import { fakeClock } from "../../kit/clock.ts";

const START_MS = 1_700_000_000_000;

/** Time, and when each key expires. Several agents may share it. */
export class VirtualRedis implements Channel {
  readonly #client: Redis;
  readonly #expiry = new Map<string, number>();
  now = START_MS;

  constructor(test: Pick<TestContext, "after">, url: string) {
    this.#client = new Redis(url);
    test.after(() => this.#client.disconnect());
  }

  async run({ text }: { readonly text: string }, key: string, args: readonly string[]) {
    const { now } = this;
    if ((this.#expiry.get(key) ?? Number.POSITIVE_INFINITY) <= now) await this.#client.del(key);
    const time = `{ '${Math.floor(now / 1000)}', '${(now % 1000) * 1000}' }`;
    const inTime = text.replaceAll("redis.call('TIME')", time);
    const reply = String(await this.#client.eval(inTime, 1, key, ...args));
    const left = await this.#client.pttl(key);
    if (left < 0) this.#expiry.delete(key);
    else this.#expiry.set(key, now + left);
    return reply;
  }

  /** Milliseconds until each key expires. */
  get lives(): readonly number[] {
    return [...this.#expiry.values()].map((at) => at - this.now);
  }

  async clear(): Promise<void> {
    await this.#client.flushall();
    this.#expiry.clear();
  }

  readonly probe = async () => undefined;
  readonly reset = () => undefined;
  readonly close = () => undefined;
}

export interface RedisBench extends BucketBench {
  /** Takes, and does not wait for the answer. Resolves with what the caller was told once Redis has handled all of it. */
  abandon(value: string, want: number, params: BucketParams): Promise<EngineAnswer["outcome"]>;
}

/** One agent's buckets. */
export function benchOf(redis: VirtualRedis): RedisBench {
  const clock = fakeClock();
  const requests = new Requests(redis, {
    clock,
    timeoutMs: 1e12,
    probeMs: 1_000,
    most: 1_000,
    changed(reason) {
      throw new Error(reason);
    },
  });
  const keys = new KeySpace("test", "default", { policyName: "policy", name: "limiter" });
  const buckets = new RedisBuckets(requests, clock, keys);
  return {
    take: async (value, want, params) => answered(buckets.take(value, want, params, clock.now())),
    async giveBack(value, amount, params: BucketParams) {
      buckets.giveBack(value, amount, "", params);
      // Requests of one connection are handled in order.
      await answered(buckets.take(value, 0, params, clock.now()));
    },
    async abandon(value, want, params) {
      const taken = buckets.take(value, want, params, clock.now());
      const told = answered(taken);
      if (taken instanceof Pending) taken.cancel();
      // The reply to the first of these comes after the late one, and the second is handled after what that one caused.
      for (let n = 0; n < 2; n++) await answered(buckets.take(value, 0, params, clock.now()));
      return (await told).outcome;
    },
    adopt: (params) => buckets.adopt(params),
    advance(ms) {
      clock.advance(ms);
      redis.now += ms;
    },
  };
}

export function answered(
  answer: EngineAnswer | Pending<EngineAnswer>,
): EngineAnswer | Promise<EngineAnswer> {
  if (!(answer instanceof Pending)) return answer;
  return new Promise((resolve, reject) => {
    answer.whenSettled(resolve, reject);
  });
}
