// Replays recorded exchanges with the controller's API, over HTTP and gRPC, and says what differs. Hashes and
// time stamps stand for themselves: equal names for equal values. The wording of errors is free.

import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

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

/** Calls a gRPC method with JSON, and gives its reply or its status. */
export type CallGrpc = (
  method: string,
  message: unknown,
) => Promise<{ readonly message: unknown } | { readonly error: { readonly code: number } }>;

export interface Difference {
  readonly file: string;
  readonly step: number;
  readonly text: string;
}

export interface Replayed {
  readonly steps: number;
  readonly differences: readonly Difference[];
}

/** `address` is `host:port`. Steps that only looked into the recorded system's store are left out. */
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
    const recorded = JSON.parse(readFileSync(join(folder, name), "utf8")) as {
      readonly steps: readonly Step[];
    };
    const names = new Map<string, string>();
    for (const [step, { request, response }] of recorded.steps.entries()) {
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
  /** What the recorded names of hashes stand for here. */
  readonly names: Map<string, string>;
}

/** What was asked for is in force at the next tick: decisions are asked for again until then. */
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

const STATUS = /^denied_?[rR]esponse_?[sS]tatus_?[cC]ode$/;

const NAMED = /<(?:hash-\d+|timestamp)>/g;

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
      // The status of a refusal that nobody chose is filled in here, and was not there (D-31).
      if (STATUS.test(key) && wanted[key] === "Empty") continue;
      const found = compare(wanted[key], got[key], `${at} ${key}`, names);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  // The tool that printed the recorded gRPC replies writes unset messages as null.
  if (at.startsWith("gRPC ") && wanted === null && got === undefined) return undefined;
  if (Object.is(wanted, got)) return undefined;
  return `${at}: wanted ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** Texts that hold JSON are compared as JSON: their spacing is not meant. */
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
