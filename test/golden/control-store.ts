// Replays recordings of a controller of its own: what it leaves in a real etcd, what it reads there, and how it and an
// agent talk through it. The store is compared as a state, and by which keys were written: a recorded order within a burst
// means nothing.

import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { CODES, Fault } from "#base/fault.ts";
import { GrpcClient } from "#client/grpc.ts";
import { sha256 } from "#controller/digest.ts";
import { compactPolicy } from "#policy/message.ts";
import { compileSet } from "#policy/set.ts";
import type { EtcdStore } from "#store/etcd.ts";
import { COMPLETE, POLICIES, requestKey, responseKey } from "#sync/keys.ts";
import type { MessageName } from "#wire/protobuf/message-types.ts";
import { decode, encodeJson } from "#wire/protobuf/messages.ts";
import type { Ending } from "../kit/ending.ts";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../kit/etcd/store.ts";
import { folderOf } from "../kit/folder.ts";
import { leads, listening, startSluice } from "../kit/servers/sluice.ts";
import { until } from "../kit/until.ts";
import {
  type CallGrpc,
  caller,
  compare,
  type Difference,
  type Replayed,
  readRecording,
  replayFile,
  type Step,
  type World,
} from "./control-api.ts";

/** Recordings of a controller without agents. */
const ALONE = ["policy-statuses", "policy-legacy-binary", "grpc-cmd-controller", "status-and-info"];

const WITH_AGENT = "grpc-cmd-controller-with-agent";

/** Starts an etcd and a controller, later an agent, and replays everything that `OVER_ETCD` names. */
export async function replayOverEtcd(ending: Ending, folder: string): Promise<Replayed> {
  const { endpoints } = await startEtcd(ending);
  const store = openEtcd(ending, etcdSettings(endpoints));
  const controller = startSluice(
    ending,
    "controller",
    endpoints,
    ["--policies", folderOf(ending)],
    {
      // A machine that is busy for two seconds must not change who leads, and so the answers.
      ETCD_LEASE_TTL: "60s",
    },
  );
  await listening(controller);
  await leads(controller);
  const address = controller.address();
  const callGrpc = await grpcCaller(ending, address);
  const world = (): World => ({
    address,
    callGrpc,
    names: new Map(),
    write: (step, later) => writeStep(store, step, later),
  });
  const replayed: Replayed[] = [];
  const replay = async (file: string, run: () => Promise<Replayed>) => {
    if (existsSync(join(folder, `${file}.json`))) replayed.push(await run());
  };
  for (const file of ALONE) await replay(file, () => replayFile(folder, file, world()));
  await replay("etcd-writes", () => replayWrites(folder, store, world()));
  const agent = startSluice(ending, "agent", endpoints);
  await listening(agent);
  await until("the controller knows the agent", async () => {
    const got = await callGrpc("aperture.cmd.v1.Controller/ListAgents", {});
    return "message" in got;
  });
  const own = { ...world(), names: new Map([["<hostname>", hostname()]]) };
  await replay(WITH_AGENT, () => replayFile(folder, WITH_AGENT, own));
  await replay(WITH_AGENT, () => replayCalls(folder, store));
  return {
    steps: replayed.reduce((sum, { steps }) => sum + steps, 0),
    differences: replayed.flatMap(({ differences }) => differences),
  };
}

/** Calls methods of a process at `host:port`. */
export async function grpcCaller(ending: Ending, address: string): Promise<CallGrpc> {
  const client = new GrpcClient({ address });
  ending.after(() => client.close());
  return caller(async (path, message) => {
    try {
      return { code: 0, message: await client.call(path, message, { timeoutMs: 20_000 }) };
    } catch (thrown) {
      return { code: CODES[Fault.from(thrown).code].number, message: undefined };
    }
  });
}

/** A value that is only described is that of the document which a later step sends over the API. */
async function writeStep(
  store: EtcdStore,
  { key = "", value = "" }: Step,
  later: readonly Step[],
): Promise<void> {
  await store.commit([{ kind: "put", key, value: storedValue(value, later) }]);
}

function storedValue(value: string, later: readonly Step[]): Uint8Array {
  if (value.startsWith("{")) return Buffer.from(value);
  const body = later.map(({ request }) => request?.body as { policy_string?: string } | undefined);
  const text = body.find((each) => each?.policy_string !== undefined)?.policy_string ?? "";
  const texts = [{ source: "recorded", defaultName: "recorded", text }];
  const [policy] = compileSet(texts, { digest: sha256, queries: "prometheus" }).policies;
  if (policy === undefined) throw new Error(`${value}: the document is refused`);
  return encodeJson("aperture.policy.language.v1.Policy", compactPolicy(policy.document));
}

interface Operation {
  readonly op: "put" | "delete";
  readonly key: string;
  readonly value?: unknown;
}

interface Writes {
  readonly steps: readonly {
    readonly request: { readonly method: string; readonly path: string; readonly body?: unknown };
    readonly operations: readonly Operation[];
  }[];
}

/** A step has time for the next tick and for its decisions. */
const STEP_MS = 10_000;

async function replayWrites(folder: string, store: EtcdStore, world: World): Promise<Replayed> {
  const differences: Difference[] = [];
  const { steps } = readRecording<Writes>(folder, "etcd-writes");
  const follower = follow(store);
  const wanted = new Map<string, unknown>();
  for (const [step, { request, operations }] of steps.entries()) {
    for (const { op, key, value } of operations) {
      if (op === "put") wanted.set(key, value);
      else wanted.delete(key);
    }
    follower.written.clear();
    const reply = await fetch(`http://${world.address}${request.path}`, {
      method: request.method,
      headers: { "content-type": "application/json" },
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
    });
    if (reply.status !== 200) throw new Error(`${request.path}: ${await reply.text()}`);
    if (request.path === "/v1/policies/life" && request.method === "DELETE")
      await until("the policy is gone", async () => (await ticksOf(world.address)) === undefined);
    else await ticked(world.address);
    const ends = Date.now() + STEP_MS;
    let text = statesDiffer(wanted, follower.state, world.names);
    while (text !== undefined && Date.now() < ends) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      text = statesDiffer(wanted, follower.state, world.names);
    }
    text ??= writesDiffer(operations, follower.written);
    if (text !== undefined) differences.push({ file: "etcd-writes", step, text });
  }
  await follower.stop();
  return { steps: steps.length, differences };
}

/** Waits until decisions were made by two more ticks of the policy. */
async function ticked(address: string): Promise<void> {
  let first: number | undefined;
  await until("the policy ticks", async () => {
    const now = await ticksOf(address);
    first ??= now;
    return now !== undefined && first !== undefined && now >= first + 2;
  });
}

async function ticksOf(address: string): Promise<number | undefined> {
  const reply = await fetch(`http://${address}/v1/status/system/policies/key/life`);
  const { status } = (await reply.json()) as {
    status: { message: { value: { tick: { number: number } | null } } } | null;
  };
  return status?.message.value.tick?.number;
}

interface Follower {
  readonly state: ReadonlyMap<string, Uint8Array>;
  /** The operations on each key since it was last cleared. */
  readonly written: Map<string, ("put" | "delete")[]>;
  stop(): Promise<void>;
}

/** Everything that a controller publishes for agents or keeps for itself, except keys that only Sluice has. */
function follow(store: EtcdStore): Follower {
  const state = new Map<string, Uint8Array>();
  const written: Follower["written"] = new Map();
  const stop = new AbortController();
  const note = (key: string, op: "put" | "delete") =>
    written.set(key, [...(written.get(key) ?? []), op]);
  const ended = (async () => {
    for await (const { puts, deletes } of store.watch(["/config/", "/decisions/"], stop.signal)) {
      for (const { key, value } of puts) {
        if (key === COMPLETE) continue;
        state.set(key, value);
        note(key, "put");
      }
      for (const key of deletes) {
        state.delete(key);
        note(key, "delete");
      }
    }
  })();
  return {
    state,
    written,
    stop: async () => {
      stop.abort();
      await ended;
    },
  };
}

function statesDiffer(
  wanted: ReadonlyMap<string, unknown>,
  state: Follower["state"],
  names: World["names"],
): string | undefined {
  for (const key of new Set([...wanted.keys(), ...state.keys()])) {
    const bytes = state.get(key);
    if (!wanted.has(key)) return `wanted no ${key}`;
    if (bytes === undefined) return `wanted ${key}, got none`;
    const found = valuesDiffer(key, wanted.get(key), bytes, names);
    if (found !== undefined) return found;
  }
  return undefined;
}

function valuesDiffer(
  key: string,
  wanted: unknown,
  bytes: Uint8Array,
  names: World["names"],
): string | undefined {
  const [, tree = "", kind = ""] = key.split("/");
  if (kind === "api" || kind === "dynamic-config-policies") {
    const got = JSON.parse(Buffer.from(bytes).toString()) as unknown;
    // The recording leaves the stored policy out.
    return typeof wanted === "string" ? undefined : compare(wanted, got, key, names);
  }
  const name = wrapperOf(tree, kind);
  const got = decode(name, bytes);
  if (!key.startsWith(POLICIES)) {
    return compare(decode(name, encodeJson(name, wanted)), got, key, names);
  }
  // The recording leaves the policy out.
  const { policy: _, ...rest } = wanted as Readonly<Record<string, unknown>>;
  // The casts: a message of any type has its fields read by name.
  const { policy, ...others } = got as unknown as Readonly<Record<string, unknown>>;
  if (policy === null) return `${key}: wanted a policy, got none`;
  const { policy: __, ...expected } = decode(name, encodeJson(name, rest)) as unknown as Readonly<
    Record<string, unknown>
  >;
  return compare(expected, others, key, names);
}

function wrapperOf(tree: string, kind: string): MessageName {
  const wrapped: Readonly<Record<string, string>> = {
    classifiers: "classifier",
    policies: "policy",
  };
  const name = (wrapped[kind] ?? kind).replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) =>
    letter.toUpperCase(),
  );
  const suffix = tree === "decisions" ? "DecisionWrapper" : "Wrapper";
  return `aperture.policy.sync.v1.${name}${suffix}` as MessageName;
}

/**
 * A key that no recorded operation has is not written, and one that stays is never deleted in between (D-13). A decision
 * may be written less often than in the recording (D-33).
 */
function writesDiffer(
  operations: readonly Operation[],
  written: Follower["written"],
): string | undefined {
  const last = new Map(operations.map(({ key, op }) => [key, op]));
  for (const [key, ops] of written) {
    const op = last.get(key);
    if (op === undefined) return `wanted ${key} to stay as it is, got ${ops.join(", ")}`;
    if (op === "put" && ops.includes("delete")) return `wanted ${key} not to be deleted`;
  }
  return undefined;
}

interface Calls {
  readonly etcd_rpc: readonly {
    readonly op: "put" | "delete";
    readonly key: string;
    readonly value_base64?: string;
  }[];
}

/**
 * Leaves each recorded request of a controller in the store, under the host name of this machine, and compares what the
 * agent answers with the recorded bytes.
 */
async function replayCalls(folder: string, store: EtcdStore): Promise<Replayed> {
  const differences: Difference[] = [];
  const { etcd_rpc } = readRecording<Calls>(folder, WITH_AGENT);
  const puts = etcd_rpc.filter(
    ({ op, value_base64 }) => op === "put" && value_base64 !== undefined,
  );
  const requests = puts.filter(({ key }) => key.startsWith("/rpc/request/"));
  for (const [step, { key, value_base64 = "" }] of requests.entries()) {
    const call = `recorded-${step}`;
    const request = requestKey(hostname(), call);
    const response = responseKey(hostname(), call);
    await store.commit([{ kind: "put", key: request, value: Buffer.from(value_base64, "base64") }]);
    let got: Uint8Array | undefined;
    await until("the agent answers", async () => {
      got = (await store.list(response)).entries.find((each) => each.key === response)?.value;
      return got !== undefined;
    });
    const recorded = puts.find((each) => each.key === key.replace("request", "response"));
    const wanted = Buffer.from(recorded?.value_base64 ?? "", "base64");
    if (recorded !== undefined && !wanted.equals(got ?? new Uint8Array())) {
      const text = `${Buffer.from(value_base64, "base64").subarray(2, 66).toString("latin1")}: wanted ${wanted.toString("base64")}, got ${Buffer.from(got ?? []).toString("latin1")}`;
      differences.push({ file: "etcd-rpc", step, text });
    }
    await store.commit([{ kind: "delete", key: request }]);
    await until("the answer goes with its request", async () => {
      const { entries } = await store.list(response);
      return entries.every((each) => each.key !== response);
    });
  }
  return { steps: requests.length, differences };
}
