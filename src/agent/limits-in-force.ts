// Shows adaptive concurrency limits and the shares of load schedulers in the status. Controllers decide shares for a limited
// time, and the log reports schedulers without a valid share, because they let every flow pass.

import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { Component } from "#flow/flow.ts";
import type { AdaptiveGauges, LoadGauges } from "#flow/observer.ts";

/** Time between two comparisons, ms. Controllers decide every ten seconds. */
const COMPARE_MS = 10_000;
/** Limit of schedulers that one line of the log names. */
const MAX_NAMED = 5;

type StatusNode = SluiceProcess["health"]["root"];
type Name = Pick<Component, "kind" | "policyName" | "policyHash" | "componentId">;

interface Options {
  readonly clock: Clock;
  readonly log: Log;
  readonly status: StatusNode;
  /** The components of the plan in force: the same array until the plan changes. */
  readonly components: () => readonly Name[];
  /** The numbers that a component reported last. */
  readonly gauges: (name: Name) => {
    readonly load?: LoadGauges | undefined;
    readonly adaptive?: AdaptiveGauges | undefined;
  };
}

interface Grouped {
  readonly components: readonly Name[];
  readonly byPolicy: ReadonlyMap<string, readonly Name[]>;
}

export class LimitsInForce {
  readonly #options: Options;
  #grouped: Grouped | undefined;
  #lapsedBefore: ReadonlySet<string> = new Set();
  #reported = false;
  #disarm: (() => void) | undefined;

  constructor(options: Options) {
    this.#options = options;
    options.status.childrenWith("policy", {
      names: () => [...this.#byPolicy().keys()].filter((policy) => this.#shown(policy).length > 0),
      fill: (policy, node) => {
        const own = this.#shown(policy);
        for (const name of own) this.#fill(name, node.at("component", name.componentId));
        return own.length > 0;
      },
    });
    this.#compareLater();
  }

  readonly close = async (): Promise<void> => this.#disarm?.();

  /** Reports schedulers that lapsed twice in a row, because new schedulers have no decision for a moment. */
  #compare(): void {
    const { log } = this.#options;
    const shown = [...this.#byPolicy().keys()].flatMap((policy) => this.#shown(policy));
    const names = shown.filter((name) => this.#isLapsed(name));
    const lapsed = new Set(
      names.map(({ policyName, componentId }) => `${policyName}/${componentId}`),
    );
    const lapsedTwice = [...lapsed].filter((name) => this.#lapsedBefore.has(name));
    this.#lapsedBefore = lapsed;
    if (lapsedTwice.length > 0 && !this.#reported) {
      this.#reported = true;
      const more =
        lapsedTwice.length > MAX_NAMED ? ` and ${lapsedTwice.length - MAX_NAMED} more` : "";
      const which = lapsedTwice.slice(0, MAX_NAMED).join(", ") + more;
      log.warn(
        { schedulers: lapsedTwice.length },
        `load schedulers have no valid decision of a controller, and let every flow pass: ${which}`,
      );
    } else if (lapsed.size === 0 && this.#reported) {
      this.#reported = false;
      log.info({}, "all load schedulers have a valid decision again");
    }
  }

  #compareLater(): void {
    this.#disarm = this.#options.clock.alarm(COMPARE_MS, () => {
      this.#compare();
      this.#compareLater();
    });
  }

  /** The components of the plan by policy, grouped once per plan, because a status asks for each policy. */
  #byPolicy(): Grouped["byPolicy"] {
    const components = this.#options.components();
    if (this.#grouped?.components !== components) {
      const byPolicy = Map.groupBy(components, ({ policyName }) => policyName);
      this.#grouped = { components, byPolicy };
    }
    return this.#grouped.byPolicy;
  }

  /** The components of a policy with such limits, each once. */
  #shown(policy: string): readonly Name[] {
    const shown = new Map<string, Name>();
    for (const name of this.#byPolicy().get(policy) ?? []) {
      const { load, adaptive } = this.#options.gauges(name);
      if (load !== undefined || adaptive !== undefined) shown.set(name.componentId, name);
    }
    return [...shown.values()];
  }

  #isLapsed(name: Name): boolean {
    const condition = this.#options.gauges(name).load?.condition;
    return condition !== undefined && condition in LAPSED;
  }

  #fill(name: Name, node: StatusNode): void {
    const { load, adaptive } = this.#options.gauges(name);
    if (load === undefined) node.ok(adaptiveText(adaptive));
    else if (load.condition === "no_decision" || load.condition === "out_of_date") {
      node.fail(LAPSED[load.condition]);
    } else node.ok(loadText(load));
  }
}

const LAPSED = {
  no_decision: "this load scheduler has no decision of a controller yet: every flow passes",
  out_of_date: "the last decision of a controller is too old: every flow passes",
} as const;

function loadText({ condition, multiplier, fillRate }: LoadGauges): string {
  if (condition === "measuring") return "this load scheduler measures the load: every flow passes";
  if (condition === "pass_through") return "this load scheduler is told to let every flow pass";
  return `this load scheduler lets a share of ${rounded(multiplier)} pass: ${rounded(fillRate)} tokens per second`;
}

function adaptiveText(adaptive: AdaptiveGauges | undefined): string {
  const summary = adaptive?.summary();
  if (summary === undefined)
    return "another agent counts the keys of this limiter, or no flow has come yet";
  const { keys, lowest, highest, lowestLatency, highestLatency } = summary;
  const limit = `a limit of ${range(lowest, highest)}${keys > 1 ? ` for ${keys} keys` : ""}`;
  if (lowestLatency === undefined) return limit;
  return `${limit}, ${range(lowestLatency, highestLatency ?? lowestLatency)} ms without a queue`;
}

function range(lowest: number, highest: number): string {
  const [from, to] = [rounded(lowest), rounded(highest)];
  return from === to ? from : `${from} to ${to}`;
}

/** Three digits. */
function rounded(number: number): string {
  return String(Number(number.toPrecision(3)));
}
