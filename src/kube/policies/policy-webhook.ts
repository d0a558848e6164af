// The validating webhook for policy resources: the API server calls it before it stores a policy, and shows its findings to the
// author. It compiles the policy and changes nothing, so every controller answers, leading or not.

import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Route } from "#base/handler.ts";
import {
  type AdmissionAnswer,
  type AdmissionRequest,
  admissionReply,
  admissionRequest,
} from "../api/admission.ts";
import { asObject, fieldOf, type KubeObject, textOf } from "../api/objects.ts";
import { documentOf, POLICY_RESOURCES, policyNameOf } from "./resource.ts";
import type { CompileText } from "./resource-source.ts";

interface PolicyWebhookOptions {
  readonly compile: CompileText;
  /** The controllers' own namespace. */
  readonly namespace: string;
  /** The namespaces of teams. Policies of other namespaces are refused, because this controller would not run them. */
  readonly namespaces: readonly string[];
  readonly clock: Clock;
}

export const VALIDATE_PATH = "/validate/policy";
/** The most policies that are compiled at once; further calls are told to retry. */
const MAX_AT_ONCE = 3;
/** Milliseconds that compiling may take: half the timeout of the API server. */
const MAX_MS = 5_000;
/** Largest review, in bytes: it contains the old and the new object. */
const MAX_BODY = 8 * 1024 * 1024;
/** The most findings in a message; the status of a resource lists more. */
const MAX_FINDINGS = 10;

export function policyWebhook({
  compile,
  namespace: own,
  namespaces,
  clock,
}: PolicyWebhookOptions): Route {
  let running = 0;
  const judge = async (object: KubeObject, namespace: string): Promise<AdmissionAnswer> => {
    const { plural, group } = POLICY_RESOURCES;
    const { name } = object.metadata;
    const policy = policyNameOf({ namespace, name }, own);
    const text = documentOf({ ...object, metadata: { ...object.metadata, namespace } }, policy);
    const source = `${plural}.${group}/${namespace}/${name}`;
    running += 1;
    // Compiling continues after the timeout, and counts until it ends.
    const confined = namespace === own ? undefined : namespace;
    const compiled = compile(source, policy, text, confined).finally(() => {
      running -= 1;
    });
    const set = await within(MAX_MS, clock, compiled, () => {
      throw new Fault("DEADLINE_EXCEEDED", `not compiled within ${MAX_MS} ms`);
    });
    const warnings = set.warnings.map(({ path, text }) => `${path}: ${text}`);
    const findings = set.findings.map(
      ({ path, wanted, got }) => `${path}: wanted ${wanted}, got ${got}`,
    );
    if (findings.length === 0) return { allowed: true, warnings };
    const more = findings.length - MAX_FINDINGS;
    const listed = findings.slice(0, MAX_FINDINGS).join("; ");
    const message = `${name}: ${listed}${more > 0 ? `; and ${more} more` : ""}`;
    return { allowed: false, message, warnings };
  };
  return {
    method: "POST",
    path: VALIDATE_PATH,
    about: "Judges a policy resource for the Kubernetes API server (an AdmissionReview)",
    // The API server sends no credentials that could be checked.
    access: "open",
    body: "json",
    maxBody: MAX_BODY,
    costly: true,
    async handle({ body }) {
      const review = policyReview(body);
      const { namespace, object, refusal } = review;
      const reply = (judgement: AdmissionAnswer) => ({
        status: 200,
        headers: { "content-type": "application/json" },
        body: answerTo(review, judgement),
      });
      if (refusal !== undefined) return reply({ allowed: false, message: refusal });
      if (object === undefined) return reply({ allowed: true });
      const served = new Set([own, ...namespaces]);
      if (!served.has(namespace)) {
        const message = `metadata.namespace: wanted ${[...served].join(" or ")}, whose policies this controller runs, got ${namespace}`;
        return reply({ allowed: false, message });
      }
      if (running >= MAX_AT_ONCE) {
        const busy = `${MAX_AT_ONCE} policies are being judged already`;
        throw new Fault("RESOURCE_EXHAUSTED", busy, { headers: { "retry-after": "1" } });
      }
      return reply(await judge(object, namespace));
    },
  };
}

interface PolicyReview extends Pick<AdmissionRequest, "uid" | "namespace"> {
  /** The new resource; undefined if it is being deleted. */
  readonly object: KubeObject | undefined;
  /** The reason why the webhook does not judge this object; undefined when it does. */
  readonly refusal: string | undefined;
}

/** The API server truncates longer warnings, and drops all that exceeds a few kilobytes in total. */
const MAX_WARNING = 250;
const MAX_WARNINGS = 15;

/** @throws Fault INVALID_ARGUMENT for a body that is not a review */
function policyReview(body: Uint8Array): PolicyReview {
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
    // A generated name does not exist yet, and a policy is identified by its name.
    const refusal = "metadata.name: wanted a name, got nothing";
    return { uid, namespace, object: undefined, refusal };
  }
}

/** The answer as JSON, with as many warnings as the API server forwards. */
function answerTo({ uid }: PolicyReview, answer: AdmissionAnswer): string {
  const { warnings = [] } = answer;
  const cut = warnings.slice(0, MAX_WARNINGS).map((warning) => shortened(warning));
  const more = warnings.length - cut.length;
  const all = more > 0 ? [...cut, `and ${more} more warnings`] : cut;
  return admissionReply(uid, { ...answer, warnings: all });
}

function shortened(text: string): string {
  return text.length > MAX_WARNING ? `${text.slice(0, MAX_WARNING)}…` : text;
}
