// Which parts of a policy which agents get: the configuration of every component that agents carry out, and
// the resources beside the circuit, as messages for the agent groups that they name.

import type { AgentConfig } from "../compiled.ts";
import type { Refuse } from "../finding.ts";
import type { Message } from "../language/field.ts";
import {
  type ConcurrencyLimiter,
  concurrencyLimiter,
  type RateLimiter,
  rateLimiter,
  type Sampler,
  sampler,
} from "../language/flow.ts";
import {
  type ConcurrencyScheduler,
  concurrencyScheduler,
  type LoadScheduler,
  loadScheduler,
  type QuotaScheduler,
  quotaScheduler,
} from "../language/load.ts";
import type { Resources } from "../language/resources.ts";
import { type PodScaler, podScaler } from "../language/scale.ts";
import { groupsOf } from "../language/selector.ts";
import { compactMessage } from "../message.ts";
import type { Path } from "../tree.ts";
import { resourceConfigs } from "./resources.ts";

/** The language's messages of components that agents carry out, by kind of configuration. */
export interface Actuated {
  readonly rate_limiter: RateLimiter;
  readonly quota_scheduler: QuotaScheduler;
  readonly concurrency_limiter: ConcurrencyLimiter;
  readonly concurrency_scheduler: ConcurrencyScheduler;
  readonly load_scheduler: LoadScheduler;
  readonly sampler: Sampler;
  readonly pod_scaler: PodScaler;
}

/** A component that agents carry out, composites expanded: a load ramp gives its sampler. */
export type Actuating = {
  readonly [Kind in keyof Actuated]: {
    readonly kind: Kind;
    /** The id under which agents know it. */
    readonly componentId: string;
    readonly component: Actuated[Kind];
  };
}[keyof Actuated];

const TABLES: Readonly<{ [Kind in keyof Actuated]: Message<Actuated[Kind]> }> = {
  rate_limiter: rateLimiter,
  quota_scheduler: quotaScheduler,
  concurrency_limiter: concurrencyLimiter,
  concurrency_scheduler: concurrencyScheduler,
  load_scheduler: loadScheduler,
  sampler,
  pod_scaler: podScaler,
};

/** `path` is where the document's resources stand. */
export function agentConfigs(
  components: readonly Actuating[],
  resources: Resources | undefined,
  path: Path,
  refuse: Refuse,
): readonly AgentConfig[] {
  const own = resources === undefined ? [] : resourceConfigs(resources, path, refuse);
  return [...components.map(componentConfig), ...own];
}

function componentConfig(actuating: Actuating): AgentConfig {
  const { kind, componentId, component } = actuating;
  const message = compactMessage<unknown>(TABLES[kind] as Message, component);
  return { kind, name: componentId, agentGroups: agentGroupsOf(actuating), message };
}

/** Distinct, in the order in which the selectors name them. */
export function agentGroupsOf({ kind, component }: Actuating): readonly string[] {
  switch (kind) {
    case "pod_scaler":
      return [component.kubernetes_object_selector.agent_group];
    case "load_scheduler":
    case "sampler":
      return groupsOf(component.parameters.selectors);
    case "rate_limiter":
    case "quota_scheduler":
    case "concurrency_limiter":
    case "concurrency_scheduler":
      return groupsOf(component.selectors);
  }
}
