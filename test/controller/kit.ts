// A controller over a store in memory, on a clock that tests move, with measurements that they script.

import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { seededChance } from "#base/chance.ts";
import { type Code, Fault } from "#base/fault.ts";
import { type Controller, startController } from "#controller/controller.ts";
import { StatusNode } from "#runtime/status/status.ts";
import { memoryStore } from "#store/memory.ts";
import type { Op, Store } from "#store/store.ts";
import { COMPLETE } from "#sync/keys.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { fakeClock } from "../kit/clock.ts";
import { folderOf } from "../kit/folder.ts";
import { configOf } from "../kit/sluice/config.ts";
import { logTo } from "../kit/sluice/log.ts";
import { storeWith } from "../kit/sluice/stored.ts";
import { until } from "../kit/until.ts";

export interface Bench {
  readonly clock: ReturnType<typeof fakeClock>;
  readonly store: Store;
  readonly controller: Controller;
  readonly metrics: Metrics;
  readonly status: StatusNode;
  readonly directory: string;
  /** All messages that were logged. */
  readonly logged: string[];
  /** The changes of each commit, by key; a delete is null. */
  readonly commits: ReadonlyMap<string, Uint8Array | null>[];
  readonly reloads: Record<"success" | "failure", number>;
  readonly counts: { loaded: number; refused: number };
  /** Makes commits fail from now on, or hang, or work again. */
  setStore(state: "well" | "failing" | "stuck"): void;
  write(file: string, text: string): void;
  remove(file: string): void;
  /** Advances the clock by one check of the directory at a time until the condition holds. */
  when(what: string, holds: () => boolean): Promise<void>;
  /** Lets all pending callbacks run. */
  turn(): Promise<void>;
}

export interface BenchOptions {
  readonly files?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly store?: Store;
  /** True if the store outlives this controller. */
  readonly sharesStore?: boolean;
  readonly clock?: ReturnType<typeof fakeClock>;
  /** Group of the agent whose metrics the controller believes to read. */
  readonly agentGroup?: string;
}

export async function bench(t: TestContext, options: BenchOptions = {}): Promise<Bench> {
  const directory = join(folderOf(t), "policies");
  mkdirSync(directory);
  for (const [name, text] of Object.entries(options.files ?? {}))
    writeFileSync(join(directory, name), text);
  const clock = options.clock ?? fakeClock();
  const store = options.store ?? memoryStore();
  const metrics = new Metrics({
    enable_go_metrics: false,
    enable_process_collector: false,
    pedantic: true,
  });
  const status = new StatusNode(clock);
  const logged: string[] = [];
  const commits: Map<string, Uint8Array | null>[] = [];
  let state: "well" | "failing" | "stuck" = "well";
  const watched = storeWith(store, {
    async commit(ops: readonly Op[], guarded) {
      if (state === "failing") throw new Error("the store is away");
      if (state === "stuck") await new Promise<never>(() => undefined);
      // That removals are complete is written after each of them, and at the start.
      if (ops.some(({ key }) => key !== COMPLETE))
        commits.push(new Map(ops.map((op) => [op.key, op.kind === "put" ? op.value : null])));
      return store.commit(ops, guarded);
    },
  });
  const reloads = { success: 0, failure: 0 };
  const counts = { loaded: 0, refused: 0 };
  const controller = await startController({
    settings: configOf("controller", options.env ?? {}).config,
    directories: [directory],
    store: watched,
    clock,
    env: {},
    status,
    meters: metrics,
    chance: seededChance(1),
    agentGroup: options.agentGroup,
    sharesStore: options.sharesStore ?? false,
    log: logTo((_level, _fields, message) => void logged.push(message)),
    counts: {
      setDocuments: (now) => Object.assign(counts, now),
      reloaded: (result) => {
        reloads[result] += 1;
      },
    },
    fail: (message, cause) => {
      throw new Error(message, { cause });
    },
  });
  t.after(async () => {
    state = "well";
    let ended = false;
    const stopped = controller.stop("drain");
    void Promise.resolve(stopped).then(() => {
      ended = true;
    });
    // Timeouts elapse only when the clock is advanced here.
    await until("the controller has stopped", () => {
      if (!ended) clock.advance(500);
      return ended;
    });
    if (options.store === undefined) await store.close();
  });
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    clock,
    store,
    controller,
    metrics,
    status,
    directory,
    logged,
    commits,
    reloads,
    counts,
    turn,
    setStore(next) {
      state = next;
    },
    write: (file, text) => writeFileSync(join(directory, file), text),
    remove: (file) => rmSync(join(directory, file)),
    when: (what, holds) =>
      until(what, () => {
        if (holds()) return true;
        clock.advance(500);
        return holds();
      }),
  };
}

/** A rate limiter whose capacity grows by one each tick. `extra` stands before it. */
export function counting({ name = "c", interval = "1s", fill = 1, extra = "" } = {}): string {
  return `circuit:
  evaluation_interval: ${interval}
  components:
    - integrator:
        in_ports: { input: { constant_signal: { value: 1 } } }
        out_ports: { output: { signal_name: SUM } }
${extra}    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ${name}, agent_group: default }]
          in_ports:
            bucket_capacity: { signal_name: SUM }
            fill_amount: { constant_signal: { value: ${fill} } }
          parameters: { interval: 1s }
`;
}

/** A rate limiter whose capacity is a variable with the key `limit`. */
export function variable(value = 5): string {
  return `circuit:
  evaluation_interval: 1s
  components:
    - variable: { constant_output: { value: ${value} }, config_key: limit, out_ports: { output: { signal_name: CAP } } }
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: v, agent_group: default }]
          in_ports:
            bucket_capacity: { signal_name: CAP }
            fill_amount: { constant_signal: { value: 1 } }
          parameters: { interval: 1s }
`;
}

interface Decided {
  readonly commonAttributes: { readonly policyHash: string; readonly componentId: string };
  readonly rateLimiterDecision?: { readonly bucketCapacity?: number; readonly fillAmount?: number };
}

/** Decisions as the policy service lists them, by key without the group. */
export async function decisionsOf({ controller }: Bench, kind = "rate_limiter") {
  const texts = await controller.policies.decisions(kind);
  return new Map(
    Object.entries(texts).map(([key, text]) => [
      key.replace("agent_group-default-policy-", "").replace("-component_id-", " "),
      JSON.parse(text) as Decided,
    ]),
  );
}

/** Accepts a fault with this code and a message that matches, for `assert.rejects`. */
export function fault(code: Code, words: RegExp) {
  return (thrown: unknown) => {
    assert.ok(thrown instanceof Fault, String(thrown));
    assert.equal(thrown.code, code);
    assert.match(thrown.message, words);
    return true;
  };
}
