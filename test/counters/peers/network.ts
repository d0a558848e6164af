// Agents of one group in this process, which reach each other over connections that a test can cut, in time that a test
// advances.

import type { TestContext } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Fault } from "#base/fault.ts";
import { LeaseHolder } from "#counters/leases/lease-holder.ts";
import { PeerBuckets } from "#counters/peers/buckets.ts";
import { readTakes, writeReplies } from "#counters/peers/exchange/messages.ts";
import { readStore } from "#counters/peers/exchange/transfers.ts";
import type { RingMember } from "#counters/peers/membership/ring.ts";
import { OwnedLimiters } from "#counters/peers/owned-limiters.ts";
import { PeerGroup } from "#counters/peers/peer-group.ts";
import { PeerSlots } from "#counters/peers/slots.ts";
import type { BucketParams, EngineAnswer, SlotParams } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { type FakeClock, fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { answered } from "../redis/virtual-time.ts";

/** Less than the time limit of a request. */
const STEP_MS = 50;
/** Time limit of a call, which nobody may be waiting for any more. */
export const CALL_MS = 2_000;
/** Longer than a lease, and what it takes to give it back. */
const SLOWLY_MS = 2_500;

export interface NetworkOptions {
  readonly replicas?: number;
  readonly synchronous?: boolean;
  /** True if agents lease tokens. */
  readonly leases?: boolean;
}

export class Network {
  /** By process id. */
  readonly agents = new Map<string, Agent>();
  readonly clock: FakeClock = fakeClock();
  readonly options: NetworkOptions;
  /** Pairs of process ids between which nothing arrives. */
  readonly cut = new Set<string>();
  /** Messages between agents so far, by method. */
  readonly calls = { Take: 0, Store: 0 };
  #started = 0;

  constructor(test: Pick<TestContext, "after">, options: NetworkOptions = {}) {
    this.options = options;
    test.after(() => {
      for (const { group } of this.agents.values()) group.close();
    });
  }

  /** Starts an agent that nobody knows yet. Without a name it gets one of its own. */
  start(name = `agent-${this.#started}:1`): Agent {
    this.#started++;
    const agent = new Agent(this, { name, id: `process-${this.#started}` });
    this.agents.set(agent.member.id, agent);
    return agent;
  }

  /** Tells these agents, or all, that these are the members. */
  tell(members: readonly Agent[], told: Iterable<Agent> = this.agents.values()): void {
    for (const agent of told) agent.group.members.set(members.map(({ member }) => member));
  }

  /** Some agents that know each other, and have joined. */
  async joined(count: number): Promise<readonly Agent[]> {
    const agents = Array.from({ length: count }, () => this.start());
    this.tell(agents);
    await this.settle();
    return agents;
  }

  /** Lets everything happen that needs no time. */
  async settle(): Promise<void> {
    for (let n = 0; n < 50; n++) await turn();
  }

  async pass(ms: number): Promise<void> {
    this.clock.advance(ms);
    await this.settle();
  }

  /** In small steps while leases last, so that no message takes longer than its time limit. */
  async passSlowly(ms: number): Promise<void> {
    const slowly = Math.min(ms, SLOWLY_MS);
    for (let left = slowly; left > 0; left -= STEP_MS) await this.pass(Math.min(left, STEP_MS));
    if (ms > slowly) await this.pass(ms - slowly);
  }
}

/** The reply of an agent to a message of another one, as its service gives it. */
export async function answerCall(
  group: PeerGroup,
  method: string,
  message: Uint8Array,
): Promise<Uint8Array> {
  if (method === "Take") {
    const takes = readTakes(message);
    return writeReplies(takes, await group.answer(takes));
  }
  await group.receive(readStore(message));
  return new Uint8Array();
}

/** The process id of the agent that counts a key, as far as an agent of this group knows. */
export function ownerOf({ ring, owned }: PeerGroup, value: string | undefined): string | undefined {
  const [limiter = { keylessHash: 0 }] = owned.all;
  const { lo, hi } = owned.hashOf(value, limiter);
  return ring.members[ring.owner(lo, hi)]?.id;
}

export class Agent {
  readonly member: RingMember;
  readonly group: PeerGroup;
  readonly leases: LeaseHolder;
  readonly buckets: PeerBuckets;
  readonly slots: PeerSlots;
  readonly lines: ReturnType<typeof memoryLog>["lines"];
  readonly away: (string | undefined)[] = [];
  /** Calls to this agent get no answer. */
  frozen = false;
  /** The process has ended: calls are refused. */
  dead = false;
  readonly #network: Network;

  constructor(network: Network, { name, id }: { readonly name: string; readonly id: string }) {
    this.#network = network;
    this.member = { name, id, address: name, probe: undefined };
    const { clock, options, agents, cut, calls } = network;
    const { log, lines } = logged();
    this.lines = lines;
    const owned = new OwnedLimiters({ clock, observer: NO_OBSERVER, maxKeys: 10_000 }, [1, 2]);
    this.group = new PeerGroup({
      id,
      owned,
      clock,
      log,
      timeoutMs: 100,
      probeMs: 1_000,
      most: 1_000,
      replicas: options.replicas ?? 1,
      synchronous: options.synchronous ?? false,
      changed: (away) => void this.away.push(away),
      connect: (member) => ({
        async call(method, message) {
          calls[method]++;
          await turn();
          const to = agents.get(member.id);
          if (to === undefined || to.dead) throw new Fault("UNAVAILABLE", "connection refused");
          if (cut.has(`${id}>${member.id}`)) throw new Fault("UNAVAILABLE", "cut");
          if (to.frozen) {
            return new Promise((_, reject) => {
              clock.alarm(CALL_MS, () => reject(new Fault("DEADLINE_EXCEEDED", "no reply")));
            });
          }
          const reply = await answerCall(to.group, method, message);
          if (cut.has(`${member.id}>${id}`)) throw new Fault("UNAVAILABLE", "cut");
          return reply;
        },
        close: () => undefined,
      }),
    });
    const lease = { enabled: options.leases ?? false, duration: 1_000, max_keys: 1_000 };
    this.leases = LeaseHolder.random(clock, lease);
    this.buckets = new PeerBuckets(this.group, this.leases, {
      policyName: "policy",
      name: "limiter",
    });
    this.slots = new PeerSlots(this.group, { policyName: "policy", name: "slots" });
  }

  take(value: string | undefined, want: number, params: BucketParams): Promise<EngineAnswer> {
    const answer = this.buckets.take(value, want, params, this.#network.clock.now());
    // An answer in the same turn is valid only until the engine is asked again, so it is copied.
    return Promise.resolve(answer instanceof Pending ? answered(answer) : { ...answer });
  }

  async takeSlot(value: string | undefined, want: number, params: SlotParams) {
    return answered(this.slots.take(value, want, params, this.#network.clock.now()));
  }

  async endSlot(value: string | undefined, id: string, params: SlotParams): Promise<boolean> {
    return answered(this.slots.giveBack(value, 0, id, params));
  }

  /** True if a token is there. */
  async passes(value: string | undefined, params: BucketParams): Promise<boolean> {
    return (await this.take(value, 1, params)).outcome === "granted";
  }

  /** The number of takes of one token that are granted, of `count`. */
  async admits(value: string, count: number, params: BucketParams): Promise<number> {
    let granted = 0;
    for (let n = 0; n < count; n++) if (await this.passes(value, params)) granted++;
    return granted;
  }

  /** Stops without a word. */
  kill(): void {
    this.dead = true;
    this.group.close();
  }

  /** True if this agent counts the key, of the agents that it knows. */
  owns(value: string | undefined): boolean {
    return ownerOf(this.group, value) === this.member.id;
  }
}

function logged() {
  const log = memoryLog("debug");
  return { log, lines: log.lines };
}
