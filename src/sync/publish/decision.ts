// Decisions of circuits as store entries: one row per kind of decision.

import type { StandIn } from "#base/failure-mode.ts";
import type { BucketNumbers, CircuitDecision, ConcurrencyNumbers } from "#circuit/decision.ts";
import type { Tick } from "#circuit/ticks.ts";
import type { Encodable, MessageName } from "#wire/protobuf/message-types.ts";
import { compactJson, durationOf, encode } from "#wire/protobuf/messages.ts";
import { componentName, decisionKey } from "../keys.ts";
import type { PolicyIdentity } from "./policy.ts";

/**
 * The entries that a decision changes, by key: one copy for each agent group of its component. `undefined`
 * deletes the key.
 */
export function decisionEntries(
  policy: PolicyIdentity,
  decision: CircuitDecision,
): ReadonlyMap<string, Uint8Array | undefined> {
  const value = encodeDecision(policy, decision);
  const { kind, componentId, agentGroups } = decision;
  return new Map(
    agentGroups.map((group) => [
      decisionKey(kind, componentName(group, policy.name, componentId)),
      value,
    ]),
  );
}

type Kind = CircuitDecision["kind"];
type Of<K extends Kind> = Extract<CircuitDecision, { readonly kind: K }>;

/** A wrapper message and its fields for a decision; undefined when there is no decision. */
interface Row<K extends Kind, Name extends MessageName = MessageName> {
  readonly wrapper: Name;
  fields(decision: Of<K>): Encodable<Name> | undefined;
}

/** Lets the compiler check each row's fields against its own wrapper. */
function row<K extends Kind, Name extends MessageName>(
  wrapper: Name,
  fields: (decision: Of<K>) => Encodable<Name> | undefined,
): Row<K> {
  return { wrapper, fields } as Row<K>;
}

/** The failure mode is a field that Sluice added. Decisions from valid signals leave it out. */
const failureField = (failure: StandIn | undefined) =>
  failure === undefined ? {} : { failureMode: failure };

const bucket = ({ bucketCapacity, fillAmount, passThrough, failure }: BucketNumbers) => ({
  rateLimiterDecision: { bucketCapacity, fillAmount, passThrough, ...failureField(failure) },
});

const concurrency = ({ maxConcurrency, passThrough, failure }: ConcurrencyNumbers) => ({
  concurrencyLimiterDecision: { maxConcurrency, passThrough, ...failureField(failure) },
});

const KINDS: Readonly<{ [K in Kind]: Row<K> }> = {
  load_scheduler: row("aperture.policy.sync.v1.LoadDecisionWrapper", (decision) => ({
    loadDecision: {
      tickInfo: tickInfo(decision.tick),
      loadMultiplier: decision.loadMultiplier,
      passThrough: decision.passThrough,
      tokensByWorkloadIndex: Object.fromEntries(decision.tokensByWorkload),
      validUntil: timestampOf(decision.validUntil),
    },
  })),
  rate_limiter: row("aperture.policy.sync.v1.RateLimiterDecisionWrapper", bucket),
  quota_scheduler: row("aperture.policy.sync.v1.RateLimiterDecisionWrapper", bucket),
  concurrency_limiter: row(
    "aperture.policy.sync.v1.ConcurrencyLimiterDecisionWrapper",
    concurrency,
  ),
  concurrency_scheduler: row(
    "aperture.policy.sync.v1.ConcurrencyLimiterDecisionWrapper",
    concurrency,
  ),
  sampler: row(
    "aperture.policy.sync.v1.SamplerDecisionWrapper",
    ({ acceptPercentage, passThroughLabelValues, failure }) => ({
      samplerDecision: { acceptPercentage, passThroughLabelValues, ...failureField(failure) },
    }),
  ),
  pod_scaler: row("aperture.policy.sync.v1.ScaleDecisionWrapper", ({ desiredReplicas }) =>
    desiredReplicas === undefined ? undefined : { scaleDecision: { desiredReplicas } },
  ),
};

function encodeDecision(policy: PolicyIdentity, decision: CircuitDecision): Uint8Array | undefined {
  const { wrapper, fields } = KINDS[decision.kind] as Row<Kind>;
  const message = fields(decision);
  return message && encode(wrapper, { ...attributes(policy, decision), ...message });
}

/** A decision in readable form: the compact JSON of its wrapper message. */
export function decisionJson(
  policy: PolicyIdentity,
  decision: CircuitDecision,
): Readonly<Record<string, unknown>> {
  const { wrapper, fields } = KINDS[decision.kind] as Row<Kind>;
  return compactJson(wrapper, { ...attributes(policy, decision), ...fields(decision) });
}

function attributes({ name, hash }: PolicyIdentity, { componentId }: CircuitDecision) {
  return { commonAttributes: { policyName: name, policyHash: hash, componentId } };
}

function tickInfo({ timestamp, number, intervalMs }: Tick) {
  return {
    timestamp: timestampOf(timestamp),
    tick: number,
    interval: durationOf(intervalMs),
  };
}

/** A protobuf Timestamp has the fields of a Duration: the time since 1970. */
const timestampOf = durationOf;
