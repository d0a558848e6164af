// Admission reviews (admission.k8s.io/v1): the API server's request to a webhook, and the webhook's answer.

import { Fault } from "#base/fault.ts";
import { fieldOf, textOf } from "./objects.ts";

const API_VERSION = "admission.k8s.io/v1";
const KIND = "AdmissionReview";

export interface AdmissionRequest {
  /** The answer must repeat it. */
  readonly uid: string;
  /** Empty for cluster-scoped objects. A new object itself may lack it. */
  readonly namespace: string;
  /** The whole request. */
  readonly request: unknown;
}

/** The decision of a webhook. */
export interface AdmissionAnswer {
  readonly allowed: boolean;
  readonly message?: string | undefined;
  /** Shown to the person who sent the object. */
  readonly warnings?: readonly string[];
  /** Changes to the object (RFC 6902). */
  readonly patch?: readonly object[];
}

/** @throws Fault INVALID_ARGUMENT for a body that is not a review */
export function admissionRequest(body: Uint8Array): AdmissionRequest {
  const review = wantedObject(parsed(body), "body");
  const apiVersion = fieldOf(review, "apiVersion");
  const kind = fieldOf(review, "kind");
  if (apiVersion !== API_VERSION || kind !== KIND) {
    const got = `${shown(kind)} of ${shown(apiVersion)}`;
    throw new Fault("INVALID_ARGUMENT", `wanted an ${KIND} of ${API_VERSION}, got ${got}`);
  }
  const request = wantedObject(fieldOf(review, "request"), "request");
  const uid = textOf(request, "uid");
  if (uid === "") throw new Fault("INVALID_ARGUMENT", "request.uid: wanted text, got none");
  return { uid, namespace: textOf(request, "namespace"), request };
}

export function admissionReply(
  uid: string,
  { allowed, message, warnings = [], patch }: AdmissionAnswer,
): string {
  const status = { status: "Failure", code: 422, reason: "Invalid", message };
  const encoded = patch && Buffer.from(JSON.stringify(patch)).toString("base64");
  return JSON.stringify({
    apiVersion: API_VERSION,
    kind: KIND,
    response: {
      uid,
      allowed,
      ...(message === undefined ? {} : { status }),
      ...(encoded === undefined ? {} : { patchType: "JSONPatch", patch: encoded }),
      ...(warnings.length === 0 ? {} : { warnings }),
    },
  });
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString("utf8"));
  } catch {
    throw new Fault("INVALID_ARGUMENT", `wanted an ${KIND} as JSON, got other text`);
  }
}

function wantedObject(value: unknown, path: string): unknown {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  const got = Array.isArray(value) ? "a list" : value === undefined ? "nothing" : "another value";
  throw new Fault("INVALID_ARGUMENT", `${path}: wanted an object, got ${got}`);
}

function shown(value: unknown): string {
  return value === undefined ? "nothing" : JSON.stringify(value).slice(0, 64);
}
