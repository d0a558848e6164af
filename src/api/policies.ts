// The policy service as gRPC service and JSON routes: one table of operations that both share. In between,
// requests and replies are JSON with the field names of the messages.

import type { Call, GrpcService, HttpHandler, Route, UnaryHandler } from "#base/handler.ts";
import {
  configOf,
  depthOf,
  documentOf,
  type Json,
  policyNameOf,
  requestOf,
  textField,
} from "./policies/request.ts";
import { ServiceMessages } from "./policies/service-messages.ts";
import { administrationService, jsonReply } from "./reply/json-reply.ts";

const POLICY_SERVICE = "aperture.policy.language.v1.PolicyService";

/** State of a stored policy compared with the version that runs. */
export type PolicyStanding = "VALID" | "INVALID" | "NOT_LOADED" | "STALE" | "OUTDATED";

/** The agents that apply the running version of a policy, and those that do not yet. */
export interface PolicyRollout {
  /** Agents of the groups that the policy names. */
  readonly agents: number;
  /** Those of them that apply the running version. */
  readonly applied: number;
  /** Addresses of the first of those that do not. */
  readonly behind: readonly string[];
  /** Agents that do not say what they apply. */
  readonly unknown: number;
  /** Addresses of the first agents that refuse a rule of the policy, each with the reason. Absent where there is none. */
  readonly refused?: readonly string[];
}

export interface PolicyView {
  /** The document with all fields; null where it cannot be read. */
  readonly policy: Json | null;
  readonly status: PolicyStanding;
  readonly reason: string;
  /** Absent where the policy does not run or nothing in it concerns agents. */
  readonly rollout?: PolicyRollout;
}

/** The operations of a controller's policy service. Every operation may throw a Fault. */
export interface PolicyOperations {
  /** By policy name, sorted. */
  list(): ReadonlyMap<string, PolicyView>;
  /** @throws Fault NOT_FOUND */
  get(name: string): PolicyView;
  /**
   * Stores a document, and returns its hash when it is in force. `peer` is the caller's address, for the log.
   * @throws Fault INVALID_ARGUMENT, ALREADY_EXISTS
   */
  upsert(name: string, text: string, peer?: string): Promise<string>;
  /** Removes a policy that was created over the API. Does nothing when there is none. @throws Fault FAILED_PRECONDITION */
  remove(name: string, peer?: string): Promise<void>;
  /** Judges a document beside the policies in force; changes nothing. */
  validate(name: string, text: string): Promise<Json>;
  /** Draws the running circuit, with composites opened to this depth. @throws Fault NOT_FOUND */
  graph(
    name: string,
    format: string,
    depth: number,
  ): { readonly type: string; readonly text: string };
  /** Undefined where there is none. @throws Fault NOT_FOUND when there is no such policy */
  dynamicConfig(name: string): Json | undefined;
  /**
   * Replaces the whole configuration; undefined removes it. Returns warnings: keys that no component reads.
   * @throws Fault NOT_FOUND, INVALID_ARGUMENT
   */
  configure(name: string, config: Json | undefined, peer?: string): Promise<readonly string[]>;
  /** The last decisions of a kind as JSON texts, by key; "" means all kinds. */
  decisions(kind: string): Promise<Readonly<Record<string, string>>>;
}

/** An operation of a service. Requests and replies are JSON with the field names of the messages. */
export type JsonOperation<Operations> = (
  operations: Operations,
  request: Json,
  call: Call,
) => Json | Promise<Json>;
type Operation = JsonOperation<PolicyOperations>;

interface Row {
  readonly method: Route["method"];
  readonly path: string;
  readonly about: string;
  /** Name of the gRPC method, which several routes may share. */
  readonly rpc: string;
  readonly run: Operation;
}

const upsert: Operation = async (policies, request, { peer }) => {
  const name = policyNameOf(request, "policy_name");
  return { policy_hash: await policies.upsert(name, documentOf(request), peer) };
};

/** Reply header with warnings, for callers over gRPC, whose reply is an Empty. */
const WARNING_HEADER = "x-sluice-warning";
/** Characters of a JSON text that a header cannot carry. */
const NOT_PRINTABLE = /[^ -~]/g;

const configure: Operation = async (policies, request, call) => {
  const name = policyNameOf(request, "policy_name");
  const warnings = await policies.configure(name, configOf(request), call.peer);
  if (warnings.length === 0) return {};
  call.reply(WARNING_HEADER, warnings.join("; ").replaceAll(NOT_PRINTABLE, "?"));
  return { warnings };
};

const ROWS: readonly Row[] = [
  {
    method: "GET",
    path: "/v1/policies",
    about:
      "All policies, each with its document, and its status compared with the running version.",
    rpc: "GetPolicies",
    run: (policies) => ({ policies: { policies: Object.fromEntries(policies.list()) } }),
  },
  {
    method: "GET",
    path: "/v1/policies/{name}",
    about:
      "One policy: its document, its status with the reason, and how many agents apply the running version.",
    rpc: "GetPolicy",
    run: (policies, request) => ({ ...policies.get(textField(request, "name")) }),
  },
  {
    method: "POST",
    path: "/v1/policies/{name}",
    about: "Creates or replaces a policy. Body: UpsertPolicyRequest",
    rpc: "UpsertPolicy",
    run: upsert,
  },
  {
    method: "PATCH",
    path: "/v1/policies/{name}",
    about: "The same as POST.",
    rpc: "UpsertPolicy",
    run: upsert,
  },
  {
    method: "DELETE",
    path: "/v1/policies/{name}",
    about:
      "Removes a policy that was created over the API, and its dynamic configuration. The reply is `{}` also where there is none.",
    rpc: "DeletePolicy",
    async run(policies, request, { peer }) {
      await policies.remove(policyNameOf(request, "name"), peer);
      return {};
    },
  },
  {
    method: "GET",
    path: "/v1/dynamic-configs/{name}",
    about: "Dynamic configuration of a policy; null where there is none.",
    rpc: "GetDynamicConfig",
    run: (policies, request) => ({
      dynamic_config: policies.dynamicConfig(policyNameOf(request, "policy_name")) ?? null,
    }),
  },
  {
    method: "POST",
    path: "/v1/dynamic-configs/{name}",
    about:
      "Replaces the dynamic configuration. The reply warns of keys that no component reads. Body: PostDynamicConfigRequest",
    rpc: "PostDynamicConfig",
    run: configure,
  },
  {
    method: "DELETE",
    path: "/v1/dynamic-configs/{name}",
    about: "Removes the dynamic configuration, so that the values in the policy apply.",
    rpc: "DeleteDynamicConfig",
    async run(policies, request, { peer }) {
      await policies.configure(policyNameOf(request, "policy_name"), undefined, peer);
      return {};
    },
  },
  {
    method: "GET",
    path: "/v1/decisions",
    about: "The last decisions of every kind, by key.",
    rpc: "GetDecisions",
    run: decisions,
  },
  {
    method: "GET",
    path: "/v1/decisions/",
    about: "The same.",
    rpc: "GetDecisions",
    run: decisions,
  },
  {
    method: "GET",
    path: "/v1/decisions/{decision_type}",
    about: "The last decisions of one kind of component.",
    rpc: "GetDecisions",
    run: decisions,
  },
];

/** The operations by gRPC method, which other services share. */
export const POLICY_RPCS: ReadonlyMap<string, Operation> = new Map(
  ROWS.map(({ rpc, run }) => [rpc, run]),
);

async function decisions(policies: PolicyOperations, request: Json): Promise<Json> {
  return { decisions: await policies.decisions(textField(request, "decision_type")) };
}

/** The JSON routes. Those without a gRPC method come last. */
export function policyRoutes(policies: PolicyOperations): readonly Route[] {
  const messages = new ServiceMessages(POLICY_SERVICE);
  const routes = ROWS.map(({ method, path, about, rpc, run }): Route => {
    const handle: HttpHandler = async ({ body, params }, call) => {
      const request = requestOf(body, params);
      // Without a body, all fields come from the path, which has no empty segments.
      if (body.length > 0) await messages.validate(rpc, request);
      return jsonReply(JSON.stringify(await run(policies, request, call)));
    };
    const costly = method === "GET";
    return { method, path, about, handle, access: "administration", costly, ...bodyOf(method) };
  });
  return [...routes, ...ownRoutes(policies)];
}

function bodyOf(method: Route["method"]): Pick<Route, "body" | "maxBody"> {
  return method === "GET" || method === "DELETE" ? {} : { body: "json", maxBody: MAX_BYTES };
}

/** The same bound as for a file of policies. */
const MAX_BYTES = 4 * 1024 * 1024;

function ownRoutes(policies: PolicyOperations): readonly Route[] {
  return [
    {
      method: "POST",
      path: "/v1/policies/{name}/validate",
      about:
        "Validates a policy without storing it. The reply lists every fault with its position. Body: UpsertPolicyRequest",
      access: "administration",
      body: "json",
      maxBody: MAX_BYTES,
      async handle({ body, params }) {
        const request = requestOf(body, params);
        const name = policyNameOf(request, "policy_name");
        return jsonReply(JSON.stringify(await policies.validate(name, documentOf(request))));
      },
    },
    {
      method: "GET",
      path: "/v1/policies/{name}/graph",
      about:
        "Draws the running circuit. `?format=` mermaid, dot or json; `?depth=` number of composite levels to open, or all.",
      access: "administration",
      costly: true,
      handle({ params, query }) {
        const depth = depthOf(query.get("depth") ?? "0");
        const format = query.get("format") ?? "mermaid";
        const { type, text } = policies.graph(params["name"] ?? "", format, depth);
        return { status: 200, headers: { "content-type": type }, body: text };
      },
    },
  ];
}

/** The gRPC service. Its descriptors are large and are loaded by the first call. */
export function policyGrpcService(policies: PolicyOperations): GrpcService {
  return administrationService(POLICY_SERVICE, rpcMethods(POLICY_SERVICE, POLICY_RPCS, policies));
}

/** The methods of a service whose operations take and give JSON, by name. */
export function rpcMethods<Operations>(
  service: string,
  rpcs: ReadonlyMap<string, JsonOperation<Operations>>,
  operations: Operations,
): Readonly<Record<string, UnaryHandler>> {
  const messages = new ServiceMessages(service);
  const methods = [...rpcs].map(([rpc, run]): [string, UnaryHandler] => [
    rpc,
    async (message, call) => {
      const request = await messages.decode(rpc, message);
      return messages.encode(rpc, await run(operations, request, call));
    },
  ]);
  return Object.fromEntries(methods);
}
