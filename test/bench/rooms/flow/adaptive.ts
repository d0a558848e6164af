// Compares the adaptive limit with others in virtual time, behind the same upstream under one and a half times the load that
// it can bear. Prints the table of `docs/counters.md`. `node test/bench/rooms/flow/adaptive.ts`

import { adaptiveLimit, slotLimit } from "../../../flow/counters/adaptive/limits.ts";
import {
  goodput,
  type Limit,
  latency,
  type Phase,
  run,
  type Second,
} from "../../../flow/counters/adaptive/upstream.ts";

const SERVICE_MS = 100;
const PHASE = 60;
const SETTLED = 30;

/** A limit that changes once per round trip: after as many ends as it allows flows. */
function perRoundTrip(next: (limit: number, mean: number, lowest: number) => number): Limit {
  let [limit, inFlight, ends, sum] = [20, 0, 0, 0];
  let lowest = Number.POSITIVE_INFINITY;
  let reached = false;
  return {
    take(now) {
      if (inFlight >= Math.round(limit)) {
        reached = true;
        return undefined;
      }
      inFlight++;
      return (end) => {
        inFlight--;
        ends++;
        sum += end - now;
        if (ends < Math.max(20, limit)) return;
        const mean = sum / ends;
        lowest = Math.min(lowest, mean);
        if (reached) limit = Math.min(10_000, Math.max(4, next(limit, mean, lowest)));
        [ends, sum, reached] = [0, 0, false];
      };
    },
    now: () => Math.round(limit),
  };
}

/** Additive increase; multiplicative decrease where flows take twice as long as without load. */
const aimd = () => perRoundTrip((limit, mean) => (mean > 2 * SERVICE_MS ? limit * 0.9 : limit + 1));

/** TCP Vegas as Netflix has it: by the queue that the lowest latency so far implies, between two bounds. */
const vegas = () =>
  perRoundTrip((limit, mean, lowest) => {
    const queue = limit * (1 - lowest / mean);
    const unit = Math.max(1, Math.log10(limit));
    if (queue < 3 * unit) return limit + unit;
    return queue > 6 * unit ? limit - unit : limit;
  });

/** A fifth more than the upstream of the beginning serves at one time. */
const fixed = (servers: number) => slotLimit({ max: servers * 1.2, maxInflightMs: 60_000 });

const LIMITS: readonly (readonly [string, (servers: number) => Limit])[] = [
  ["adaptive", () => adaptiveLimit()],
  ["static", fixed],
  ["AIMD", aimd],
  ["Vegas", vegas],
];

interface Course {
  readonly name: string;
  readonly phases: readonly ((servers: number, second: number) => Partial<Phase>)[];
}

const COURSES: readonly Course[] = [
  { name: "steady", phases: [() => ({})] },
  {
    name: "a third of the servers, then all again",
    phases: [() => ({}), (servers) => ({ servers: Math.floor(servers / 3) }), () => ({})],
  },
  {
    name: "service times three times as long, then as before",
    phases: [() => ({}), () => ({ serviceMs: 3 * SERVICE_MS }), () => ({})],
  },
  {
    name: "service times grow by a third each minute, for five",
    phases: Array.from({ length: 5 }, () => (_: number, second: number) => ({
      serviceMs: SERVICE_MS * (1 + second / 180),
    })),
  },
];

function measured(limit: Limit, servers: number, { phases }: Course): readonly Second[] {
  const phase = (second: number): Phase => ({
    servers,
    serviceMs: SERVICE_MS,
    rate: (1.5 * servers * 1_000) / SERVICE_MS,
    ...phases[Math.floor(second / PHASE)]?.(servers, second),
  });
  return run({ limit, seconds: phases.length * PHASE, phase });
}

/** The worst of all phases, each without the time in which the limit settles. */
function worst(seconds: readonly Second[], unloadedP99: number): string {
  let [good, wait] = [Number.POSITIVE_INFINITY, 0];
  for (let at = 0; at < seconds.length; at += PHASE) {
    const part = seconds.slice(at + SETTLED, at + PHASE);
    const service = (part[0]?.phase.serviceMs ?? SERVICE_MS) / SERVICE_MS;
    good = Math.min(good, goodput(part));
    wait = Math.max(wait, latency(part, 0.99) / (unloadedP99 * service));
  }
  return `${(100 * good).toFixed(0)} %, ${wait.toFixed(1)}×`;
}

const print = (line: string) => process.stdout.write(`${line}\n`);

const unloadedP99 = latency(
  run({
    limit: slotLimit({ max: 1_000, maxInflightMs: 60_000 }),
    seconds: 60,
    phase: () => ({ servers: 1_000, serviceMs: SERVICE_MS, rate: 200 }),
  }),
  0.99,
);

print(`| Servers | Course | ${LIMITS.map(([name]) => name).join(" | ")} |`);
print(`|---|---|${LIMITS.map(() => "---|").join("")}`);
for (const servers of [50, 500]) {
  for (const course of COURSES) {
    const cells = LIMITS.map(([, make]) =>
      worst(measured(make(servers), servers, course), unloadedP99),
    );
    print(`| ${servers} | ${course.name} | ${cells.join(" | ")} |`);
  }
}
