// Components that decide the numbers of limiters. They send a decision when its numbers change, and always at the first
// tick. While a signal that they need is invalid, `on_failure` decides.

import { type StandIn, standInOf } from "#base/failure-mode.ts";
import { type ComponentFactories, type ComponentFactory, read, truthy } from "../component.ts";
import {
  type BucketNumbers,
  type ConcurrencyNumbers,
  type DecisionKindOf,
  samplerDefault,
} from "../decision.ts";
import { intervalStart, isDue } from "../ticks.ts";

const OPEN: BucketNumbers = { bucketCapacity: 0, fillAmount: 0, passThrough: true };
const CLOSED: BucketNumbers = { bucketCapacity: 0, fillAmount: 0, passThrough: false };

const PERIOD_MS = 10_000;
const PERIODS_VALID = 5;
const TOKENS_TICKS = 5;
const NONE: ReadonlyMap<string, number> = new Map();

export const LIMITERS = {
  /** The capacity and fill amount of rate limiters. */
  rate_limiter: bucket("rate_limiter"),
  /** The capacity and fill amount of quota schedulers. */
  quota_scheduler: bucket("quota_scheduler"),
  /** The maximum concurrency of concurrency limiters. */
  concurrency_limiter: concurrency("concurrency_limiter"),
  /** The maximum concurrency of concurrency schedulers. */
  concurrency_scheduler: concurrency("concurrency_scheduler"),
  /**
   * Decides every ten seconds what fraction of the load schedulers let through: the input, at least 0. Fails open:
   * while the input is invalid, everything passes. With a tokens query it also queries the tokens of each workload
   * every five ticks and sends the last answer with the decision. A decision is valid for five periods, after which
   * agents let everything through.
   */
  load_actuator: (config, wires, context) => {
    const input = wires.in("load_multiplier");
    const every = context.ticks(PERIOD_MS);
    const state = context.state(() => ({ tokens: NONE }));
    return {
      run: (readings, tick) => {
        const { number, timestamp, intervalMs } = tick;
        if (isDue(number, every)) {
          const multiplier = read(readings, input);
          const passThrough = Number.isNaN(multiplier);
          context.decide({
            kind: "load_scheduler",
            componentId: config.component_id,
            agentGroups: config.agent_groups,
            tick,
            loadMultiplier: passThrough ? 0 : Math.max(0, multiplier),
            passThrough,
            tokensByWorkload: state.tokens,
            validUntil: timestamp + PERIODS_VALID * every * intervalMs,
          });
        }
        if (config.tokens_query === "" || number % TOKENS_TICKS !== 0) return;
        context.ask({
          query: config.tokens_query,
          at: intervalStart(timestamp, intervalMs),
          periodMs: TOKENS_TICKS * intervalMs,
          byLabel: "workload_index",
        });
      },
      answer: (answer) => {
        state.tokens = answer.kind === "by_label" ? answer.values : NONE;
      },
    };
  },
  /**
   * Decides what percentage samplers accept, when it or the pass-through label values change, and at the first tick.
   * While the input is invalid, `on_failure` decides; by default it is 100, or 0 in ramp mode. The label values are
   * the policy's, or their override in the dynamic configuration under pass_through_label_values_config_key. A
   * sampler without any in-ports, not even an unconnected one, decides only when it has such values (control-plane
   * D-6).
   */
  sampler: (config, wires, context) => {
    const input = wires.in("accept_percentage");
    const hasNoPort = wires.all("accept_percentage").length === 0;
    const byDefault = samplerDefault(config);
    const state = context.state(() => ({ valid: Number.NaN }));
    let passing = config.pass_through_label_values;
    let sent = Number.NaN;
    let sentFailure: StandIn | undefined;
    let decides = !hasNoPort;
    return {
      run: (readings) => {
        const reading = read(readings, input);
        let failure: StandIn | undefined;
        if (Number.isNaN(reading)) {
          failure = standInOf(config.on_failure, byDefault, !Number.isNaN(state.valid));
        } else state.valid = reading;
        const acceptPercentage = failure === "open" ? 100 : failure === "closed" ? 0 : state.valid;
        if (acceptPercentage === sent && failure === sentFailure) return;
        decides ||= passing.length > 0;
        if (!decides) return;
        [sent, sentFailure] = [acceptPercentage, failure];
        context.decide({
          kind: "sampler",
          componentId: config.component_id,
          agentGroups: config.agent_groups,
          acceptPercentage,
          passThroughLabelValues: passing,
          ...(failure === undefined ? {} : { failure }),
        });
      },
      configure: (overrides) => {
        const { pass_through_label_values_config_key: key, pass_through_label_values } = config;
        const wanted = overrides.texts(key) ?? pass_through_label_values;
        if (equal(wanted, passing)) return;
        passing = wanted;
        sent = Number.NaN;
      },
    };
  },
} as const satisfies Partial<ComponentFactories>;

/** Decides capacity and fill amount of token buckets. By default every flow passes while one of them is invalid. */
function bucket<K extends DecisionKindOf<BucketNumbers>>(kind: K): ComponentFactory<K> {
  return (config, wires, context) => {
    const [capacity, fill] = [wires.in("bucket_capacity"), wires.in("fill_amount")];
    const pass = wires.in("pass_through");
    const { component_id: componentId, agent_groups: agentGroups, on_failure } = config;
    // The last valid numbers.
    const state = context.state(() => ({ capacity: Number.NaN, fill: Number.NaN }));
    let sent: BucketNumbers | undefined;

    /** While the policy itself lets all flows pass, nothing has failed. */
    const numbersOnFailure = (passThrough: boolean): BucketNumbers => {
      if (passThrough) return OPEN;
      const { capacity: bucketCapacity, fill: fillAmount } = state;
      const failure = standInOf(on_failure, "open", !Number.isNaN(bucketCapacity));
      if (failure === "last_known")
        return { bucketCapacity, fillAmount, passThrough: false, failure };
      return { ...(failure === "closed" ? CLOSED : OPEN), failure };
    };

    return {
      run: (readings) => {
        const [bucketCapacity, fillAmount] = [read(readings, capacity), read(readings, fill)];
        const passThrough = truthy(read(readings, pass));
        const valid = !Number.isNaN(bucketCapacity) && !Number.isNaN(fillAmount);
        const numbers = valid
          ? { bucketCapacity, fillAmount, passThrough }
          : numbersOnFailure(passThrough);
        if (valid) {
          state.capacity = bucketCapacity;
          state.fill = fillAmount;
        }
        if (sent !== undefined && isSameBucket(numbers, sent)) return;
        sent = numbers;
        context.decide({ kind, componentId, agentGroups, ...numbers });
      },
    };
  };
}

function isSameBucket(left: BucketNumbers, right: BucketNumbers): boolean {
  return (
    left.bucketCapacity === right.bucketCapacity &&
    left.fillAmount === right.fillAmount &&
    left.passThrough === right.passThrough &&
    left.failure === right.failure
  );
}

/** Decides how many requests may be in flight. By default every flow passes while that number is invalid. */
function concurrency<K extends DecisionKindOf<ConcurrencyNumbers>>(kind: K): ComponentFactory<K> {
  return (config, wires, context) => {
    const [max, pass] = [wires.in("max_concurrency"), wires.in("pass_through")];
    const { component_id: componentId, agent_groups: agentGroups, on_failure } = config;
    const state = context.state(() => ({ valid: Number.NaN }));
    let sent: ConcurrencyNumbers | undefined;

    /** While the policy itself lets all flows pass, nothing has failed. */
    const numbersOnFailure = (passThrough: boolean): ConcurrencyNumbers => {
      if (passThrough) return { maxConcurrency: 0, passThrough };
      const failure = standInOf(on_failure, "open", !Number.isNaN(state.valid));
      const maxConcurrency = failure === "last_known" ? state.valid : 0;
      return { maxConcurrency, passThrough: failure === "open", failure };
    };

    return {
      run: (readings) => {
        const maxConcurrency = read(readings, max);
        const passThrough = truthy(read(readings, pass));
        const valid = !Number.isNaN(maxConcurrency);
        if (valid) state.valid = maxConcurrency;
        const numbers = valid ? { maxConcurrency, passThrough } : numbersOnFailure(passThrough);
        if (sent !== undefined && isSameConcurrency(numbers, sent)) return;
        sent = numbers;
        context.decide({ kind, componentId, agentGroups, ...numbers });
      },
    };
  };
}

function isSameConcurrency(left: ConcurrencyNumbers, right: ConcurrencyNumbers): boolean {
  return (
    left.maxConcurrency === right.maxConcurrency &&
    left.passThrough === right.passThrough &&
    left.failure === right.failure
  );
}

function equal(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((text, at) => text === right[at]);
}
