// Reviews of policy resources that the API server sends to the webhook, and the answers to them.

import {
  type AdmissionAnswer,
  type AdmissionRequest,
  admissionReply,
  admissionRequest,
} from "../api/admission.ts";
import { asObject, fieldOf, type KubeObject, textOf } from "../api/objects.ts";
import { POLICY_RESOURCES } from "./resource.ts";

export interface PolicyReview extends Pick<AdmissionRequest, "uid" | "namespace"> {
  /** The resource as it would become; undefined where it would be deleted. */
  readonly object: KubeObject | undefined;
  /** Reason why the webhook does not judge this object; undefined when it does. */
  readonly refusal: string | undefined;
}

/** The API server cuts longer warnings, and drops what exceeds a few kilobytes in all. */
const MAX_WARNING = 250;
const MAX_WARNINGS = 15;

/** @throws Fault INVALID_ARGUMENT for what is no review */
export function policyReview(body: Uint8Array): PolicyReview {
  const { uid, namespace, request } = admissionRequest(body);
  const resource = fieldOf(request, "resource");
  const [group, version, plural] = (["group", "version", "resource"] as const).map((part) =>
    textOf(resource, part),
  );
  const wanted = POLICY_RESOURCES;
  if (group !== wanted.group || version !== wanted.version || plural !== wanted.plural) {
    const words = `wanted ${wanted.plural} of ${wanted.group}/${wanted.version}`;
    const refusal = `${words}, got ${plural} of ${group}/${version}`;
    return { uid, namespace, object: undefined, refusal };
  }
  const object = fieldOf(request, "object") ?? undefined;
  try {
    return { uid, namespace, object: object && asObject(object), refusal: undefined };
  } catch {
    // A name that is to be generated is not there yet, and a policy is known by its name.
    const refusal = "metadata.name: wanted a name, got nothing";
    return { uid, namespace, object: undefined, refusal };
  }
}

/** The answer as JSON, with as many warnings as the API server passes on. */
export function answerTo({ uid }: PolicyReview, answer: AdmissionAnswer): string {
  const { warnings = [] } = answer;
  const cut = warnings.slice(0, MAX_WARNINGS).map((warning) => shortened(warning));
  const more = warnings.length - cut.length;
  const all = more > 0 ? [...cut, `and ${more} more warnings`] : cut;
  return admissionReply(uid, { ...answer, warnings: all });
}

function shortened(text: string): string {
  return text.length > MAX_WARNING ? `${text.slice(0, MAX_WARNING)}…` : text;
}
