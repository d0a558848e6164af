// Replays what callers of the reference system's policy API were answered, against the real process. Where
// Sluice answers otherwise on purpose, the step stands here with its reason; one that passes must be unlisted.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { fromBinary, fromJson, type JsonValue, toBinary, toJson } from "@bufbuild/protobuf";
import { loadRegistry } from "#wire/descriptors.ts";
import { grpcClient } from "../kit/grpc-client.ts";
import { standalone } from "../kit/standalone.ts";
import { type CallGrpc, replayControlApi } from "./control-api.ts";

const SERVICE = "aperture.policy.language.v1.PolicyService";

/** File and step to why ours is another answer. */
const UNKNOWN_KIND = "an unknown kind of decision is refused by name (D-20)";
const EARLY = "a load scheduler decides after ten seconds, for which this test does not wait";
const OBJECT = "the object form gets its defaults as the text does (D-11)";
const BOTH = "answered with and without the slash";
const SLASH = "a name with a slash is refused for what it is (D-23)";
const METHOD = "a method that is not mapped is 405";
const OURS: Readonly<Record<string, string>> = {
  "decisions 1": EARLY,
  "decisions 6": UNKNOWN_KIND,
  "decisions 7": EARLY,
  "decisions 8": BOTH,
  "decisions 9": EARLY,
  "decisions 11": "the service of the command line is not here",
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

test("recorded exchanges with the policy API", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const client = grpcClient(t, address);
  const service = (await loadRegistry([SERVICE])).getService(SERVICE);
  const callGrpc: CallGrpc = async (method, message) => {
    const name = method.slice(method.lastIndexOf("/") + 1);
    const found = service?.methods.find((each) => each.name === name);
    assert.ok(found, method);
    const bytes = toBinary(found.input, fromJson(found.input, message as JsonValue));
    const reply = await client.unary(`/${method}`, bytes);
    if (reply.code !== 0) return { error: { code: reply.code } };
    return {
      message: toJson(found.output, fromBinary(found.output, reply.message ?? new Uint8Array()), {
        alwaysEmitImplicit: true,
      }),
    };
  };
  const folder = join(import.meta.dirname, "control-api");
  const { steps, differences } = await replayControlApi(folder, address, callGrpc);
  assert.ok(steps > 60, `${steps} steps`);
  const found = new Map(differences.map(({ file, step, text }) => [`${file} ${step}`, text]));
  const wrong = [...found].filter(([where]) => !(where in OURS));
  assert.deepEqual(wrong, []);
  for (const where of Object.keys(OURS)) assert.ok(found.has(where), `${where} passes: unlist it`);
});
