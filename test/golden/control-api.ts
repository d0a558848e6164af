// Replays recorded exchanges with the controller's API, over HTTP and gRPC, and reports differences. Recordings have
// names in the place of hashes and time stamps: equal names mean equal values. Texts of errors are not compared.

import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fromBinary, fromJson, type JsonValue, toBinary, toJson } from "@bufbuild/protobuf";
import { loadRegistry } from "#wire/protobuf/descriptors.ts";

interface Reply {
  readonly status?: number;
  readonly json?: unknown;
  readonly message?: unknown;
  readonly error?: { readonly code: number };
}

interface Step {
  readonly request?: {
    readonly method?: string;
    readonly path?: string;
    readonly body?: unknown;
    readonly grpc?: string;
    readonly message?: unknown;
  };
  readonly response?: Reply;
}

/** Calls a gRPC method with JSON and returns its reply or its status. */
export type CallGrpc = (
  method: string,
  message: unknown,
) => Promise<{ readonly message: unknown } | { readonly error: { readonly code: number } }>;

const SERVICE = "aperture.policy.language.v1.PolicyService";

interface Unary {
  readonly code: number;
  readonly message: Uint8Array | undefined;
}

/** Calls methods of the policy service with JSON over any function that sends bytes. */
export async function caller(
  unary: (path: string, message: Uint8Array) => Promise<Unary>,
): Promise<CallGrpc> {
  const service = (await loadRegistry([SERVICE])).getService(SERVICE);
  return async (method, message) => {
    const name = method.slice(method.lastIndexOf("/") + 1);
    const found = service?.methods.find((each) => each.name === name);
    if (found === undefined) throw new Error(`${method}: no such method`);
    const bytes = toBinary(found.input, fromJson(found.input, message as JsonValue));
    const reply = await unary(`/${method}`, bytes);
    if (reply.code !== 0) return { error: { code: reply.code } };
    const got = fromBinary(found.output, reply.message ?? new Uint8Array());
    return { message: toJson(found.output, got, { alwaysEmitImplicit: true }) };
  };
}

/** Recordings that are not replayed, each with the part that it needs and Sluice lacks. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  crashes: "what stops the recorded process; each is a case of the language or of decisions here",
  "etcd-writes": "etcd",
  "grpc-cmd-controller": "the service of the command line",
  "grpc-cmd-controller-with-agent": "the service of the command line",
  "policy-cr-owned": "policies as Kubernetes objects",
  "policy-legacy-binary": "etcd: it is written into the store directly",
  "policy-statuses": "etcd: it is written into the store directly",
  "status-and-info": "another status tree",
};

export interface Difference {
  readonly file: string;
  readonly step: number;
  readonly text: string;
}

export interface Replayed {
  readonly steps: number;
  readonly differences: readonly Difference[];
}

/** Replays all recordings against `host:port`, except steps that only read the recorded system's store. */
export async function replayControlApi(
  folder: string,
  address: string,
  callGrpc: CallGrpc,
): Promise<Replayed> {
  const differences: Difference[] = [];
  let steps = 0;
  for (const name of readdirSync(folder).sort()) {
    if (!name.endsWith(".json")) continue;
    const file = basename(name, ".json");
    if (file in LEFT_OUT) continue;
    const recorded = JSON.parse(readFileSync(join(folder, name), "utf8")) as {
      readonly steps?: readonly Step[];
    };
    const names = new Map<string, string>();
    for (const [step, { request, response }] of (recorded.steps ?? []).entries()) {
      if (request === undefined || response === undefined) continue;
      steps++;
      const text = await settled(request, response, { address, callGrpc, names });
      if (text !== undefined) differences.push({ file, step, text });
    }
  }
  return { steps, differences };
}

interface World {
  readonly address: string;
  readonly callGrpc: CallGrpc;
  /** The values that stand for the recorded names of hashes and times. */
  readonly names: Map<string, string>;
}

/** A change takes effect at the next tick, so decisions are requested again until then. */
const SETTLE_MS = 2_500;

async function settled(
  request: NonNullable<Step["request"]>,
  wanted: Reply,
  world: World,
): Promise<string | undefined> {
  const ends = Date.now() + SETTLE_MS;
  for (;;) {
    const text = await differs(request, wanted, world);
    const reads = request.path?.startsWith("/v1/decisions/") === true;
    if (text === undefined || !reads || Date.now() > ends) return text;
    await sleep(100);
  }
}

async function differs(
  request: NonNullable<Step["request"]>,
  wanted: Reply,
  { address, callGrpc, names }: World,
): Promise<string | undefined> {
  if (request.grpc !== undefined) {
    const got = await callGrpc(request.grpc, request.message ?? {});
    const what = `gRPC ${request.grpc}`;
    if ("error" in got || wanted.error !== undefined) {
      const [a, b] = ["error" in got ? got.error.code : 0, wanted.error?.code ?? 0];
      return a === b ? undefined : `${what}: wanted status ${b}, got ${a}`;
    }
    return compare(wanted.message, got.message, what, names);
  }
  const { method = "GET", path = "/", body } = request;
  const reply = await fetch(`http://${address}${path}`, {
    method,
    ...(body === undefined
      ? {}
      : {
          headers: { "content-type": "application/json" },
          body: typeof body === "string" ? body : JSON.stringify(body),
        }),
  });
  const text = await reply.text();
  const what = `${method} ${path}`;
  if (reply.status !== wanted.status) {
    return `${what}: wanted HTTP ${wanted.status}, got ${reply.status} ${text.slice(0, 300)}`;
  }
  if (reply.status !== 200) return undefined;
  return compare(wanted.json, JSON.parse(text) as unknown, what, names);
}

const NAMED = /<(?:hash-\d+|timestamp)>/g;

/** Members of replies that the recorded system does not have. */
const OWN_MEMBERS: ReadonlySet<string> = new Set(["rollout", "details"]);

function compare(
  wanted: unknown,
  got: unknown,
  at: string,
  names: Map<string, string>,
): string | undefined {
  if (typeof wanted === "string" && typeof got === "string") {
    return sameText(wanted, got, names)
      ? undefined
      : `${at}: wanted ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`;
  }
  if (isObject(wanted) && isObject(got)) {
    for (const key of new Set([...Object.keys(wanted), ...Object.keys(got)])) {
      if (OWN_MEMBERS.has(key) && !(key in wanted)) continue;
      const found = compare(wanted[key], got[key], `${at} ${key}`, names);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  // The tool that printed the recorded gRPC replies prints unset messages as null.
  if (at.startsWith("gRPC ") && wanted === null && got === undefined) return undefined;
  if (Object.is(wanted, got)) return undefined;
  return `${at}: wanted ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** Strings that contain JSON are compared as JSON: their spacing does not matter. */
function sameText(wanted: string, got: string, names: Map<string, string>): boolean {
  const [a, b] = [parsed(wanted), parsed(got)];
  if (a !== undefined && b !== undefined) return compare(a, b, "", names) === undefined;
  const name = wanted.match(NAMED)?.[0];
  if (name === undefined || name !== wanted) return wanted === got;
  if (name === "<timestamp>") return !Number.isNaN(Date.parse(got));
  const known = names.get(name);
  names.set(name, known ?? got);
  return known === undefined || known === got;
}

function parsed(text: string): unknown {
  if (!text.startsWith("{")) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Steps that Sluice answers differently on purpose: file and step, with the reason. */
const UNKNOWN_KIND = "an unknown kind of decision is refused by name (D-20)";
const EARLY = "a load scheduler decides after ten seconds, for which this test does not wait";
const OBJECT = "the object form gets its defaults as the text does (D-11)";
const BOTH = "answered with and without the slash";
const SLASH = "a name with a slash is refused for what it is (D-23)";
const METHOD = "a method that is not mapped is 405";
const UNREAD_KEY = "the reply warns of keys that no component reads";
export const OURS: Readonly<Record<string, string>> = {
  "decisions 1": EARLY,
  "decisions 6": UNKNOWN_KIND,
  "decisions 7": EARLY,
  "decisions 8": BOTH,
  "decisions 9": EARLY,
  "dynamic-config 2": UNREAD_KEY,
  "dynamic-config 6": UNREAD_KEY,
  "dynamic-config 9": "a request that lacks what it must have is 400",
  "dynamic-config 18": "the policy's own value is back when the configuration is taken away (D-7)",
  "grpc-policy-service 7": "a request that lacks what it must have is INVALID_ARGUMENT",
  "policies-empty 11": UNKNOWN_KIND,
  "policies-empty 13": BOTH,
  "policy-mutated-get 2": "the document is given back as it came",
  "policy-object-form 1": OBJECT,
  "policy-object-form 3": OBJECT,
  "policy-object-form 5": OBJECT,
  "policy-upsert-errors 8": METHOD,
  "policy-upsert-errors 10": METHOD,
  "policy-upsert-errors 11": "no such path",
  "policy-upsert-errors 12": SLASH,
  "policy-upsert-errors 15": SLASH,
};
