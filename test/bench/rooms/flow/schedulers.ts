// Measures schedulers: a check whose scheduler has what it wants, and the queue while ten thousand flows wait and each flow
// that is served makes room for another. Beside each a plain check by a rate limiter, in turns, by processor time.
// `node test/bench/rooms/flow/schedulers.ts`

import { seededChance } from "#base/chance.ts";
import { type Flow, Pending, type SlotRef, type Verdict } from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type { LimiterNumbers, LimiterRule, SchedulerRule } from "#flow/rules.ts";
import { FairQueue, type Job } from "#flow/schedule/queue/fair-queue.ts";
import { concurrency, concurrencyRule, rate, rateRule } from "../../../flow/limit/setup.ts";
import {
  concurrencyQueueRule,
  load,
  loadRule,
  quota,
  quotaRule,
  slots,
  VirtualClock,
  workload,
} from "../../../flow/schedule/kit.ts";
import { claims, flowOf } from "../../../kit/sluice/flow.ts";

const ROUNDS = 15;
const CHECKS = 20_000;
const WAITING = 10_000;
const PATIENCE_MS = 1e9;

const print = (line: string) => process.stdout.write(`${line}\n`);

const ANYWHERE = { labels: {}, list: [], expression: undefined };
const SELECTORS = [
  { controlPoint: "here", agentGroup: "default", service: "any", matcher: ANYWHERE },
];

/** An agent with one limiter. */
class Agent {
  readonly clock = new VirtualClock();
  readonly #controller;

  constructor(rule: LimiterRule, numbers: LimiterNumbers) {
    const world = {
      clock: this.clock,
      chance: seededChance(3),
      observer: NO_OBSERVER,
      maxKeys: 1_000,
    };
    const book = new Rulebook("default", world);
    book.apply({
      rules: new Map([["one", { ...rule, selectors: SELECTORS }]]),
      numbers: new Map([["one", numbers]]),
    });
    this.#controller = createFlowController(book, world);
  }

  judge(flow: Flow): Verdict | Pending<Verdict> {
    return this.#controller.judge(flow);
  }

  end(verdict: Verdict): void {
    const refs: SlotRef[] = [];
    for (const { component, detail } of verdict.decisions) {
      if (!("requestId" in detail) || detail.requestId === "") continue;
      const { policyName, policyHash, componentId } = component;
      const { label, requestId, consumed: tokens } = detail;
      refs.push({ policyName, policyHash, componentId, label, requestId, tokens });
    }
    this.#controller.end(refs);
  }
}

/** Flows of so many workloads, which have other priorities. Those of a single one are told apart by their users. */
function flowsOf(workloads: number): readonly Flow[] {
  const users = workloads === 1 ? 4 : 1;
  return Array.from({ length: workloads * users }, (_, at) =>
    flowOf({ labels: claims({ w: `w${at % workloads}`, user: `u${at % users}` }) }),
  );
}

function schedulerOf(workloads: number): Partial<SchedulerRule> {
  const parameters = { queueTimeoutMs: PATIENCE_MS };
  return {
    workloads: Array.from({ length: workloads }, (_, at) =>
      workload(`w${at}`, 1 + (at % 5), parameters),
    ),
    defaultParameters: { priority: 1, tokens: 1, ...parameters },
    fairnessLabelKey: "user",
  };
}

/** One contestant: `run` does its work so many times. */
interface Contestant {
  readonly name: string;
  run(times: number): void;
}

/** Checks that are decided at once; those that take a slot end. */
function checks(name: string, rule: LimiterRule, numbers: LimiterNumbers, warmMs = 0): Contestant {
  const agent = new Agent(rule, numbers);
  const flows = flowsOf(1);
  const once = (at: number) => {
    const verdict = agent.judge(flows[at % flows.length] ?? flowOf());
    if (verdict instanceof Pending || !verdict.accepted) throw new Error(`${name}: not free`);
    if (verdict.held !== undefined) agent.end(verdict);
  };
  for (let passed = 0; passed < warmMs; passed += 10) {
    agent.clock.advance(10);
    for (let at = 0; at < 10; at++) once(at);
  }
  const run = (times: number) => {
    for (let at = 0; at < times; at++) once(at);
  };
  return { name, run };
}

/** Flows at an overload: each that is served makes room for another one, while `WAITING` others wait. */
function overload(
  name: string,
  workloads: number,
  rule: LimiterRule,
  numbers: LimiterNumbers,
  serve: (agent: Agent, last: Verdict | undefined) => void,
  warm: (agent: Agent, flows: readonly Flow[]) => void = () => undefined,
): Contestant {
  const agent = new Agent(rule, numbers);
  const flows = flowsOf(workloads);
  warm(agent, flows);
  let served = 0;
  let arrived = 0;
  let last: Verdict | undefined;
  const settled = (verdict: Verdict) => {
    if (!verdict.accepted) throw new Error(`${name}: a flow was refused`);
    served++;
    last = verdict;
  };
  const failed = (thrown: unknown) => {
    throw thrown;
  };
  const arrive = () => {
    const judged = agent.judge(flows[arrived++ % flows.length] ?? flowOf());
    if (judged instanceof Pending) judged.whenSettled(settled, failed);
    else settled(judged);
  };
  while (arrived - served < WAITING) arrive();
  const run = (times: number) => {
    for (const until = served + times; served < until; ) {
      serve(agent, last);
      while (arrived - served < WAITING) arrive();
    }
  };
  return { name, run };
}

/** A waiting line that is one array, sorted by when its requests are due, with the same rules for that. */
class SortedQueue {
  readonly #line: { readonly due: number; readonly job: Job }[] = [];
  readonly #last = new Map<string, number>();
  #time = 0;

  push(job: Job): void {
    const key = `${job.priority} ${job.workload} ${job.fairness}`;
    const due = Math.max(this.#time, this.#last.get(key) ?? 0) + job.tokens / job.priority;
    this.#last.set(key, due);
    let [low, high] = [0, this.#line.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#line[middle]?.due ?? 0) <= due) low = middle + 1;
      else high = middle;
    }
    this.#line.splice(low, 0, { due, job });
  }

  serve(): void {
    this.#time = this.#line.shift()?.due ?? this.#time;
  }
}

function requestsOf(workloads: number): readonly Job[] {
  return Array.from({ length: Math.max(4, workloads) }, (_, at) => ({
    workload: `w${at % workloads}`,
    priority: 1 + ((at % workloads) % 5),
    fairness: `u${Math.floor(at / workloads)}`,
    tokens: 1,
  }));
}

function queues(workloads: number): readonly [Contestant, Contestant] {
  const requests = requestsOf(workloads);
  const next = (at: number) => requests[at % requests.length] as Job;
  const [fair, sorted] = [new FairQueue<Job>(), new SortedQueue()];
  for (let at = 0; at < WAITING; at++) {
    fair.push(next(at));
    sorted.push(next(at));
  }
  return [
    {
      name: `queue alone, ${workloads} workloads`,
      run: (times) => {
        for (let at = 0; at < times; at++) {
          fair.push(next(at));
          fair.next();
          fair.admit();
        }
      },
    },
    {
      name: `sorted array, ${workloads} workloads`,
      run: (times) => {
        for (let at = 0; at < times; at++) {
          sorted.push(next(at));
          sorted.serve();
        }
      },
    },
  ];
}

/** Processor time of one, µs. */
function cost({ run }: Contestant): number {
  const before = process.cpuUsage();
  run(CHECKS);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / CHECKS;
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;
}

/** Runs all in turns, and prints each beside the first. */
function compare(contestants: readonly Contestant[]): void {
  for (const one of contestants) cost(one);
  const rounds = Array.from({ length: ROUNDS }, () => contestants.map(cost));
  for (const [at, { name }] of contestants.entries()) {
    const own = median(rounds.map((round) => round[at] ?? 0));
    const ratio = median(rounds.map((round) => (round[at] ?? 0) / (round[0] ?? 1)));
    const perSecond = `${Math.round(1_000 / own)} 000/s`;
    print(
      `${name.padEnd(44)} ${own.toFixed(2).padStart(6)} µs ${perSecond.padStart(11)} ${ratio.toFixed(2)}×`,
    );
  }
  print("");
}

const plain = () => checks("rate limiter", rateRule(), rate(1e9, 1e9));

print("A check whose scheduler has what it wants");
compare([
  plain(),
  checks("concurrency limiter, and the end of its flow", concurrencyRule(), concurrency(1e6)),
  checks("quota scheduler", quotaRule(schedulerOf(1)), quota(1e9, 1e9)),
  checks("load scheduler", loadRule(schedulerOf(1)), load(1e6), 32_000),
  checks(
    "concurrency scheduler, and the end of its flow",
    concurrencyQueueRule(schedulerOf(1)),
    slots(1e6),
  ),
]);

const tick = (agent: Agent) => agent.clock.advance(1);
/** 2 000 flows a second for as long as a load scheduler measures; half of them may pass. */
const measure = (agent: Agent, flows: readonly Flow[]) => {
  for (let ms = 0; ms < 31_000; ms++) {
    for (let at = 0; at < 2; at++) agent.judge(flows[(2 * ms + at) % flows.length] ?? flowOf());
    agent.clock.advance(1);
  }
};

print(`A flow that arrives, waits among ${WAITING} others and is served`);
compare([
  plain(),
  ...[1, 50].flatMap((count) => [
    overload(
      `quota, ${count} workloads`,
      count,
      quotaRule(schedulerOf(count)),
      quota(1, 1_000),
      tick,
    ),
    overload(
      `load, ${count} workloads`,
      count,
      loadRule(schedulerOf(count)),
      load(0.5),
      tick,
      measure,
    ),
    overload(
      `concurrency, ${count} workloads`,
      count,
      concurrencyQueueRule(schedulerOf(count), { maxInflightMs: PATIENCE_MS }),
      slots(1),
      (agent, last) => last && agent.end(last),
    ),
  ]),
]);

for (const count of [1, 50]) compare(queues(count));
