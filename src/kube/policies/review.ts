// Admission reviews: what the API server asks a validating webhook, and what it is told.

import { Fault } from "#base/fault.ts";
import { asObject, fieldOf, type KubeObject, textOf } from "../api/objects.ts";
import { POLICY_RESOURCES } from "./resource.ts";

export interface PolicyReview {
  /** To be repeated in the answer. */
  readonly apiVersion: string;
  readonly uid: string;
  readonly namespace: string;
  /** The resource as it would become; undefined where it would be deleted. */
  readonly object: KubeObject | undefined;
  /** Why this is nothing that the webhook judges; undefined when it is. */
  readonly refusal: string | undefined;
}

export interface Judgement {
  readonly allowed: boolean;
  /** The reason of a refusal. */
  readonly message?: string;
  readonly warnings?: readonly string[];
}

const KIND = "AdmissionReview";
const VERSION = "admission.k8s.io/v1";
/** The API server cuts longer warnings. */
const MOST_WARNING = 250;
const MOST_WARNINGS = 15;

/** @throws Fault INVALID_ARGUMENT for what is no review */
export function policyReview(body: Uint8Array): PolicyReview {
  const review = parsed(body);
  const apiVersion = textOf(review, "apiVersion");
  const request = fieldOf(review, "request");
  const uid = textOf(request, "uid");
  if (textOf(review, "kind") !== KIND || apiVersion !== VERSION || uid === "") {
    const wanted = `wanted an ${KIND} of ${VERSION} with a request, got something else`;
    throw new Fault("INVALID_ARGUMENT", wanted);
  }
  const own = { apiVersion, uid, namespace: textOf(request, "namespace") };
  const resource = fieldOf(request, "resource");
  const found = (["group", "version"] as const).map((part) => textOf(resource, part));
  const plural = textOf(resource, "resource");
  const { group, version, plural: wanted } = POLICY_RESOURCES;
  if (found[0] !== group || found[1] !== version || plural !== wanted) {
    const refusal = `wanted ${wanted} of ${group}/${version}, got ${plural} of ${found.join("/")}`;
    return { ...own, object: undefined, refusal };
  }
  const object = fieldOf(request, "object") ?? undefined;
  try {
    return { ...own, object: object && asObject(object), refusal: undefined };
  } catch {
    // A name that is to be generated is not there yet, and a policy is known by its name.
    return { ...own, object: undefined, refusal: "metadata.name: wanted a name, got nothing" };
  }
}

/** The answer as JSON. */
export function answerTo({ apiVersion, uid }: PolicyReview, judgement: Judgement): string {
  const { allowed, message, warnings = [] } = judgement;
  const status = message === undefined ? {} : { status: { code: 422, reason: "Invalid", message } };
  const cut = warnings.slice(0, MOST_WARNINGS).map((warning) => shortened(warning));
  const more = warnings.length - cut.length;
  const all = more > 0 ? [...cut, `and ${more} more warnings`] : cut;
  return JSON.stringify({
    apiVersion,
    kind: KIND,
    response: { uid, allowed, ...status, ...(all.length === 0 ? {} : { warnings: all }) },
  });
}

function shortened(text: string): string {
  return text.length > MOST_WARNING ? `${text.slice(0, MOST_WARNING)}…` : text;
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString("utf8"));
  } catch {
    return undefined;
  }
}
