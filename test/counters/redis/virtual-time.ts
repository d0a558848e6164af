// The engine of Redis over a real server, in virtual time: scripts read the time that the test sets, and keys expire by
// it.

import type { TestContext } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Redis } from "ioredis";
import { seededChance } from "#base/chance.ts";
import { Debts } from "#counters/leases/debts.ts";
import { LeaseHolder } from "#counters/leases/lease-holder.ts";
import { LeasedBuckets } from "#counters/leases/leased-buckets.ts";
import { RedisBuckets } from "#counters/redis/buckets.ts";
import type { ScriptRequests } from "#counters/redis/connection.ts";
import { KeySpace, type ScriptRequest } from "#counters/redis/keys.ts";
import { askEnd, RedisSlots } from "#counters/redis/slots.ts";
import { type Channel, type ReplyReceiver, Requests } from "#counters/requests.ts";
import { SlotEnds } from "#counters/slot-ends.ts";
import type { BucketParams, EngineAnswer, SlotParams } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import type { SlotBench } from "../../flow/counters/slot-suite.ts";
import type { BucketBench } from "../../flow/counters/suite.ts";
import { type FakeClock, fakeClock } from "../../kit/clock.ts";

/** The two ways in which a script stores a bucket: with the time until it expires, and without. */
const SET = /redis\.call\('SET', key, packed(?:, 'PX', (.*))?\)$/gm;
const STORE = "redis.call('SET', key, packed)";
const ROOM = { maxKeys: 100_000, chance: seededChance(1) };
const START_MS = 1_700_000_000_000;

/** Time, and when each key expires. Several agents may share it. */
export class VirtualRedis implements Channel<ScriptRequest, string> {
  readonly #client: Redis;
  readonly #expiry = new Map<string, number>();
  now = START_MS;
  /** Keys do not expire, so that what is stored can be compared with counts in process, which keep full buckets. */
  keepsAll = false;
  /** Fate of the next call: the connection is lost before or after the server runs it. */
  lost: "call" | "reply" | undefined;
  /** Replies wait for it. */
  gate: Promise<void> | undefined;
  #running = 0;

  constructor(test: Pick<TestContext, "after">, url: string) {
    this.#client = new Redis(url);
    test.after(() => this.#client.disconnect());
  }

  run(request: ScriptRequest, receiver: ReplyReceiver<string>): void {
    this.#reply(request).then(
      (reply) => receiver.replied(reply),
      (thrown: unknown) => receiver.failed(thrown),
    );
  }

  async #reply(request: ScriptRequest) {
    const { lost } = this;
    this.lost = undefined;
    if (lost === "call") throw new Error("connection lost");
    this.#running++;
    try {
      const reply = await this.#run(request);
      await this.gate;
      if (lost === "reply") throw new Error("connection lost");
      return reply;
    } finally {
      this.#running--;
    }
  }

  /** Waits until everything that was sent has been answered, and what that caused as well. */
  async idle(): Promise<void> {
    let quiet = 0;
    while (quiet < 3) {
      await turn();
      quiet = this.#running === 0 ? quiet + 1 : 0;
    }
  }

  async #run({ script: { text }, key, args }: ScriptRequest) {
    const { now } = this;
    const expired = (this.#expiry.get(key) ?? Number.POSITIVE_INFINITY) <= now;
    if (expired && !this.keepsAll) await this.#client.del(key);
    const time = `{ '${Math.floor(now / 1000)}', '${(now % 1000) * 1000}' }`;
    const inTime = text
      .replaceAll("redis.call('TIME')", time)
      .replaceAll("redis.call('PEXPIRE', key,", "redis.call('SET', 'life',")
      .replace(SET, (_set, life = "'Infinity'") => `${STORE} redis.call('SET', 'life', ${life})`);
    const answers = await this.#client
      .multi()
      .eval(inTime, 1, key, args)
      .getdel("life")
      .pttl(key)
      .exec();
    const [reply, life, left] = (answers ?? []).map(([error, answer]) => {
      if (error !== null) throw error;
      return answer;
    });
    if (left === -2) this.#expiry.delete(key);
    else if (life !== null) this.#expiry.set(key, now + Number(life));
    return String(Array.isArray(reply) ? reply[0] : undefined);
  }

  /** Milliseconds until each key expires. */
  get lives(): readonly number[] {
    return [...this.#expiry.values()].map((at) => at - this.now);
  }

  /** The ids of all slots that have not expired. */
  async slots(lifeMs = 1_000): Promise<readonly string[]> {
    const found: string[] = [];
    for (const [key, at] of this.#expiry) {
      if (at <= this.now) continue;
      found.push(...(await this.#client.zrange(key, `(${this.now - lifeMs}`, "+inf", "BYSCORE")));
    }
    return found;
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

let agents = 0;

/** One agent's way to the buckets. */
export function redisOwner(redis: VirtualRedis) {
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
  const keys = new KeySpace("test", "default", { policyName: "policy", name: "limiter" }, ROOM);
  let overflows = 0;
  return {
    clock,
    owner: new RedisBuckets({ requests, clock, keys, noRoom: () => overflows++ }),
    get overflows() {
      return overflows;
    },
    advance(ms: number) {
      clock.advance(ms);
      redis.now += ms;
    },
  };
}

/** One agent's buckets. */
export function benchOf(redis: VirtualRedis, enabled = false): RedisBench {
  const { clock, owner, advance } = redisOwner(redis);
  const agent = new LeaseHolder(++agents, clock, { enabled, duration: 1_000, max_keys: 1_000 });
  const buckets = new LeasedBuckets(agent, owner);
  return {
    take: async (value, want, params) => answered(buckets.take(value, want, params, clock.now())),
    async giveBack(value, amount, params: BucketParams) {
      buckets.giveBack(value, amount, "", params);
      // Requests of one connection are handled in order.
      await answered(buckets.take(value, 0, params, clock.now()));
    },
    async charge(value, amount, params: BucketParams) {
      buckets.adopt(params);
      new Debts(agent, owner).charge(value, amount);
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
    advance,
  };
}

/** The slots of one limiter as one agent counts them. */
export class SlotAgent implements SlotBench {
  readonly clock: FakeClock;
  readonly requests: ScriptRequests;
  readonly ends: SlotEnds;
  readonly slots: RedisSlots;
  /** Flows whose keys found no room. */
  overflows = 0;
  readonly #redis: VirtualRedis;

  constructor(redis: VirtualRedis, clock = fakeClock(), maxKeys = ROOM.maxKeys) {
    this.#redis = redis;
    this.clock = clock;
    this.requests = new Requests(redis, {
      clock,
      timeoutMs: 1e12,
      probeMs: 10,
      most: 2_000,
      changed: (reason) => {
        if (reason === undefined) this.ends.resume();
      },
    });
    this.ends = new SlotEnds(askEnd(this.requests), { clock, most: 100 });
    const keys = new KeySpace(
      "test",
      "default",
      { policyName: "policy", name: "slots" },
      { ...ROOM, maxKeys },
    );
    const noRoom = () => this.overflows++;
    this.slots = new RedisSlots({ requests: this.requests, clock, keys, noRoom }, this.ends);
  }

  async take(value: string | undefined, want: number, params: SlotParams): Promise<EngineAnswer> {
    return answered(this.slots.take(value, want, params));
  }

  async end(value: string | undefined, id: string, params: SlotParams): Promise<boolean> {
    return answered(this.slots.giveBack(value, 0, id, params));
  }

  /** Takes, and does not wait for the answer. Resolves once Redis has handled all of it. */
  async abandon(value: string, want: number, params: SlotParams): Promise<EngineAnswer["outcome"]> {
    const taken = this.slots.take(value, want, params);
    const told = answered(taken);
    if (taken instanceof Pending) taken.cancel();
    await this.#redis.idle();
    return (await told).outcome;
  }

  advance(ms: number): void {
    this.clock.advance(ms);
    this.#redis.now += ms;
  }
}

export function answered<T>(answer: T | Pending<T>): T | Promise<T> {
  if (!(answer instanceof Pending)) return answer;
  return new Promise((resolve, reject) => {
    answer.whenSettled(resolve, reject);
  });
}
