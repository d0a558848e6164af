// The limits of the fault matrix, as a policy. Each has a control point of its own, and a key for each user.

/** Capacity of each bucket. */
export const CAPACITY = 10;
/** Tokens per second of the buckets that fill. */
export const FILL = 20;
/** Flows in flight at one time. */
export const SLOTS = 5;

interface Limit {
  readonly kind: "rate" | "slots";
  readonly onFailure: "closed" | "local";
  /** Most tokens or slots that a key may have at one time. */
  readonly capacity: number;
  /** Tokens per second. */
  readonly fill: number;
  readonly title: string;
}

/** Buckets that never fill show every token that is admitted twice, however slow the machine is. */
export const LIMITS = {
  rate: { kind: "rate", onFailure: "closed", capacity: CAPACITY, fill: 0, title: "rate" },
  filling: {
    kind: "rate",
    onFailure: "closed",
    capacity: CAPACITY,
    fill: FILL,
    title: "rate with refill",
  },
  slots: { kind: "slots", onFailure: "closed", capacity: SLOTS, fill: 0, title: "concurrency" },
  "rate-local": { kind: "rate", onFailure: "local", capacity: CAPACITY, fill: 0, title: "rate" },
} as const satisfies Readonly<Record<string, Limit>>;

export type LimitName = keyof typeof LIMITS;

export const LIMIT_NAMES = Object.keys(LIMITS) as readonly LimitName[];

const constant = (value: number) => `{ constant_signal: { value: ${value} } }`;
const BY_USER = "limit_by_label_key: http.request.header.user";

function component(name: string, { kind, onFailure, capacity, fill }: Limit): string {
  const selectors = `selectors: [{ control_point: ${name} }]`;
  if (kind === "slots")
    return `
    - flow_control:
        concurrency_limiter:
          ${selectors}
          in_ports: { max_concurrency: ${constant(capacity)} }
          parameters: { ${BY_USER}, max_inflight_duration: 60s, on_failure: ${onFailure} }`;
  return `
    - flow_control:
        rate_limiter:
          ${selectors}
          in_ports: { bucket_capacity: ${constant(capacity)}, fill_amount: ${constant(fill)} }
          parameters: { ${BY_USER}, interval: 1s, on_failure: ${onFailure} }`;
}

export const POLICY = `circuit:
  evaluation_interval: 0.2s
  components:${LIMIT_NAMES.map((name) => component(name, LIMITS[name])).join("")}
`;

/** A policy that refuses every request at a control point. */
export const closedAt = (controlPoint: string): string => `circuit:
  evaluation_interval: 0.2s
  components:${component(controlPoint, { ...LIMITS.rate, capacity: 0 }).replace(`${BY_USER}, `, "")}
`;
