// A thin client of the Kubernetes API over the HTTP client of this project: the calls that Sluice makes, and no others.
// `reflector.ts` follows all objects of a kind with it.

import { pause } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import {
  HttpClient,
  type HttpClientRequest,
  type HttpClientStream,
  type HttpMethod,
} from "#client/http.ts";
import type { Environment, HttpClientSettings, ProxySettings } from "#client/http-settings.ts";
import type { Access } from "./access.ts";
import { replyFault } from "./error-replies.ts";
import { linesOf } from "./lines.ts";
import {
  asObject,
  fieldOf,
  type KubeObject,
  type Place,
  pathOf,
  type Resource,
  textOf,
} from "./objects.ts";

export interface KubeClientOptions {
  readonly access: Access;
  /** `kubernetes_client.http_client`. Its certificates take precedence over those of `access`. */
  readonly settings: HttpClientSettings;
  readonly proxy: ProxySettings;
  readonly env: Environment;
  readonly clock: Clock;
  readonly log?: Pick<Log, "debug" | "info" | "warn">;
}

/** Selects objects of a kind. */
export interface Selection {
  /** All namespaces by default. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

/**
 * A patch in one of three forms: merge patch (RFC 7396), JSON patch (RFC 6902), or server-side apply of the fields that
 * `manager` owns.
 */
export type Patch =
  | { readonly merge: object }
  | { readonly json: readonly object[] }
  | { readonly apply: object; readonly manager: string; readonly force?: boolean };

export interface Page {
  readonly items: readonly KubeObject[];
  readonly resourceVersion: string;
  /** Token of the next page; empty on the last one. */
  readonly next: string;
}

export interface WatchRequest extends Selection {
  readonly resourceVersion: string;
  /** The server ends the watch after this time. */
  readonly seconds: number;
  readonly signal: AbortSignal;
}

/** Largest page, in bytes: five hundred objects of the largest usual size. */
const MAX_PAGE = 64 * 1024 * 1024;
/** Largest event, in bytes: etcd stores objects up to 1.5 MiB, and their JSON is larger. */
const MAX_EVENT = 8 * 1024 * 1024;
const PAGE = 500;
/** Media type of lists without specs and statuses. */
const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/** Limits for repeating a call to a busy server: the number of repetitions, and the longest pause before each. */
const MAX_REPEATS = 5;
const LONGEST_PAUSE_S = 30;

interface Call {
  readonly method: HttpMethod;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly body?: object;
  readonly contentType?: string;
  /** JSON by default. */
  readonly accept?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class KubeClient {
  readonly #options: KubeClientOptions;
  readonly #http: HttpClient;
  /** Watches have connections of their own, so that a limit of connections never makes calls wait for them. */
  readonly #streams: HttpClient;

  /** @throws Fault for TLS files or proxies that cannot be used */
  constructor(options: KubeClientOptions) {
    const { access, settings, proxy, env, clock, log } = options;
    this.#options = options;
    const { files, material, insecure } = access;
    const http = {
      settings,
      key: "kubernetes_client.http_client",
      proxy,
      env,
      clock,
      fallback: { files, material, insecure },
      ...(log === undefined ? {} : { log }),
    };
    this.#http = new HttpClient({ ...http, maxBodyBytes: MAX_PAGE });
    this.#streams = new HttpClient({ ...http, unlimited: true });
  }

  get namespace(): string {
    return this.#options.access.namespace;
  }

  /** @throws Fault NOT_FOUND where there is no such object */
  async get(resource: Resource, place: Place, signal?: AbortSignal): Promise<KubeObject> {
    return asObject(await this.#call({ method: "GET", path: pathOf(resource, place), signal }));
  }

  /** Reads any document of the API, such as a list of resources, in the media type `accept`. */
  read(path: string, signal?: AbortSignal, accept?: string): Promise<unknown> {
    return this.#call({ method: "GET", path, signal, accept });
  }

  /**
   * Up to five hundred objects, whole or only their metadata. All pages show the state of the first.
   * @throws Fault OUT_OF_RANGE when that state has expired
   */
  async page(
    resource: Resource,
    { namespace, ...selectors }: Selection,
    from = "",
    signal?: AbortSignal,
    form: "whole" | "metadata" = "whole",
  ): Promise<Page> {
    const query = { ...selectors, limit: String(PAGE), continue: from || undefined };
    const path = pathOf(resource, { namespace });
    const accept = form === "whole" ? undefined : METADATA;
    const list = await this.#call({ method: "GET", path, query, signal, accept });
    const items = fieldOf(list, "items") ?? [];
    if (!Array.isArray(items)) throw new TypeError(`GET ${path}: wanted a list of items`);
    const metadata = fieldOf(list, "metadata");
    return {
      items: items.map(asObject),
      resourceVersion: textOf(metadata, "resourceVersion"),
      next: textOf(metadata, "continue"),
    };
  }

  /** All objects. Only one page is in memory at a time. */
  async *list(
    resource: Resource,
    selection: Selection,
    signal?: AbortSignal,
    form: "whole" | "metadata" = "whole",
  ): AsyncGenerator<KubeObject> {
    let from = "";
    do {
      const page = await this.page(resource, selection, from, signal, form);
      yield* page.items;
      from = page.next;
    } while (from !== "");
  }

  /** @throws Fault ALREADY_EXISTS */
  async create(resource: Resource, object: KubeObject, signal?: AbortSignal): Promise<KubeObject> {
    const path = pathOf(resource, { namespace: object.metadata.namespace });
    return asObject(await this.#call({ method: "POST", path, body: object, signal }));
  }

  /** Replaces an object. @throws Fault ABORTED when its resourceVersion has changed */
  async update(
    resource: Resource,
    object: KubeObject,
    subresource?: Place["subresource"],
    signal?: AbortSignal,
  ): Promise<KubeObject> {
    const { namespace, name } = object.metadata;
    const place = { namespace, name, ...(subresource === undefined ? {} : { subresource }) };
    const path = pathOf(resource, place);
    return asObject(await this.#call({ method: "PUT", path, body: object, signal }));
  }

  async patch(
    resource: Resource,
    place: Place,
    patch: Patch,
    signal?: AbortSignal,
  ): Promise<KubeObject> {
    const path = pathOf(resource, place);
    const call = { method: "PATCH", path, signal, ...bodyOf(patch) } as const;
    return asObject(await this.#call(call));
  }

  /** Does nothing if the object does not exist. */
  async delete(resource: Resource, place: Place, signal?: AbortSignal): Promise<void> {
    try {
      await this.#call({ method: "DELETE", path: pathOf(resource, place), signal });
    } catch (thrown) {
      if (Fault.from(thrown).code !== "NOT_FOUND") throw thrown;
    }
  }

  /** The events since a version of the list, one line of JSON each. Resolves when the response begins. */
  async watch(
    resource: Resource,
    { namespace, seconds, signal, ...rest }: WatchRequest,
  ): Promise<AsyncGenerator<string>> {
    const query = {
      ...rest,
      watch: "true",
      allowWatchBookmarks: "true",
      timeoutSeconds: String(seconds),
    };
    const call: Call = { method: "GET", path: pathOf(resource, { namespace }), query, signal };
    const stream = await this.#authorized(call, (request) => this.#streams.stream(request));
    if (stream.status !== 200)
      throw replyFault(nameOf(call), stream.status, await readJson(stream));
    return linesOf(stream.body, MAX_EVENT);
  }

  async close(): Promise<void> {
    await Promise.all([this.#http.close(), this.#streams.close()]);
  }

  /** Repeats the call while the server is busy. Resolves with the body of the reply. */
  async #call(call: Call): Promise<unknown> {
    for (let repeats = 0; ; repeats++) {
      const { status, headers, body } = await this.#authorized(call, (request) =>
        this.#http.call(request),
      );
      if (status >= 200 && status < 300) return jsonOf(nameOf(call), body);
      const seconds = retryAfter(status, headers["retry-after"]);
      if (seconds === undefined || repeats >= MAX_REPEATS) {
        throw replyFault(nameOf(call), status, parsed(body.toString("utf8")));
      }
      const { clock } = this.#options;
      await pause(seconds * 1_000, clock, call.signal ?? never());
      if (call.signal?.aborted) throw new Fault("CANCELLED", "the call was cancelled");
    }
  }

  /** Sends a request. If the server rejects the token and there is a newer one, sends it once more. */
  async #authorized<T extends { readonly status: number }>(
    call: Call,
    send: (request: HttpClientRequest) => Promise<T>,
  ): Promise<T> {
    const { url, credentials } = this.#options.access;
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(call.query ?? {}))
      if (value !== undefined) query.set(name, value);
    const search = query.size === 0 ? "" : `?${query}`;
    const attempt = (authorization: string | undefined) =>
      send({
        method: call.method,
        url: url + call.path + search,
        headers: {
          accept: call.accept ?? "application/json",
          ...(authorization === undefined ? {} : { authorization }),
          ...(call.body === undefined
            ? {}
            : { "content-type": call.contentType ?? "application/json" }),
        },
        ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
        ...(call.signal === undefined ? {} : { signal: call.signal }),
      });
    const first = await credentials.authorization();
    const reply = await attempt(first);
    if (reply.status !== 401 || !(await credentials.refused(first))) return reply;
    return attempt(await credentials.authorization());
  }
}

/** A signal that never aborts. */
function never(): AbortSignal {
  return new AbortController().signal;
}

function nameOf({ method, path }: Call): string {
  return `${method} ${path}`;
}

function bodyOf(patch: Patch): Pick<Call, "body" | "contentType" | "query"> {
  if ("merge" in patch) {
    return { body: patch.merge, contentType: "application/merge-patch+json" };
  }
  if ("json" in patch) return { body: patch.json, contentType: "application/json-patch+json" };
  const query = { fieldManager: patch.manager, force: patch.force ? "true" : undefined };
  return { body: patch.apply, contentType: "application/apply-patch+yaml", query };
}

/** Seconds until the call may be repeated; undefined if repeating is pointless. */
function retryAfter(status: number, header: string | undefined): number | undefined {
  if (header === undefined || (status !== 429 && status < 500)) return undefined;
  const seconds = Number(header);
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, LONGEST_PAUSE_S) : undefined;
}

function jsonOf(call: string, body: Buffer): unknown {
  const value = parsed(body.toString("utf8"));
  if (value === undefined) throw new Fault("UNAVAILABLE", `${call}: the reply is not JSON`);
  return value;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The body of an error reply, up to a limit. */
async function readJson({ body }: HttpClientStream): Promise<unknown> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of body) {
    parts.push(part);
    size += part.length;
    if (size > MAX_PAGE) break;
  }
  return parsed(Buffer.concat(parts).toString("utf8"));
}
