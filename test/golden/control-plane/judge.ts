// Compares a recorded policy with ours through all stages: compilation, the circuit, the stored messages, and readings
// and decisions tick by tick. Faults of the recordings are known by defect, not by case, so that other recordings of
// the same form can be compared too.

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type DescMessage, fromBinary, toJson } from "@bufbuild/protobuf";
import type { CircuitPlan } from "#circuit/plan.ts";
import type { CompiledPolicy, JsonObject, JsonValue } from "#policy/compiled.ts";
import { containerKinds } from "#policy/diagram/containers.ts";
import { expanded } from "#policy/diagram/expand.ts";
import { findingLine } from "#policy/format.ts";
import { compileSet } from "#policy/set.ts";
import { configEntries, policyEntry } from "#sync/publish/policy.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { type RecordedCase, readCase } from "./case.ts";
import { HASH, planOf } from "./plan.ts";
import { replay } from "./replay.ts";

/** Defects by which the recorded system accepts policies that Sluice refuses: D-10, D-30, D-40. */
const STRICTER = /D-(?:10|30|40)\b/;

/** The first difference; undefined when there is none but for known defects of the recorded system. */
export function judgePolicy(folder: string): string | undefined {
  const recorded = grouped(readCase(folder));
  const text = readFileSync(join(folder, "policy.yaml"), "utf8");
  const set = compileSet([{ source: "policy.yaml", defaultName: recorded.name, text }], {
    digest: (given) => createHash("sha256").update(given).digest("hex"),
    queries: "prometheus",
  });
  const [finding] = set.findings;
  if (finding !== undefined) {
    return STRICTER.test(noteOf(folder)) ? undefined : `refused: ${findingLine(finding)}`;
  }
  const [policy] = set.policies;
  if (policy === undefined) return "wanted one policy, got none";
  const { circuit } = policy;
  const plan = circuit === undefined ? undefined : renamed(circuit, policy.hash);
  return (
    (plan && circuitDiffers({ ...policy, circuit: plan }, recorded)) ??
    storeDiffers(policy, folder) ??
    (plan && replay({ ...recorded, doNotCopy: notCopied(policy, recorded) }, plan)[0])
  );
}

/** Checks that a document is refused with a message that names the item in its note. */
export function judgeRefusal(folder: string): string | undefined {
  const text = readFileSync(join(folder, "policy.yaml"), "utf8");
  const { findings } = compileSet([{ source: "policy.yaml", defaultName: "policy", text }], {
    digest: (given) => createHash("sha256").update(given).digest("hex"),
    queries: "prometheus",
  });
  if (findings.length === 0) return "accepted, wanted a refusal";
  const item = /Item to be named in the message: `([^`]+)`/.exec(noteOf(folder))?.[1] ?? "";
  const words = item.split(/[\s/]+/).filter((word) => word !== "");
  const lines = findings.map(findingLine);
  const named = lines.some((line) => words.every((word) => line.includes(word)));
  if (named || lines.some((line) => line.includes(item))) return undefined;
  return `wanted the refusal to name ${item}, got ${lines.join("; ")}`;
}

function noteOf(folder: string): string {
  const [note, about] = [join(folder, "note.md"), join(folder, "case.json")];
  return [note, about]
    .map((file) => (existsSync(file) ? readFileSync(file, "utf8") : ""))
    .join("\n");
}

/** The default agent group of selectors differs in the recorded system (D-29). */
function grouped<T>(recorded: T): T {
  return JSON.parse(JSON.stringify(recorded).replaceAll("aperture-cloud", "default")) as T;
}

/** The plan with the recordings' placeholder as the hash of its policy. */
function renamed(circuit: CircuitPlan, hash: string): CircuitPlan {
  const leaves = circuit.leaves.map((leaf) => {
    const query = "query_string" in leaf.config ? leaf.config.query_string : "";
    const tokens = "tokens_query" in leaf.config ? leaf.config.tokens_query : "";
    const config = {
      ...leaf.config,
      ...(query === "" ? {} : { query_string: query.replaceAll(hash, HASH) }),
      ...(tokens === "" ? {} : { tokens_query: tokens.replaceAll(hash, HASH) }),
    };
    return { ...leaf, config } as typeof leaf;
  });
  return { ...circuit, policyHash: HASH, leaves };
}

/** Signals downstream of a confirmation, which throttles in Sluice and not in the recorded system (D-5). */
function notCopied(
  { document }: CompiledPolicy,
  { doNotCopy }: RecordedCase,
): RecordedCase["doNotCopy"] {
  const range = [...containerKinds(document)].filter(
    ([, kind]) => kind === "range_driven_load_scheduler",
  );
  const alerts = range.map(([id]) => [`${id}/LOAD_MULTIPLIER_ALERT`, "all"] as const);
  if (range.length === 0 || !Object.keys(doNotCopy).length) return doNotCopy;
  return { ...doNotCopy, ...Object.fromEntries(alerts), alerts: "all" };
}

function circuitDiffers(policy: CompiledPolicy, recorded: RecordedCase): string | undefined {
  if (recorded.leaves === undefined || policy.circuit === undefined) return undefined;
  const kinds = containerKinds(policy.document);
  const wanted = partsOf({ ...policy, circuit: planOf(recorded) });
  const got = partsOf(policy);
  for (const [id, part] of wanted) {
    const own = got.get(id);
    if (own === undefined) return `circuit: wanted component ${id}, got none`;
    const [left, right] = [comparable(id, part, kinds), comparable(id, own, kinds)];
    if (!isDeepStrictEqual(left, right)) {
      return `circuit ${id}: wanted ${JSON.stringify(left)}, got ${JSON.stringify(right)}`;
    }
  }
  for (const id of got.keys()) {
    const added = kinds.get(parentOf(id)) === "auto_scaler";
    if (!wanted.has(id) && !added) return `circuit: wanted no component ${id}`;
  }
  return undefined;
}

function partsOf(policy: CompiledPolicy): ReadonlyMap<string, JsonObject> {
  const components = expanded(policy)["components"] as readonly JsonObject[];
  return new Map(components.map((part) => [String(part["id"]), part] as const));
}

function parentOf(id: string): string {
  return id.slice(0, id.lastIndexOf("."));
}

/** The part of a component that is compared: without ports that read nothing, and without known defects. */
function comparable(
  id: string,
  part: JsonObject,
  kinds: ReadonlyMap<string, string>,
): Readonly<Record<string, JsonValue>> {
  const { in: ins = {}, ...rest } = part;
  const within = kinds.get(parentOf(id));
  const place = id.slice(id.lastIndexOf(".") + 1);
  const left = (port: string, from: JsonValue) =>
    from === null ||
    (Array.isArray(from) && from.length === 0) ||
    // An empty element of a list is a constant in the recording and unconnected in Sluice (D-10).
    port === "inputs" ||
    // An overload without confirmation lets everything pass (D-5).
    (within === "range_driven_load_scheduler" && place === "2" && port === "switch") ||
    // Alerts are raised while the proposed scale differs from the actual one (D-19).
    (within === "auto_scaler" && part["kind"] === "alerter");
  const read = Object.entries(ins as JsonObject).filter(([port, from]) => !left(port, from));
  const config = (rest["config"] ?? {}) as JsonObject;
  // A ramp passes its label values on to its sampler (D-6).
  const { pass_through_label_values, pass_through_label_values_config_key, ...others } = config;
  const kept = within === "load_ramp" ? others : config;
  return { ...rest, config: kept, in: Object.fromEntries(read) };
}

const WRAPPERS: Readonly<Record<string, DescMessage>> = {
  classifiers: schemaOf("aperture.policy.sync.v1.ClassifierWrapper"),
  concurrency_limiter: schemaOf("aperture.policy.sync.v1.ConcurrencyLimiterWrapper"),
  concurrency_scheduler: schemaOf("aperture.policy.sync.v1.ConcurrencySchedulerWrapper"),
  flux_meter: schemaOf("aperture.policy.sync.v1.FluxMeterWrapper"),
  infra_meter: schemaOf("aperture.policy.sync.v1.InfraMeterWrapper"),
  load_scheduler: schemaOf("aperture.policy.sync.v1.LoadSchedulerWrapper"),
  pod_scaler: schemaOf("aperture.policy.sync.v1.PodScalerWrapper"),
  policies: schemaOf("aperture.policy.sync.v1.PolicyWrapper"),
  quota_scheduler: schemaOf("aperture.policy.sync.v1.QuotaSchedulerWrapper"),
  rate_limiter: schemaOf("aperture.policy.sync.v1.RateLimiterWrapper"),
  sampler: schemaOf("aperture.policy.sync.v1.SamplerWrapper"),
};

function storeDiffers(policy: CompiledPolicy, folder: string): string | undefined {
  const file = join(folder, "compiled.json");
  if (!existsSync(file)) return undefined;
  const text = readFileSync(file, "utf8").replaceAll("aperture-cloud", "default");
  const recorded = JSON.parse(text) as Readonly<Record<string, unknown>>;
  const own = new Map([...configEntries(policy), policyEntry(policy, "ETCD")]);
  for (const key of new Set([...Object.keys(recorded), ...own.keys()])) {
    const bytes = own.get(key);
    if (bytes === undefined) return `store: wanted ${key}, got none`;
    if (!(key in recorded)) return `store: wanted no ${key}`;
    const got = decoded(key, bytes, policy.hash);
    const difference = valuesDiffer(recorded[key], got, key);
    if (difference !== undefined) return `store ${difference}`;
  }
  return undefined;
}

/** Leaves zero values out, as the recordings do. */
function decoded(key: string, value: Uint8Array, hash: string): unknown {
  const schema = WRAPPERS[key.split("/")[2] ?? ""];
  if (schema === undefined) return `a message of unknown kind under ${key}`;
  const json = toJson(schema, fromBinary(schema, value), { useProtoFieldName: true });
  return JSON.parse(JSON.stringify(json).replaceAll(hash, HASH));
}

function valuesDiffer(wanted: unknown, got: unknown, at: string): string | undefined {
  if (isDeepStrictEqual(wanted, got)) return undefined;
  if (isObject(wanted) && isObject(got)) {
    for (const key of new Set([...Object.keys(wanted), ...Object.keys(got)])) {
      // A ramp passes its label values on to its sampler (D-6).
      if (key.startsWith("pass_through_label_values") && wanted[key] === undefined) continue;
      const difference = valuesDiffer(wanted[key], got[key], `${at} ${key}`);
      if (difference !== undefined) return difference;
    }
    return undefined;
  }
  return `${at}: wanted ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
