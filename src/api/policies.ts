// The policy service of a controller: one table of operations that gRPC and the JSON routes share. Requests
// and replies are JSON with the messages' own names in between.

import type { DescMessage } from "@bufbuild/protobuf";
import { Fault } from "#base/fault.ts";
import type { Call, HttpHandler, Route, Service, UnaryHandler } from "#serve/handler.ts";
import { parseJson } from "#wire/json.ts";
import { ProtoReader } from "#wire/proto-reader.ts";
import { jsonReply } from "./json-door.ts";

const POLICY_SERVICE = "aperture.policy.language.v1.PolicyService";

type Json = Readonly<Record<string, unknown>>;

/** How a stored policy stands to what runs. */
export type PolicyStanding = "VALID" | "INVALID" | "NOT_LOADED" | "STALE" | "OUTDATED";

export interface PolicyView {
  /** The document as it was given, all fields named; null where it cannot be read. */
  readonly policy: Json | null;
  readonly status: PolicyStanding;
  readonly reason: string;
}

/** What a controller does for its callers. Throws Fault. */
export interface PolicyDesk {
  list(): ReadonlyMap<string, PolicyView>;
  /** @throws Fault NOT_FOUND */
  get(name: string): PolicyView;
  /** Takes a document over; gives its hash. `peer` is who asks. @throws Fault INVALID_ARGUMENT, ALREADY_EXISTS */
  upsert(name: string, text: string, peer?: string): Promise<string>;
  /** Nothing happens when there is none. */
  remove(name: string, peer?: string): Promise<void>;
  /** What would come of a document; nothing changes. */
  validate(name: string, text: string): Promise<Json>;
  /** The running circuit, drawn. `depth` is how many levels of composites are opened. @throws Fault NOT_FOUND */
  graph(
    name: string,
    format: string,
    depth: number,
  ): { readonly type: string; readonly text: string };
  /** Undefined where there is none. @throws Fault NOT_FOUND when there is no such policy */
  dynamicConfig(name: string): Json | undefined;
  /** Replaces the whole; undefined takes it away. @throws Fault NOT_FOUND, INVALID_ARGUMENT */
  configure(name: string, config: Json | undefined, peer?: string): Promise<void>;
  /** JSON texts of decisions by key; "" asks for all kinds. */
  decisions(kind: string): Promise<Readonly<Record<string, string>>>;
}

type Operation = (desk: PolicyDesk, request: Json, call: Call) => Json | Promise<Json>;

interface Row {
  readonly method: Route["method"];
  readonly path: string;
  readonly about: string;
  /** Name of the gRPC method; several routes may share one. */
  readonly rpc: string;
  readonly run: Operation;
}

const upsert: Operation = async (desk, request, { peer }) => {
  const name = named(request, "policy_name");
  return { policy_hash: await desk.upsert(name, documentOf(request), peer) };
};

/** The document of an UpsertPolicyRequest: text, or the older form as an object. */
function documentOf(request: Json): string {
  const text = textOf(request, "policy_string");
  const object = request["policy"] ?? undefined;
  if (object === undefined) {
    if (text.trim() !== "") return text;
    throw wanted("policy_string", "a policy as YAML or JSON", "nothing");
  }
  if (!isObject(object)) throw wanted("policy", "an object", kindOf(object));
  if (text !== "") throw wanted("policy", "nothing beside policy_string", "both");
  return JSON.stringify(object);
}

const configure: Operation = async (desk, request, { peer }) => {
  const name = named(request, "policy_name");
  const config = request["dynamic_config"];
  if (!isObject(config)) throw wanted("dynamic_config", "an object", kindOf(config));
  await desk.configure(name, config, peer);
  return {};
};

const ROWS: readonly Row[] = [
  {
    method: "GET",
    path: "/v1/policies",
    about: "All policies, each with its document and how it stands to what runs.",
    rpc: "GetPolicies",
    run: (desk) => ({ policies: { policies: Object.fromEntries(desk.list()) } }),
  },
  {
    method: "GET",
    path: "/v1/policies/{name}",
    about: "One policy: document, status and why.",
    rpc: "GetPolicy",
    run: (desk, request) => ({ ...desk.get(textOf(request, "name")) }),
  },
  {
    method: "POST",
    path: "/v1/policies/{name}",
    about: "Takes a policy over, or another version of it. Body: UpsertPolicyRequest",
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
    about: "Removes a policy that came over the API, and its dynamic configuration.",
    rpc: "DeletePolicy",
    async run(desk, request, { peer }) {
      await desk.remove(named(request, "name"), peer);
      return {};
    },
  },
  {
    method: "GET",
    path: "/v1/dynamic-configs/{name}",
    about: "Dynamic configuration of a policy; null where there is none.",
    rpc: "GetDynamicConfig",
    run: (desk, request) => ({
      dynamic_config: desk.dynamicConfig(named(request, "policy_name")) ?? null,
    }),
  },
  {
    method: "POST",
    path: "/v1/dynamic-configs/{name}",
    about: "Replaces the dynamic configuration. Body: PostDynamicConfigRequest",
    rpc: "PostDynamicConfig",
    run: configure,
  },
  {
    method: "DELETE",
    path: "/v1/dynamic-configs/{name}",
    about: "Takes the dynamic configuration away: the policy's own values are in force.",
    rpc: "DeleteDynamicConfig",
    async run(desk, request, { peer }) {
      await desk.configure(named(request, "policy_name"), undefined, peer);
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
    about: "The last decisions of one kind, such as `rate_limiter`.",
    rpc: "GetDecisions",
    run: decisions,
  },
];

async function decisions(desk: PolicyDesk, request: Json): Promise<Json> {
  return { decisions: await desk.decisions(textOf(request, "decision_type")) };
}

/** The JSON routes; those that have no gRPC method stand at the end. */
export function policyRoutes(desk: PolicyDesk): readonly Route[] {
  const routes = ROWS.map(({ method, path, about, run }): Route => {
    const handle: HttpHandler = async ({ body, params }, call) => {
      const request = { ...envelope(body), ...fieldsOf(params) };
      return jsonReply(JSON.stringify(await run(desk, request, call)));
    };
    const costly = method === "GET";
    return { method, path, about, handle, revealing: true, costly, ...bodyOf(method) };
  });
  return [...routes, ...ownRoutes(desk)];
}

/** What a path says wins over the body. Requests name the policy in one of two ways. */
function fieldsOf({ name, ...others }: Readonly<Record<string, string>>): Json {
  return name === undefined ? others : { name, policy_name: name, ...others };
}

function bodyOf(method: Route["method"]): Pick<Route, "body" | "maxBody"> {
  return method === "GET" || method === "DELETE" ? {} : { body: "json", maxBody: MOST_BYTES };
}

/** As much as a file of policies may hold. */
const MOST_BYTES = 4 * 1024 * 1024;

function ownRoutes(desk: PolicyDesk): readonly Route[] {
  return [
    {
      method: "POST",
      path: "/v1/policies/{name}/validate",
      about: "What would come of a policy, every fault with its place. Body: UpsertPolicyRequest",
      revealing: true,
      body: "json",
      maxBody: MOST_BYTES,
      async handle({ body, params }) {
        const request = { ...envelope(body), ...fieldsOf(params) };
        const name = named(request, "policy_name");
        return jsonReply(JSON.stringify(await desk.validate(name, documentOf(request))));
      },
    },
    {
      method: "GET",
      path: "/v1/policies/{name}/graph",
      about:
        "The running circuit, drawn: `?format=` mermaid, dot or json; `?depth=` so many levels opened, or all.",
      revealing: true,
      costly: true,
      handle({ params, query }) {
        const depth = depthOf(query.get("depth") ?? "0");
        const format = query.get("format") ?? "mermaid";
        const { type, text } = desk.graph(params["name"] ?? "", format, depth);
        return { status: 200, headers: { "content-type": type }, body: text };
      },
    },
  ];
}

function depthOf(text: string): number {
  if (text === "all") return Number.POSITIVE_INFINITY;
  if (/^\d{1,3}$/.test(text)) return Number(text);
  throw wanted("depth", "a whole number, or `all`", JSON.stringify(text));
}

/** The gRPC service. Its descriptors are large and come with the first call. */
export function policyService(desk: PolicyDesk): Service {
  const methods = ROWS.map(({ rpc, run }) => {
    const handle: UnaryHandler = async (message, call) => {
      const described = await describe(rpc);
      return described.reply(await run(desk, described.request(message), call));
    };
    return [rpc, { kind: "unary", handle }] as const;
  });
  return { name: POLICY_SERVICE, methods: Object.fromEntries(methods), healthNames: [] };
}

interface Described {
  /** Fields that are not set are absent, so that a document gets its defaults. */
  request(message: Uint8Array): Json;
  reply(json: Json): Uint8Array;
}

async function describe(rpc: string): Promise<Described> {
  const [{ fromBinary, toJson }, { loadRegistry }, { jsonToBinary }] = await Promise.all([
    import("@bufbuild/protobuf"),
    import("#wire/descriptors.ts"),
    import("#wire/protojson.ts"),
  ]);
  const service = (await loadRegistry([POLICY_SERVICE])).getService(POLICY_SERVICE);
  const method = service?.methods.find(({ name }) => name === rpc);
  if (method === undefined) throw new Error(`${POLICY_SERVICE}/${rpc} has no description`);
  return {
    request: (message) => {
      const read = decoded(method.input, message, fromBinary);
      return toJson(method.input, read, { useProtoFieldName: true }) as Json;
    },
    reply: (json) => jsonToBinary(method.output, JSON.stringify(json)),
  };
}

function decoded(
  input: DescMessage,
  message: Uint8Array,
  fromBinary: typeof import("@bufbuild/protobuf").fromBinary,
) {
  boundStructs(input, message);
  try {
    return fromBinary(input, message);
  } catch (cause) {
    throw new Fault("INVALID_ARGUMENT", `want a serialized ${input.typeName}, got other bytes`, {
      cause,
    });
  }
}

const STRUCT = "google.protobuf.Struct";
/** Values of a policy's components take some hundred bytes; the library reads a Struct at 1 µs a byte. */
const MOST_CONFIG = 256 * 1024;

/**
 * The library merges the parts of a Struct at the price of all parts before, each time: a message of a
 * hundred thousand would keep the process busy for hours. No writer sends more than one.
 */
function boundStructs(input: DescMessage, message: Uint8Array): void {
  const structs = input.fields.filter(({ message: type }) => type?.typeName === STRUCT);
  if (structs.length > 0 && message.length > MOST_CONFIG) {
    throw new Fault("RESOURCE_EXHAUSTED", `more than ${MOST_CONFIG} bytes of configuration`);
  }
  const reader = new ProtoReader(message);
  const seen = new Set<number>();
  while (structs.length > 0 && reader.at < reader.end) {
    const number = reader.tag(reader.end);
    const field = structs.find((each) => each.number === number);
    if (field !== undefined && seen.has(number)) throw wanted(field.name, "one part", "more");
    if (field !== undefined) seen.add(number);
    reader.skip(number, reader.end);
  }
}

const SPELLINGS: Readonly<Record<string, string>> = {
  policyName: "policy_name",
  policyString: "policy_string",
  dynamicConfig: "dynamic_config",
};

/** The request around a document: either spelling, unknown members ignored. What is inside is judged later. */
function envelope(body: Uint8Array): Json {
  const value = parseJson(body)?.value;
  if (value === undefined) return {};
  if (!isObject(value)) throw new Fault("INVALID_ARGUMENT", "the body must be a JSON object");
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [spelled(key), member] as const),
  );
}

function spelled(key: string): string {
  return (Object.hasOwn(SPELLINGS, key) ? SPELLINGS[key] : undefined) ?? key;
}

function textOf(request: Json, key: string): string {
  const value = request[key] ?? "";
  if (typeof value !== "string") throw wanted(key, "text", kindOf(value));
  return value;
}

/** The name of a policy, which is part of keys in the store. */
function named(request: Json, key: string): string {
  const name = textOf(request, key);
  if (name === "") throw wanted(key, "a name", "nothing");
  if (name.includes("/")) throw wanted(key, "a name without `/`", "one with it");
  return name;
}

function wanted(key: string, what: string, got: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${key}: wanted ${what}, got ${got}`);
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  return Array.isArray(value) ? "a list" : `a ${typeof value}`;
}
