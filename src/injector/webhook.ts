// The route that the API server calls for each new pod, its messages and its metrics. It answers from memory; only unknown
// namespaces are read from the API server.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Call, HttpReply, HttpRequest, Route } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import { admissionReply, admissionRequest } from "#kube/api/admission.ts";
import type { MetricSink, MetricSource } from "#telemetry/metrics/table.ts";
import { type Injection, inject } from "./mutation/mutate.ts";
import { isObject, type Json, objectAt, type Pod, readPod, text } from "./pod.ts";
import type { ClusterAbilities, InjectionSettings, Namespace, ResourceBound } from "./settings.ts";

/** Pods have at most 1.5 MiB in etcd, and the review adds to that. */
const MAX_REVIEW_BYTES = 3 * 1024 * 1024;

/** Upper bounds in ms. */
const LATENCY_MS: readonly number[] = [1, 2, 5, 10, 20, 50, 100, 1_000];

const RESULTS = ["injected", "unchanged", "skipped", "refused", "invalid"] as const;
type Result = (typeof RESULTS)[number];

interface WebhookOptions {
  readonly settings: () => InjectionSettings;
  readonly abilities: () => ClusterAbilities;
  /** The metadata of a namespace. Unknown namespaces are read from the API server. */
  readonly namespace: (name: string, signal: () => AbortSignal) => Promise<Namespace> | Namespace;
  /** The known bounds of a namespace's resources. */
  readonly bounds: (namespace: string) => readonly ResourceBound[];
  readonly clock: Clock;
  readonly log: Log;
}

export class Webhook implements MetricSource {
  readonly #options: WebhookOptions;
  readonly #results = new Map<Result, number>(RESULTS.map((result) => [result, 0]));
  readonly #latency = new Float64Array(LATENCY_MS.length + 1);
  #latencySum = 0;
  #unread = 0;

  constructor(options: WebhookOptions) {
    this.#options = options;
  }

  readonly route: Route = {
    method: "POST",
    path: "/mutate-pod",
    about:
      "Injects an agent into a new pod (AdmissionReview v1); called by the Kubernetes API server.",
    access: "open",
    body: "json",
    maxBody: MAX_REVIEW_BYTES,
    handle: (request, call) => this.#handle(request, call),
  };

  collect(to: MetricSink): void {
    for (const [result, count] of this.#results)
      to.number("sluice_injector_reviews_total", [result], count);
    to.number("sluice_injector_unread_namespaces_total", [], this.#unread);
    to.buckets("sluice_injector_review_duration_ms", [], {
      bounds: LATENCY_MS,
      counts: this.#latency,
      sum: this.#latencySum,
    });
  }

  async #handle({ body }: HttpRequest, call: Call): Promise<HttpReply> {
    const { clock } = this.#options;
    const began = clock.now();
    try {
      const review = readReview(body);
      const injection = await this.#inject(review, call);
      this.#count(injection.outcome);
      this.#report(review, injection);
      return {
        status: 200,
        headers: { "content-type": "application/json" },
        body: reviewReply(review.uid, injection),
      };
    } catch (thrown) {
      this.#count("invalid");
      const fault = Fault.from(thrown);
      this.#options.log.warn({ cause: fault.cause }, `a review was not answered: ${fault.message}`);
      throw fault;
    } finally {
      this.#observe(clock.now() - began);
    }
  }

  async #inject({ pod, namespace: name }: Review, call: Call): Promise<Injection> {
    const { settings, abilities, namespace, bounds } = this.#options;
    const found = await namespace(name, () => call.signal());
    if (found.isUnread === true) this.#unread++;
    return inject({
      pod,
      namespace: found,
      settings: settings(),
      abilities: abilities(),
      bounds: bounds(name),
    });
  }

  #report({ pod, namespace, dryRun }: Review, injection: Injection): void {
    const { log } = this.#options;
    const { outcome } = injection;
    const fields = { namespace, pod: pod.name, outcome, dryRun };
    if (injection.outcome === "refused") log.warn(fields, `refused a pod: ${injection.message}`);
    else log.debug?.(fields, "answered a review");
  }

  #count(result: Result): void {
    this.#results.set(result, (this.#results.get(result) ?? 0) + 1);
  }

  #observe(ms: number): void {
    let at = 0;
    while (at < LATENCY_MS.length && ms > (LATENCY_MS[at] ?? 0)) at++;
    this.#latency[at] = (this.#latency[at] ?? 0) + 1;
    this.#latencySum += ms;
  }
}

interface Review {
  /** The answer must repeat it. */
  readonly uid: string;
  /** The namespace of the request; a new pod itself may lack it. */
  readonly namespace: string;
  readonly pod: Pod;
  readonly dryRun: boolean;
}

/** @throws Fault INVALID_ARGUMENT for a body that is not a review of a new pod */
function readReview(body: Uint8Array): Review {
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
function reviewReply(uid: string, injection: Injection): string {
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
