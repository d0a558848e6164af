// Callers that check at all agents while something fails, and count what they were told. A new user comes along all the
// time, so there is always something to admit, and earlier users ask again, so what was forgotten is admitted twice.

import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Ending } from "../../kit/ending.ts";
import { until } from "../../kit/until.ts";
import { LIMITS, type LimitName } from "./limits.ts";
import type { Observation, Observations, Seen } from "./row.ts";

/** Callers of each limit. Each asks one agent; those of an agent that is gone or frozen do not hold up the others. */
const CALLERS = 6;
const PAUSE_MS = 15;
/** Number of checks after which the next user comes. */
const CHECKS_PER_USER = 20;
/** A frozen agent answers nobody. */
const TIMEOUT_MS = 3_000;
/** Time for which a flow is in flight. */
const HOLD_MS = 100;

type Told = keyof Seen;

interface Answer {
  readonly told: Told;
  readonly passes: boolean;
  /** Slots to end, as FlowEnd wants them. */
  readonly slots: readonly object[];
}

interface Admitted {
  readonly sent: number;
  readonly replied: number;
}

/** Observations of one limit. */
class Tally {
  sent = 0;
  readonly seen: Record<Told, number> = { accepted: 0, refused: 0, onFailure: 0, unanswered: 0 };
  readonly admitted = new Map<string, Admitted[]>();
  readonly inFlight = new Map<string, number>();
  mostInFlight = 0;

  /**
   * Mostly the newest user, and one in four times an earlier one. Where buckets fill, one user asks all the time besides,
   * so that agents lease its tokens.
   */
  nextUser(fills: boolean): string {
    const newest = Math.floor(this.sent / CHECKS_PER_USER);
    const user = this.sent % 4 === 0 ? (this.sent * 7_919) % (newest + 1) : newest;
    this.sent += 1;
    if (fills && this.sent % 2 === 0) return "hot";
    return `user-${user}`;
  }
}

export class Load {
  readonly #sides: number;
  readonly #addresses: () => readonly string[];
  readonly #tallies: ReadonlyMap<LimitName, Tally>;
  readonly #connections = new Agent({ keepAlive: true });
  readonly #callers: Promise<void>[] = [];
  #stopped = false;
  #failing = false;

  /** `addresses`: of the agents that callers know at present. `sides`: how many of them fill buckets of one key. */
  constructor(
    test: Ending,
    addresses: () => readonly string[],
    limits: readonly LimitName[],
    sides = 1,
  ) {
    this.#sides = sides;
    this.#addresses = addresses;
    this.#tallies = new Map(limits.map((name) => [name, new Tally()]));
    for (const [name, tally] of this.#tallies)
      for (let n = 0; n < CALLERS + (name === "slots" ? CALLERS : 0); n++)
        this.#callers.push(this.#caller(name, tally, n));
    test.after(async () => {
      await this.stop();
      this.#connections.destroy();
    });
  }

  /** Runs `happens`, with load before it and after it, and returns what callers saw. */
  async through(happens: () => Promise<void>): Promise<Observations> {
    // Some users have taken all that they may have, others a part of it.
    await this.more(6 * CHECKS_PER_USER);
    this.#failing = true;
    await happens();
    this.#failing = false;
    await this.more(20);
    await this.stop();
    await this.#askAllAgain();
    const found: Partial<Record<LimitName, Observation>> = {};
    for (const [name, tally] of this.#tallies)
      found[name] = {
        seen: tally.seen,
        beyond: beyond(name, tally, this.#sides),
        keys: new Set([...tally.admitted.keys(), ...tally.inFlight.keys()]).size,
      };
    return found;
  }

  /** Waits until callers of each limit have sent as many checks more. */
  async more(count: number): Promise<void> {
    const wanted = [...this.#tallies.values()].map((tally) => [tally, tally.sent + count] as const);
    await until("the load goes on", () => wanted.every(([tally, least]) => tally.sent >= least));
  }

  /** Waits until a caller of the limit is told so, once more than it was so far. */
  async told(name: LimitName, what: Told): Promise<void> {
    const tally = this.#tallies.get(name);
    const before = tally?.seen[what] ?? 0;
    await until(`callers of ${name}: ${what}`, () => (tally?.seen[what] ?? 0) > before);
  }

  /** Waits until flows of as many callers hold slots. */
  async inFlight(least: number): Promise<void> {
    const counts = () => [...(this.#tallies.get("slots")?.inFlight.values() ?? [])];
    await until("flows are in flight", () => counts().reduce((sum, n) => sum + n, 0) >= least);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#callers);
  }

  async #caller(name: LimitName, tally: Tally, turn: number): Promise<void> {
    while (!this.#stopped) {
      const user = tally.nextUser(LIMITS[name].fill > 0);
      const failing = this.#failing;
      const { told } = await this.#one(name, tally, user, turn);
      // Checks that began before the fault may be answered by it, and count neither way.
      if (failing && this.#failing) tally.seen[told] += 1;
      await sleep(PAUSE_MS);
    }
  }

  async #one(name: LimitName, tally: Tally, user: string, turn: number): Promise<Answer> {
    const slots = LIMITS[name].kind === "slots";
    const sent = performance.now();
    const answer = await this.#check(this.#at(turn), name, user, slots);
    if (!answer.passes) return answer;
    if (!slots) {
      const times = tally.admitted.get(user) ?? [];
      times.push({ sent, replied: performance.now() });
      tally.admitted.set(user, times);
      return answer;
    }
    const inFlight = (tally.inFlight.get(user) ?? 0) + 1;
    tally.inFlight.set(user, inFlight);
    tally.mostInFlight = Math.max(tally.mostInFlight, inFlight);
    await sleep(HOLD_MS);
    tally.inFlight.set(user, (tally.inFlight.get(user) ?? 0) - 1);
    // At another agent than the one where it began; at a third one if that does not answer.
    for (let next = turn + 1; next < turn + 3; next++) {
      const end = { control_point: name, inflight_requests: answer.slots };
      const reply = await this.#post(this.#at(next), "/v1/flowcontrol/flowend", end);
      if (reply !== undefined) break;
    }
    return answer;
  }

  #at(turn: number): string {
    const addresses = this.#addresses();
    return addresses[turn % addresses.length] ?? "";
  }

  /** Empties every bucket, at all agents: what was forgotten shows now at the latest. */
  async #askAllAgain(): Promise<void> {
    for (const [name, tally] of this.#tallies) {
      if (LIMITS[name].kind !== "rate" || LIMITS[name].fill > 0) continue;
      const users = Math.floor(tally.sent / CHECKS_PER_USER) + 1;
      const addresses = this.#addresses();
      const work = Array.from({ length: users * addresses.length }, (_, at) => at);
      const one = async () => {
        for (let at = work.pop(); at !== undefined; at = work.pop()) {
          const user = `user-${Math.floor(at / addresses.length)}`;
          await until(`${name} decides about ${user}`, async () => {
            const { told } = await this.#one(name, tally, user, at);
            return told === "refused";
          });
        }
      };
      await Promise.all(Array.from({ length: 8 }, one));
    }
  }

  async #check(address: string, point: string, user: string, expectEnd: boolean): Promise<Answer> {
    const body = await this.#post(address, "/v1/flowcontrol/checkhttp", {
      control_point: point,
      ...(expectEnd && { expect_end: true }),
      request: { method: "GET", path: "/", headers: { user } },
    });
    if (body === undefined) return { told: "unanswered", passes: false, slots: [] };
    const { decision_type, limiter_decisions = [] } = JSON.parse(body).check_response;
    const passes = decision_type === "DECISION_TYPE_ACCEPTED";
    const slots: object[] = [];
    let byFailure = false;
    for (const decision of limiter_decisions) {
      if (decision.failure_mode !== undefined) byFailure = true;
      const info = decision.concurrency_limiter_info;
      if (!passes || !info?.request_id) continue;
      const { policy_name, policy_hash, component_id } = decision;
      const { label, request_id, tokens_info } = info;
      const tokens = Number(tokens_info?.consumed ?? 0);
      slots.push({ policy_name, policy_hash, component_id, label, request_id, tokens });
    }
    if (byFailure) return { told: "onFailure", passes, slots };
    return { told: passes ? "accepted" : "refused", passes, slots };
  }

  /** Resolves with the body of the reply, or with undefined when there is none, or none that is a success. */
  #post(address: string, path: string, body: object): Promise<string | undefined> {
    const [host = "", port = ""] = address.split(":");
    const headers = { "content-type": "application/json" };
    const options = { host, port, path, headers, method: "POST", agent: this.#connections };
    return new Promise((resolve) => {
      const sent = request(options, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => {
          text += chunk;
        });
        response.on("error", () => resolve(undefined));
        response.on("end", () => resolve(response.statusCode === 200 ? text : undefined));
      });
      sent.setTimeout(TIMEOUT_MS, () => sent.destroy());
      sent.on("error", () => resolve(undefined));
      sent.on("close", () => resolve(undefined));
      sent.end(JSON.stringify(body));
    });
  }
}

/** Most that was admitted for one key over any window, beyond capacity + refill; 0 if it never was. */
function beyond(name: LimitName, { admitted, mostInFlight }: Tally, sides: number): number {
  const { capacity, kind } = LIMITS[name];
  const fill = sides * LIMITS[name].fill;
  if (kind === "slots") return Math.max(0, mostInFlight - capacity);
  let most = 0;
  for (const times of admitted.values()) {
    if (fill === 0) {
      most = Math.max(most, times.length - capacity);
      continue;
    }
    const ends = times.toSorted((a, b) => a.replied - b.replied);
    for (const { sent: begin } of times) {
      let count = 0;
      for (const { sent, replied } of ends) {
        if (sent < begin) continue;
        count += 1;
        most = Math.max(most, count - capacity - (fill * (replied - begin)) / 1_000);
      }
    }
  }
  return Math.ceil(most);
}
