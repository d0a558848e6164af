// One corpus for all endpoints: the rules of its agent, the requests, how each endpoint is asked, and which facts of
// the replies are compared. The protobuf library reads replies in JSON too, so that all replies have one form.

import assert from "node:assert/strict";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import fc from "fast-check";
import type {
  ConcurrencyLimiterNumbers,
  LimiterNumbers,
  RateLimiterNumbers,
  Rule,
  SelectorRule,
} from "#flow/rules.ts";
import type { MessagesByName } from "#gen/messages-by-name.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { anywhere, callOf, common, embedded, type endpointsOf } from "./agent.ts";

const CheckResponseSchema = schemaOf("aperture.flowcontrol.check.v1.CheckResponse");
const CheckHTTPResponseSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPResponse");
type CheckResponse = MessagesByName["aperture.flowcontrol.check.v1.CheckResponse"];

export const CP = { "control-point": "here" };

const HEADER = "http.request.header.";

export const perUser: Rule = {
  ...common,
  kind: "rate_limiter",
  componentId: "root.0",
  limitByLabelKey: `${HEADER}user_id`,
  tokensLabelKey: `${HEADER}tokens`,
  intervalMs: 1_000,
  continuousFill: true,
  delayInitialFill: false,
  maxIdleMs: 0,
  lazySyncs: 0,
};
export const threeEach: RateLimiterNumbers = {
  policyName: "p",
  policyHash: "h1",
  componentId: "root.0",
  kind: "rate_limiter",
  bucketCapacity: 3,
  fillAmount: 1,
  passThrough: false,
};
export const slots: Rule = {
  ...common,
  kind: "concurrency_limiter",
  componentId: "root.1",
  limitByLabelKey: "",
  tokensLabelKey: "",
  maxInflightMs: 60_000,
  maxIdleMs: 0,
};
export const oneSlot: ConcurrencyLimiterNumbers = {
  policyName: "p",
  policyHash: "h1",
  componentId: "root.1",
  kind: "concurrency_limiter",
  maxConcurrency: 1,
  passThrough: false,
};

const beta: SelectorRule = {
  ...anywhere,
  matcher: { ...anywhere.matcher, labels: { [`${HEADER}stage`]: "beta" } },
};
const other = { ...common, policyName: "q", policyHash: "h2" } as const;
const sampled = {
  kind: "sampler",
  sessionLabelKey: `${HEADER}user_id`,
  rampMode: false,
  hash: "mixed",
} as const;

/** Two policies with a limiter of every kind, and a label that a classifier makes. */
export const RULES: readonly (readonly [Rule, LimiterNumbers?])[] = [
  [perUser, threeEach],
  [
    { ...slots, limitByLabelKey: `${HEADER}stage` },
    { ...oneSlot, maxConcurrency: 3 },
  ],
  [
    { ...common, ...sampled, componentId: "root.2" },
    {
      policyName: "p",
      policyHash: "h1",
      componentId: "root.2",
      kind: "sampler",
      acceptPercentage: 70,
      passThroughLabelValues: ["ann"],
    },
  ],
  [
    { ...other, ...sampled, componentId: "root.0", rampMode: true, selectors: [beta] },
    {
      policyName: "q",
      policyHash: "h2",
      componentId: "root.0",
      kind: "sampler",
      acceptPercentage: 60,
      passThroughLabelValues: ["bob"],
    },
  ],
  [
    {
      kind: "classifier",
      policyName: "q",
      policyHash: "h2",
      index: 0,
      selectors: other.selectors,
      rules: [
        {
          label: "kind",
          telemetry: true,
          unreadableValue: "",
          extractor: { kind: "from", from: "request.http.headers.x-kind" },
        },
      ],
    },
  ],
  [
    {
      ...perUser,
      ...other,
      componentId: "root.1",
      deniedStatus: 503,
      limitByLabelKey: "kind",
      tokensLabelKey: "",
    },
    { ...threeEach, policyName: "q", policyHash: "h2", componentId: "root.1", bucketCapacity: 4 },
  ],
];

export interface Asked {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly ramp: boolean;
}

/** One step of a corpus: some time, perhaps the end of the oldest flow in flight, and a request. */
export interface Step extends Asked {
  readonly later: number;
  readonly end: boolean;
}

export const step: fc.Arbitrary<Step> = fc.record({
  path: fc.constantFrom("/", "//a", "/%2F?x=1", "/é"),
  headers: fc
    .record(
      {
        "user-id": fc.constantFrom("ann", "bob", "", "ünï", "a,b", "\u0001"),
        tokens: fc.constantFrom("1", "2", "NaN", "-1", "1e400"),
        stage: fc.constantFrom("beta", "beta", "live"),
        "x-kind": fc.constantFrom("gold", "tin"),
        other: fc.string({ maxLength: 5 }),
      },
      { requiredKeys: [] },
    )
    .map((headers) => ({ ...headers })),
  ramp: fc.boolean(),
  later: fc.constantFrom(0, 0, 300, 2_000, 70_000),
  end: fc.boolean(),
});

/** The comparable facts of a reply, whatever its encoding. Request ids are among them: they come from equal seeds. */
export function seenOf(check: CheckResponse | undefined) {
  assert.ok(check !== undefined);
  return {
    accepted: check.decisionType === 0,
    reason: check.rejectReason,
    status: check.deniedResponseStatusCode,
    decisions: check.limiterDecisions.map(({ details, waitTime, ...decision }) => {
      const info = details.value;
      const tokens = info !== undefined && "tokensInfo" in info ? info.tokensInfo : undefined;
      return {
        by: `${decision.policyName} ${decision.policyHash} ${decision.componentId}`,
        kind: details.case,
        dropped: decision.dropped,
        reason: decision.reason,
        waitMs: Number(waitTime?.seconds ?? 0n) * 1_000 + Math.round((waitTime?.nanos ?? 0) / 1e6),
        label: info !== undefined && "label" in info ? info.label : undefined,
        requestId: info !== undefined && "requestId" in info ? info.requestId : undefined,
        remaining: tokens?.remaining,
        current: tokens?.current,
        consumed: tokens?.consumed,
      };
    }),
  };
}

export type Seen = ReturnType<typeof seenOf>;

/** Names one slot for FlowEnd, as the reply of its check did. */
export function refsOf({ accepted, decisions }: Seen) {
  return decisions.flatMap(({ by, label, requestId, consumed }) => {
    const [policyName = "", policyHash = "", componentId = ""] = by.split(" ");
    if (!accepted || requestId === undefined || requestId === "") return [];
    return [
      { policyName, policyHash, componentId, label: label ?? "", requestId, tokens: consumed ?? 0 },
    ];
  });
}

export type Ref = ReturnType<typeof refsOf>[number];

/** Every operation of an agent in every encoding, in process or over sockets. */
export type CheckEndpoints = Pick<
  ReturnType<typeof endpointsOf>,
  "proxy" | "checkHttp" | "check" | "flowEnd" | "checkHttpJson" | "checkJson" | "flowEndJson"
>;

export type Ask = (endpoints: CheckEndpoints, asked: Asked) => Promise<Seen>;

const OPEN = { ignoreUnknownFields: true };

/** Asks each endpoint one request of the corpus. ext_authz has no ramp mode. */
export const ENDPOINTS = {
  async proxy(endpoints, { path, headers }) {
    const http = { method: "GET", path, headers: { ...headers } };
    const reply = await endpoints.proxy({ attributes: { request: { http } } }, callOf(CP));
    return seenOf(embedded(reply.dynamicMetadata));
  },
  async rawProxy(endpoints, { path, headers }) {
    const list = Object.entries(headers).map(([key, value]) => ({
      key,
      rawValue: Buffer.from(value),
    }));
    const http = { method: "GET", path, headerMap: { headers: list } };
    const attributes = { request: { http }, contextExtensions: CP };
    return seenOf(embedded((await endpoints.proxy({ attributes })).dynamicMetadata));
  },
  async described(endpoints, { path, headers, ramp }) {
    const request = { method: "GET", path, headers: { ...headers } };
    const reply = await endpoints.checkHttp({ controlPoint: "here", request, rampMode: ramp });
    assert.deepEqual(seenOf(reply.checkResponse), seenOf(embedded(reply.dynamicMetadata)));
    return seenOf(reply.checkResponse);
  },
  async describedJson(endpoints, { path, headers, ramp }) {
    const request = { method: "GET", path, headers };
    const body = { control_point: "here", request, ramp_mode: ramp };
    const reply: JsonValue = await endpoints.checkHttpJson(body);
    return seenOf(fromJson(CheckHTTPResponseSchema, reply, OPEN).checkResponse);
  },
  async feature(endpoints, { headers, ramp }) {
    const labels = claims(headers);
    return seenOf(await endpoints.check({ controlPoint: "here", labels, rampMode: ramp }));
  },
  async featureJson(endpoints, { headers, ramp }) {
    const body = { control_point: "here", labels: claims(headers), ramp_mode: ramp };
    const reply: JsonValue = await endpoints.checkJson(body);
    return seenOf(fromJson(CheckResponseSchema, reply, OPEN));
  },
} satisfies Readonly<Record<string, Ask>>;

/** The same facts as labels: an SDK sends the label that a classifier would have extracted. */
export function claims(headers: Readonly<Record<string, string>>): Record<string, string> {
  const labels = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [HEADER + name.replaceAll("-", "_"), value]),
  );
  const kind = headers["x-kind"];
  return kind === undefined ? labels : { ...labels, kind };
}

async function endJson(endpoints: CheckEndpoints, ref: Ref): Promise<boolean> {
  const { policyName, policyHash, componentId, label, requestId, tokens } = ref;
  const snake = {
    policy_name: policyName,
    policy_hash: policyHash,
    component_id: componentId,
    label,
    request_id: requestId,
    tokens,
  };
  const body = { control_point: "here", inflight_requests: [snake] };
  return (await endpoints.flowEndJson(body)).token_return_statuses[0].returned;
}

async function endBinary(endpoints: CheckEndpoints, ref: Ref): Promise<boolean> {
  const reply = await endpoints.flowEnd({ controlPoint: "here", inflightRequests: [ref] });
  return reply.tokenReturnStatuses[0]?.returned === true;
}

/** Sends a corpus to one endpoint, then reads the state it left behind: tokens by user and kind, and slots. */
export async function walk(
  endpoints: CheckEndpoints,
  ask: Ask,
  steps: readonly Step[],
  advance: (ms: number) => void,
): Promise<readonly (Seen | boolean)[]> {
  const json = ask === ENDPOINTS.describedJson || ask === ENDPOINTS.featureJson;
  const end = json ? endJson : endBinary;
  const seen: (Seen | boolean)[] = [];
  const inFlight: Ref[] = [];
  for (const each of steps) {
    advance(each.later);
    const ref = each.end ? inFlight.shift() : undefined;
    if (ref !== undefined) seen.push(await end(endpoints, ref));
    const got = await ask(endpoints, each);
    inFlight.push(...refsOf(got));
    seen.push(got);
  }
  for (const user of ["ann", "bob", "", "ünï", "a,b", "\u0001"]) {
    for (const [stage, kind] of [
      ["beta", "gold"],
      ["live", "tin"],
    ] as const) {
      const headers = { "user-id": user, stage, "x-kind": kind, tokens: "0" };
      seen.push(await ENDPOINTS.feature(endpoints, { path: "", headers, ramp: false }));
    }
  }
  for (const ref of inFlight) seen.push(await end(endpoints, ref));
  return seen;
}
