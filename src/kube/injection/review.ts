// Reviews of pods: reading the question of the API server, and writing the answer.

import { Fault } from "#base/fault.ts";
import { admissionReply, admissionRequest } from "../api/admission.ts";
import type { Injection } from "./mutation/mutate.ts";
import { isObject, type Json, objectAt, type Pod, readPod, text } from "./pod.ts";

export interface Review {
  /** Identifies the review; the answer must repeat it. */
  readonly uid: string;
  /** The namespace of the request; a new pod may not name it. */
  readonly namespace: string;
  readonly pod: Pod;
  readonly dryRun: boolean;
}

/** Throws a Fault INVALID_ARGUMENT that names what is wrong. */
export function readReview(body: Uint8Array): Review {
  const { uid, namespace, request: asRead } = admissionRequest(body);
  const request = objectAt(asRead as Json, "request");
  wantedText(namespace, "request.namespace");
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
  return admissionReply(uid, {
    allowed: injection.outcome !== "refused",
    message: injection.outcome === "refused" ? injection.message : undefined,
    warnings: injection.warnings.map((warning) => `sluice: ${warning}`),
    ...(injection.outcome === "injected" ? { patch: injection.patch } : {}),
  });
}

function wantedText(json: Json | undefined, path: string): string {
  const found = text(json);
  if (found !== "") return found;
  throw new Fault("INVALID_ARGUMENT", `${path}: wanted text, got none`);
}
