// Replays recorded exchanges with the reference implementation's policy API against a running Sluice, and the recorded
// content of its etcd against a controller and an agent over a real etcd. Every difference must be listed in `OURS` with
// its reason, and every listed step must differ.

import assert from "node:assert/strict";
import { basename, join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { grpcClient } from "../kit/clients/grpc.ts";
import { fakePolicies } from "../kit/kube/fake-policies.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import {
  type CallGrpc,
  caller,
  readRecording,
  replayControlApi,
  replayFile,
  type Step,
  unexpected,
} from "./control-api.ts";
import { AS_RESOURCES, OVER_ETCD } from "./control-differences.ts";
import { replayOverEtcd } from "./control-store.ts";

const FOLDER = join(import.meta.dirname, "control-api");

test("recorded exchanges with the policy API", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const client = grpcClient(t, address);
  const callGrpc = await caller((path, bytes) => client.unary(path, bytes));
  const replayed = await replayControlApi(FOLDER, address, callGrpc);
  assert.ok(replayed.steps > 60, `${replayed.steps} steps`);
  assert.deepEqual(
    unexpected(replayed, (file) => !OVER_ETCD.has(file) && !AS_RESOURCES.has(file)),
    [],
  );
});

test("recorded exchanges of a controller and an agent over etcd, and what they left there", async (t) => {
  const replayed = await replayOverEtcd(t, FOLDER);
  assert.ok(replayed.steps > 95, `${replayed.steps} steps`);
  assert.deepEqual(
    unexpected(replayed, (file) => OVER_ETCD.has(file)),
    [],
  );
});

test("recorded exchanges about a policy that a Kubernetes resource owns", async (t) => {
  const file = "policy-cr-owned";
  const cluster = await fakePolicies(t);
  const { address } = await standalone(t, {
    policies: {},
    controller: { SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED: "true" },
    variables: cluster.variables,
  });
  const client = grpcClient(t, address);
  const callGrpc = await caller((path, bytes) => client.unary(path, bytes));
  // An entry in the store of the recorded process is here a resource of the cluster.
  const write = async ({ etcd, key = "" }: Step, later: readonly Step[]) => {
    const name = basename(key);
    if (etcd === "del") return cluster.remove(name);
    const posted = later.find(({ request }) => request?.method === "POST")?.request?.body;
    cluster.put(name, parse((posted as { readonly policy_string: string }).policy_string));
  };
  const replayed = await replayFile(FOLDER, file, { address, callGrpc, names: new Map(), write });
  assert.equal(replayed.steps, 8);
  assert.deepEqual(
    unexpected(replayed, (each) => each === file),
    [],
  );
});

/** The right answer to each step of `crashes`: a status of HTTP, or a code of gRPC. */
const RIGHT = [400, 200, 5, 400, 400, 400];

test("requests and documents that stopped the recorded process are answered", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const client = grpcClient(t, address);
  const callGrpc = await caller((path, bytes) => client.unary(path, bytes));
  const { steps } = readRecording<{ readonly steps: readonly Step[] }>(FOLDER, "crashes");
  const got: number[] = [];
  for (const { request } of steps) got.push(await codeOf(request, address, callGrpc));
  assert.deepEqual(got, RIGHT);
});

async function codeOf(
  request: Step["request"],
  address: string,
  callGrpc: CallGrpc,
): Promise<number> {
  const { method = "", path = "", body, grpc, message } = request ?? {};
  if (grpc !== undefined) {
    const reply = await callGrpc(grpc, message);
    return "error" in reply ? reply.error.code : 0;
  }
  const reply = await fetch(`http://${address}${path}`, {
    method,
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  await reply.text();
  return reply.status;
}
