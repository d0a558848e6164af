// An upstream with a known capacity in virtual time: servers with one queue in front, and the flows that a limit lets through
// to it. Everything is chosen by seeded chance, so a run repeats exactly.

import { seededChance } from "#base/chance.ts";

/** A limit under test, in flows. */
export interface Limit {
  /** Gives the slot back; undefined when the flow is refused. */
  take(now: number): ((now: number) => void) | undefined;
  /** The limit in force, for series and messages. */
  now(at: number): number;
}

/** The upstream and its load at one time. */
export interface Phase {
  /** Flows that are worked on at one time. */
  readonly servers: number;
  /** Mean time that a server works on a flow, ms. */
  readonly serviceMs: number;
  /** Flows that arrive per second. */
  readonly rate: number;
  /** Time that each flow spends outside any server, whatever the load, ms. */
  readonly delayMs?: number;
  /** Flows that arrive together; 1 by default. */
  readonly burst?: number;
  /** The upstream fails at once what finds as many flows as this waiting. */
  readonly queue?: number;
  /** Share of flows that never end. */
  readonly lost?: number;
}

interface Run {
  readonly limit: Limit;
  readonly seconds: number;
  /** The phase at a time, in seconds from the start. */
  readonly phase: (second: number) => Phase;
  /** Ratio of the standard deviation of service times to their mean; 0.5 by default. */
  readonly spread?: number;
  /** Share of flows that are slow, and how many times as slow as the others. */
  readonly slow?: { readonly share: number; readonly times: number };
  readonly seed?: number;
}

/** One second of a run. */
export interface Second {
  readonly phase: Phase;
  readonly limit: number;
  readonly asked: number;
  readonly refused: number;
  readonly done: number;
  readonly failed: number;
  /** Latencies of the flows that were done, ms. */
  readonly latencies: readonly number[];
}

interface Flow {
  readonly since: number;
  readonly serviceMs: number;
  readonly end: (now: number) => void;
}

/** A queue of events by time, those of one time in order of arrival. */
class Agenda {
  readonly #at: number[] = [];
  readonly #what: (() => void)[] = [];

  add(at: number, what: () => void): void {
    let place = this.#at.length;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if ((this.#at[parent] ?? 0) <= at) break;
      this.#set(place, this.#at[parent] ?? 0, this.#what[parent] ?? what);
      place = parent;
    }
    this.#set(place, at, what);
  }

  get next(): number {
    return this.#at[0] ?? Number.POSITIVE_INFINITY;
  }

  run(): void {
    const first = this.#what[0];
    const at = this.#at.pop();
    const what = this.#what.pop();
    if (first === undefined || at === undefined || what === undefined) return;
    const size = this.#at.length;
    if (size > 0) {
      let place = 0;
      for (;;) {
        let child = 2 * place + 1;
        if (child >= size) break;
        if (child + 1 < size && (this.#at[child + 1] ?? 0) < (this.#at[child] ?? 0)) child++;
        if ((this.#at[child] ?? 0) >= at) break;
        this.#set(place, this.#at[child] ?? 0, this.#what[child] ?? what);
        place = child;
      }
      this.#set(place, at, what);
    }
    first();
  }

  #set(place: number, at: number, what: () => void): void {
    this.#at[place] = at;
    this.#what[place] = what;
  }
}

/** Runs the upstream behind the limit, and tells each second of it. */
export function run({ limit, seconds, phase, spread = 0.5, slow, seed = 1 }: Run): Second[] {
  const chance = seededChance(seed);
  const agenda = new Agenda();
  const waiting: Flow[] = [];
  let first = 0;
  let busy = 0;
  let now = 0;
  let current = phase(0);
  let counts = { asked: 0, refused: 0, done: 0, failed: 0, latencies: [] as number[] };
  const all: Second[] = [];
  const sigma = Math.sqrt(Math.log(1 + spread * spread));
  const normal = () => Math.sqrt(-2 * Math.log(1 - chance())) * Math.cos(2 * Math.PI * chance());
  const usual = slow === undefined ? 1 : 1 / (1 + slow.share * (slow.times - 1));
  const worked = () => {
    const times = slow !== undefined && chance() < slow.share ? usual * slow.times : usual;
    return current.serviceMs * times * Math.exp(sigma * normal() - (sigma * sigma) / 2);
  };

  const serve = () => {
    while (busy < current.servers && first < waiting.length) {
      const flow = waiting[first++];
      if (flow === undefined) break;
      busy++;
      agenda.add(now + flow.serviceMs, () => {
        busy--;
        leave(flow);
        serve();
      });
    }
    if (first > 10_000) {
      waiting.splice(0, first);
      first = 0;
    }
  };
  const leave = (flow: Flow) => {
    const done = () => {
      flow.end(now);
      counts.done++;
      counts.latencies.push(now - flow.since);
    };
    const { delayMs = 0 } = current;
    if (delayMs > 0) agenda.add(now + delayMs, done);
    else done();
  };
  const arrive = () => {
    counts.asked++;
    const end = limit.take(now);
    if (end === undefined) {
      counts.refused++;
      return;
    }
    if (current.lost !== undefined && chance() < current.lost) return;
    const queue = current.queue ?? Number.POSITIVE_INFINITY;
    if (busy >= current.servers && waiting.length - first >= queue) {
      counts.failed++;
      agenda.add(now + 0.1, () => end(now));
      return;
    }
    waiting.push({ since: now, serviceMs: worked(), end });
    serve();
  };
  const load = () => {
    const { burst = 1, rate } = current;
    for (let n = 0; n < burst; n++) arrive();
    agenda.add(now + (-Math.log(1 - chance()) * burst * 1_000) / rate, load);
  };

  load();
  for (let second = 0; second < seconds; second++) {
    current = phase(second);
    serve();
    const end = (second + 1) * 1_000;
    while (agenda.next < end) {
      now = agenda.next;
      agenda.run();
    }
    now = end;
    all.push({ phase: current, limit: limit.now(now), ...counts });
    counts = { asked: 0, refused: 0, done: 0, failed: 0, latencies: [] };
  }
  return all;
}

/** Flows done, as a part of what the upstream can do in these seconds. */
export function goodput(seconds: readonly Second[]): number {
  let done = 0;
  let most = 0;
  for (const { done: n, phase } of seconds) {
    done += n;
    most += Math.min(phase.rate, (phase.servers * 1_000) / phase.serviceMs);
  }
  return done / most;
}

/** The latency below which a part of the flows of these seconds stayed, ms. */
export function latency(seconds: readonly Second[], part: number): number {
  const all = seconds.flatMap(({ latencies }) => latencies).sort((a, b) => a - b);
  return all[Math.min(all.length - 1, Math.floor(all.length * part))] ?? Number.NaN;
}
