// Replays recorded exchanges with the controller's API, over HTTP and gRPC, and reports differences. Recordings have
// names in the place of hashes and time stamps: equal names mean equal values. Texts of errors are not compared.

import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { fromBinary, fromJson, type JsonValue, toBinary, toJson } from "@bufbuild/protobuf";
import { registry } from "#wire/protobuf/descriptors.ts";
import { AS_RESOURCES, LEFT_OUT, OURS, OVER_ETCD } from "./control-differences.ts";

interface Reply {
  readonly status?: number;
  readonly json?: unknown;
  readonly message?: unknown;
  readonly error?: { readonly code: number };
}

export interface Step {
  /** A value that is written into the store directly, or removed. */
  readonly etcd?: "put" | "del";
  readonly key?: string;
  readonly value?: string;
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

interface Unary {
  readonly code: number;
  readonly message: Uint8Array | undefined;
}

/** Calls methods of the recorded services with JSON over any function that sends bytes. */
export async function caller(
  unary: (path: string, message: Uint8Array) => Promise<Unary>,
): Promise<CallGrpc> {
  return async (method, message) => {
    const [service = "", name] = method.split("/");
    const found = registry.getService(service)?.methods.find((each) => each.name === name);
    if (found === undefined) throw new Error(`${method}: no such method`);
    const bytes = toBinary(found.input, fromJson(found.input, message as JsonValue));
    const reply = await unary(`/${method}`, bytes);
    if (reply.code !== 0) return { error: { code: reply.code } };
    const got = fromBinary(found.output, reply.message ?? new Uint8Array());
    return { message: toJson(found.output, got, { alwaysEmitImplicit: true, registry }) };
  };
}

export interface Difference {
  readonly file: string;
  readonly step: number;
  readonly text: string;
}

export interface Replayed {
  readonly steps: number;
  readonly differences: readonly Difference[];
}

/** Replays the recordings for which one process is enough against `host:port`. */
export async function replayControlApi(
  folder: string,
  address: string,
  callGrpc: CallGrpc,
): Promise<Replayed> {
  const differences: Difference[] = [];
  let steps = 0;
  for (const name of readdirSync(folder).sort()) {
    const file = basename(name, ".json");
    if (!name.endsWith(".json") || file in LEFT_OUT) continue;
    if (OVER_ETCD.has(file) || AS_RESOURCES.has(file)) continue;
    const replayed = await replayFile(folder, file, { address, callGrpc, names: new Map() });
    steps += replayed.steps;
    differences.push(...replayed.differences);
  }
  return { steps, differences };
}

/** Differences that are not expected, and expected ones that are not there, of these files. */
export function unexpected(
  { differences }: Replayed,
  isReplayed: (file: string) => boolean,
): readonly (readonly [where: string, text: string])[] {
  const found = new Map(differences.map(({ file, step, text }) => [`${file} ${step}`, text]));
  const missing = Object.keys(OURS).filter(
    (where) => isReplayed(where.split(" ")[0] ?? "") && !found.has(where),
  );
  return [
    ...[...found].filter(([where]) => !(where in OURS)),
    ...missing.map((where) => [where, "passes: remove it from OURS"] as const),
  ];
}

/** Replays the steps of one recording in order. */
export async function replayFile(folder: string, file: string, world: World): Promise<Replayed> {
  const differences: Difference[] = [];
  let steps = 0;
  const recorded = readRecording<{ readonly steps?: readonly Step[] }>(folder, file);
  for (const [step, each] of (recorded.steps ?? []).entries()) {
    const { etcd, request, response } = each;
    if (etcd !== undefined) await world.write?.(each, recorded.steps?.slice(step + 1) ?? []);
    if (request === undefined || response === undefined) continue;
    steps++;
    const patient = isRead(request) && !(`${file} ${step}` in OURS);
    const text = await settled(request, response, world, patient);
    if (text !== undefined) differences.push({ file, step, text });
  }
  return { steps, differences };
}

export function readRecording<T>(folder: string, file: string): T {
  return JSON.parse(readFileSync(join(folder, `${file}.json`), "utf8")) as T;
}

export interface World {
  readonly address: string;
  readonly callGrpc: CallGrpc;
  /** The values that stand for the recorded names of hashes and times. */
  readonly names: Map<string, string>;
  /** Writes into the store what a step says. The steps after it say what a value that is only described is. */
  readonly write?: (step: Step, later: readonly Step[]) => Promise<void>;
}

/** A change takes effect at the next tick, or when the store's watch delivers it; until then, reads are repeated. */
const SETTLE_MS = 5_000;

async function settled(
  request: NonNullable<Step["request"]>,
  wanted: Reply,
  world: World,
  patient: boolean,
): Promise<string | undefined> {
  const ends = Date.now() + SETTLE_MS;
  for (;;) {
    const text = await differs(request, wanted, world);
    if (text === undefined || !patient || Date.now() > ends) return text;
    await sleep(100);
  }
}

/** True if asking again does no harm. */
function isRead({ method = "GET", grpc }: NonNullable<Step["request"]>): boolean {
  return grpc === undefined ? method === "GET" : /\/(?:Get|List)/.test(grpc);
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

const NAMED = /<(?:hash-\d+|timestamp|hostname|uuid|ip|volatile)>/g;

/** Members of replies that the recorded system does not have. */
const OWN_MEMBERS: ReadonlySet<string> = new Set(["rollout", "details"]);

export function compare(
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
      if (key === "reason" && bothSaySomething(wanted[key], got[key])) continue;
      const found = compare(wanted[key], got[key], `${at} ${key}`, names);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  // The tool that printed the recorded gRPC replies prints unset messages as null.
  if (at.startsWith("gRPC ") && wanted === null && got === undefined) return undefined;
  if (Object.is(wanted, got)) return undefined;
  return `${at}: wanted ${inspect(wanted)}, got ${inspect(got)}`;
}

/** The wording of reasons is free. */
function bothSaySomething(wanted: unknown, got: unknown): boolean {
  return typeof wanted === "string" && typeof got === "string" && wanted !== "" && got !== "";
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
  if (/uuid|ip|volatile/.test(name)) return got !== "";
  const known = names.get(name);
  if (known !== undefined) return known === got;
  // Different names mean different values.
  if ([...names.values()].includes(got)) return false;
  names.set(name, got);
  return true;
}

function parsed(text: string): unknown {
  if (!text.startsWith("{")) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
