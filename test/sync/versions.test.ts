// Agents and controllers one release apart work together: every message that they exchange through the store or over a
// connection is kept as the last release wrote it, with the definitions by which it reads. The present code must read
// those bytes as they were meant, and the last release must read what the present code writes.
//
// A release renews `versions/` with RENEW=1, and only a release: these files are the bytes of the code before.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import protobuf from "protobufjs/light.js";
import { sha256 } from "#controller/digest.ts";
import { compileSet } from "#policy/set.ts";
import { readBatch } from "#sync/follow/batch.ts";
import {
  API_DYNAMIC_CONFIGS,
  API_POLICIES,
  appliedKey,
  CONTROLLER_ELECTION,
  componentName,
  configKey,
  DYNAMIC_CONFIGS,
  decisionKey,
  POLICIES,
  peerKey,
  REPLICAS,
  requestKey,
  responseKey,
} from "#sync/keys.ts";
import { configEntries, policyEntry } from "#sync/publish/policy.ts";
import { DESCRIPTOR_SET, Definitions } from "#wire/protobuf/definitions.ts";
import { registry } from "#wire/protobuf/descriptors.ts";
import { definitions } from "../kit/messages/definitions.ts";
import { batchOf } from "../kit/sluice/stored.ts";

const FOLDER = join(import.meta.dirname, "versions");
const DESCRIPTORS = join(FOLDER, "descriptors.binpb");
const VALUES = join(FOLDER, "values.json");
/**
 * The store that a controller of the last release left for the policies of `golden/control-plane`, as base64 by key.
 */
const LEFT = join(FOLDER, "store.json");
const CASES = join(import.meta.dirname, "../golden/control-plane/cases");

/** The messages that agents and controllers exchange. */
const EXCHANGED = /^(aperture\.(policy\.sync|cmd|peers)\.v1|sluice\.fleet\.v1)\./;

/**
 * Fields that the last release writes and the present code ignores on purpose. The shared overflow bucket: tokens that another
 * agent gives back to it are lost, which admits less and never more.
 */
const IGNORED: Readonly<Record<string, readonly string[]>> = {
  "sluice.fleet.v1.TakeRequest": ["overflow"],
};

type Json = Record<string, unknown>;
type Stored = Readonly<Record<string, { readonly bytes: string; readonly value: Json }>>;

const present = definitions;

/** Levels of messages inside each other that a sample has: policies hold circuits without end. */
const DEPTH = 5;

/** A message with a value in every field; of a oneof, the first. */
function sample(type: protobuf.Type, depth = DEPTH): Json {
  const value: Json = {};
  for (const field of type.fieldsArray) {
    const { resolvedType } = field.resolve();
    const { partOf } = field;
    if (partOf !== null && partOf.oneof.length > 1 && partOf.oneof[0] !== field.name) continue;
    if (resolvedType instanceof protobuf.Type && depth === 0) continue;
    const item = sampleOf(field, depth);
    value[field.name] = field.map ? { key: item } : field.repeated ? [item] : item;
  }
  return value;
}

function sampleOf({ type, id, resolvedType }: protobuf.Field, depth: number): unknown {
  if (resolvedType instanceof protobuf.Type) return sample(resolvedType, depth - 1);
  if (resolvedType instanceof protobuf.Enum) return Object.values(resolvedType.values).at(-1) ?? 0;
  if (type === "string") return `text ${id}`;
  if (type === "bytes") return Buffer.from(`bytes ${id}`);
  if (type === "bool") return true;
  return type === "double" || type === "float" ? id + 0.5 : id;
}

function bytesOf(type: protobuf.Type): Uint8Array {
  return type.encode(type.fromObject(sample(type))).finish();
}

/** Decodes the bytes as a reader with these definitions does. Fields without a value are left out. */
function read(type: protobuf.Type, bytes: Uint8Array): Json {
  const value = type.toObject(type.decode(Buffer.from(bytes)), { longs: String, bytes: String });
  return JSON.parse(JSON.stringify(value)) as Json;
}

/** The part of a value that an older reader knows: its own fields. */
function known(type: protobuf.Type, value: Json): Json {
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, each]) => {
      const field = type.fields[name]?.resolve();
      if (field === undefined) return [];
      const inner = field.resolvedType;
      if (!(inner instanceof protobuf.Type)) return [[name, each]];
      if (field.map) {
        const entries = Object.entries(each as Record<string, Json>);
        return [[name, Object.fromEntries(entries.map(([key, one]) => [key, known(inner, one)]))]];
      }
      if (field.repeated) return [[name, (each as Json[]).map((one) => known(inner, one))]];
      return [[name, known(inner, each as Json)]];
    }),
  );
}

const names = [...registry]
  .filter(({ kind }) => kind === "message")
  .map(({ typeName }) => typeName)
  .filter((name) => EXCHANGED.test(name))
  .sort();

if (process.env["RENEW"] === "1") {
  const entries = names.map((name) => {
    const type = present.type(name);
    const bytes = bytesOf(type);
    const stored = { bytes: Buffer.from(bytes).toString("base64"), value: read(type, bytes) };
    return `${JSON.stringify(name)}: ${JSON.stringify(stored)}`;
  });
  writeFileSync(VALUES, `{\n${entries.join(",\n")}\n}\n`);
  writeFileSync(DESCRIPTORS, readFileSync(DESCRIPTOR_SET));
  const kept = Object.keys(JSON.parse(readFileSync(LEFT, "utf8")) as object);
  const left = kept
    .filter((key) => key.startsWith(POLICIES))
    .flatMap((key) => [...leftToday(key.slice(POLICIES.length))])
    .map(([key, value]) => `${JSON.stringify(key)}: "${Buffer.from(value).toString("base64")}"`);
  writeFileSync(LEFT, `{\n${left.join(",\n")}\n}\n`);
}

const stored = JSON.parse(readFileSync(VALUES, "utf8")) as Stored;
const before = new Definitions(readFileSync(DESCRIPTORS));

test("the present code reads every message as the last release wrote it", () => {
  assert.ok(Object.keys(stored).length > 60, "messages were kept");
  for (const [name, { bytes, value }] of Object.entries(stored)) {
    assert.ok(names.includes(name), `${name} is gone`);
    const meant = Object.entries(value).filter(([field]) => !IGNORED[name]?.includes(field));
    const heard = read(present.type(name), Buffer.from(bytes, "base64"));
    assert.deepEqual(heard, Object.fromEntries(meant), name);
  }
});

test("the last release reads every message as the present code writes it", () => {
  for (const name of Object.keys(stored)) {
    const [now, old] = [present.type(name), before.type(name)];
    const bytes = bytesOf(now);
    assert.deepEqual(read(old, bytes), known(old, read(now, bytes)), name);
  }
});

/** The store that a controller of today leaves for one of these policies. */
function leftToday(name: string): ReadonlyMap<string, Uint8Array> {
  const text = readFileSync(join(CASES, name, "policy.yaml"), "utf8");
  const texts = [{ source: name, defaultName: name, text }];
  const [policy] = compileSet(texts, { digest: sha256, queries: "prometheus" }).policies;
  assert.ok(policy, name);
  return new Map([...configEntries(policy), policyEntry(policy, "ETCD")]);
}

test("agents judge alike by what the last release left in the store and by what takes its place", () => {
  const left = Object.entries(JSON.parse(readFileSync(LEFT, "utf8")) as Record<string, string>);
  const before = new Map(left.map(([key, text]) => [key, Buffer.from(text, "base64")]));
  const policies = [...before.keys()].filter((key) => key.startsWith(POLICIES));
  assert.ok(policies.length > 5);
  const now = new Map(policies.flatMap((key) => [...leftToday(key.slice(POLICIES.length))]));
  assert.deepEqual([...now.keys()], [...before.keys()]);
  for (const group of ["default", "blue"]) {
    const [old, today] = [readBatch(group, batchOf(before)), readBatch(group, batchOf(now))];
    assert.ok(old.rules.size > 2, "rules were read");
    assert.deepEqual(old.faults, new Map());
    // The version of a policy is part of its rules: it stays the same, so nothing that was counted is lost.
    assert.deepEqual(today, old);
  }
});

test("a message that would be read as another one is found", () => {
  const old = before.type("aperture.peers.v1.Peer");
  const moved = new protobuf.Type("Moved")
    .add(new protobuf.Field("address", 2, "string"))
    .add(new protobuf.Field("hostname", 1, "string"));
  const bytes = bytesOf(moved);
  assert.notDeepEqual(read(old, bytes), known(old, read(moved, bytes)));
});

test("the keys are those of the last release", () => {
  assert.deepEqual(
    [
      API_POLICIES,
      API_DYNAMIC_CONFIGS,
      POLICIES,
      DYNAMIC_CONFIGS,
      REPLICAS,
      CONTROLLER_ELECTION,
      peerKey("g", "h:1"),
      appliedKey("g", "id"),
      requestKey("id", "call"),
      responseKey("id", "call"),
      configKey("sampler", componentName("g", "p", "root.0")),
      decisionKey("sampler", componentName("g", "p", "root.0")),
    ],
    [
      "/config/api/policies/",
      "/config/api/dynamic-config-policies/",
      "/config/policies/",
      "/config/dynamic-config-policies/",
      "/status/pod_scaler/",
      "/controller-election",
      "/peers/aperture-agent/g/h:1",
      "/status/policies/g/id",
      "/rpc/request/id/call",
      "/rpc/response/id/call",
      "/config/sampler/agent_group-g-policy-p-component_id-root.0",
      "/decisions/sampler/agent_group-g-policy-p-component_id-root.0",
    ],
  );
});
