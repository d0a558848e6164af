// AdmissionReview (admission.k8s.io/v1): reading the question of the API server, and writing the answer.

import { Fault } from "#base/fault.ts";
import type { Injection } from "./mutation/mutate.ts";
import { isObject, type Json, objectAt, type Pod, readPod, text } from "./pod.ts";

const API_VERSION = "admission.k8s.io/v1";
const KIND = "AdmissionReview";

export interface Review {
  /** What the answer must repeat. */
  readonly uid: string;
  /** The namespace of the request; a new pod may not name it. */
  readonly namespace: string;
  readonly pod: Pod;
  readonly dryRun: boolean;
}

/** Throws a Fault INVALID_ARGUMENT that names what is wrong. */
export function readReview(body: Uint8Array): Review {
  const review = objectAt(parsed(body), "body");
  const { apiVersion, kind } = review;
  if (apiVersion !== API_VERSION || kind !== KIND) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `wanted an ${KIND} of ${API_VERSION}, got ${shown(kind)} of ${shown(apiVersion)}`,
    );
  }
  const request = objectAt(review["request"], "request");
  const uid = wantedText(request["uid"], "request.uid");
  const namespace = wantedText(request["namespace"], "request.namespace");
  const asked = isObject(request["kind"]) ? text(request["kind"]["kind"]) : "";
  const operation = text(request["operation"]);
  if (asked !== "Pod" || operation !== "CREATE" || text(request["subResource"]) !== "") {
    const got = `${operation || "no operation"} of ${asked || "no kind"}`;
    throw new Fault("INVALID_ARGUMENT", `request: wanted CREATE of Pod, got ${got}`);
  }
  return { uid, namespace, pod: readPod(request["object"]), dryRun: request["dryRun"] === true };
}

/** The body of the answer. */
export function reviewReply(uid: string, injection: Injection): string {
  return JSON.stringify({
    apiVersion: API_VERSION,
    kind: KIND,
    response: { uid, ...verdict(injection), ...warned(injection) },
  });
}

function verdict(injection: Injection) {
  switch (injection.outcome) {
    case "injected": {
      const patch = Buffer.from(JSON.stringify(injection.patch)).toString("base64");
      return { allowed: true, patchType: "JSONPatch", patch };
    }
    case "unchanged":
    case "skipped":
      return { allowed: true };
    case "refused":
      return {
        allowed: false,
        status: { status: "Failure", code: 422, reason: "Invalid", message: injection.message },
      };
  }
}

function warned({ warnings }: Injection) {
  return warnings.length === 0 ? {} : { warnings: warnings.map((warning) => `sluice: ${warning}`) };
}

function parsed(body: Uint8Array): Json {
  try {
    return JSON.parse(Buffer.from(body).toString("utf8"));
  } catch {
    throw new Fault("INVALID_ARGUMENT", `wanted an ${KIND} as JSON, got other text`);
  }
}

function wantedText(json: Json | undefined, path: string): string {
  const found = text(json);
  if (found !== "") return found;
  throw new Fault("INVALID_ARGUMENT", `${path}: wanted text, got none`);
}

function shown(json: Json | undefined): string {
  return json === undefined ? "nothing" : JSON.stringify(json).slice(0, 64);
}
