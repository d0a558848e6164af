// Calls a Kubernetes API server for tests, as kubectl does: apply, get, list, delete and wait. It shares nothing with the
// client of Sluice, so that it can judge what that one did.

import { request } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { parseAllDocuments } from "yaml";

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly generation?: number;
  };
  // biome-ignore lint/suspicious/noExplicitAny: objects of all kinds, whose fields a test names
  readonly [field: string]: any;
}

/** Names an object, or with an empty name all objects of a kind. `apiVersion` is as in manifests: `v1`, `apps/v1`. */
export interface Ref {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name?: string;
  /** Absent for objects of the whole cluster, and for all namespaces. */
  readonly namespace?: string;
}

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: any object of the API
  readonly body: any;
  /** Warnings of the API server and of webhooks. */
  readonly warnings: readonly string[];
}

export interface KubeClientOptions {
  readonly url: string;
  readonly ca: string;
  readonly token: string;
}

/** Time for a condition on a busy machine. */
const PATIENCE_MS = 120_000;
const POLL_MS = 50;
/** Owner of the fields that tests apply. */
const MANAGER = "test";

export class KubeClient {
  readonly #options: KubeClientOptions;
  /** Names of resources by kind, by API version. */
  readonly #resources = new Map<string, ReadonlyMap<string, Resource>>();

  constructor(options: KubeClientOptions) {
    this.#options = options;
  }

  get url(): string {
    return this.#options.url;
  }

  /** The certificate authorities of the server, in PEM. */
  get ca(): string {
    return this.#options.ca;
  }

  get token(): string {
    return this.#options.token;
  }

  /** A client that speaks for somebody else, such as a service account. */
  as(token: string): KubeClient {
    return new KubeClient({ ...this.#options, token });
  }

  /** Sends one request and resolves with the answer, whatever its status. A string is sent as it is. */
  call(
    method: string,
    path: string,
    body?: unknown,
    contentType = "application/json",
    accept = "application/json",
  ): Promise<Answer> {
    const { url, ca, token } = this.#options;
    const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const headers = {
        authorization: `Bearer ${token}`,
        accept,
        ...(text === undefined
          ? {}
          : // Node would send the body of a DELETE without its length.
            { "content-type": contentType, "content-length": Buffer.byteLength(text) }),
      };
      const sent = request(
        new URL(path, url),
        { method, headers, ca, agent: false },
        (response) => {
          let received = "";
          response.setEncoding("utf8");
          response.on("data", (part: string) => {
            received += part;
          });
          response.on("error", reject);
          response.on("end", () => {
            const warnings = [response.headersDistinct["warning"] ?? []].flat();
            resolve({
              status: response.statusCode ?? 0,
              body: bodyOf(received),
              warnings: warnings.map((each) => /^299 - "(.*)"$/.exec(each)?.[1] ?? each),
            });
          });
        },
      );
      sent.on("error", reject);
      sent.end(text);
    });
  }

  /**
   * Applies every document on the server's side, like `kubectl apply --server-side --force-conflicts`, and waits for kinds
   * that a custom resource definition has only just made. Objects without a namespace get this one.
   */
  async apply(
    documents: string | readonly object[],
    namespace?: string,
  ): Promise<readonly KubeObject[]> {
    const objects = typeof documents === "string" ? objectsIn(documents) : documents;
    const applied: KubeObject[] = [];
    for (const each of objects) {
      const object = each as KubeObject;
      const path = await this.pathOf({
        apiVersion: object.apiVersion,
        kind: object.kind,
        name: object.metadata.name,
        ...namespaced(object.metadata.namespace ?? namespace),
      });
      const query = `?fieldManager=${MANAGER}&force=true`;
      const answer = await this.call("PATCH", path + query, object, "application/apply-patch+yaml");
      applied.push(checked(answer, `apply ${object.kind} ${object.metadata.name}`));
    }
    return applied;
  }

  /** Undefined where there is no such object. */
  async get(ref: Ref): Promise<KubeObject | undefined> {
    const answer = await this.call("GET", await this.pathOf(ref));
    return answer.status === 404 ? undefined : checked(answer, `get ${ref.kind} ${ref.name}`);
  }

  /** The objects of a kind, in one namespace or in all. */
  async list(ref: Ref, labelSelector = ""): Promise<readonly KubeObject[]> {
    const query = labelSelector === "" ? "" : `?labelSelector=${encodeURIComponent(labelSelector)}`;
    const path = await this.pathOf(ref);
    return checked(await this.call("GET", path + query), `list ${ref.kind}`)["items"];
  }

  /** Merges `changes` into an object; `subresource` may be `status` or `scale`. */
  async merge(ref: Ref, changes: object, subresource = ""): Promise<KubeObject> {
    const path = (await this.pathOf(ref)) + (subresource === "" ? "" : `/${subresource}`);
    const answer = await this.call("PATCH", path, changes, "application/merge-patch+json");
    return checked(answer, `patch ${ref.kind} ${ref.name}`);
  }

  /** Deletes an object, or does nothing where there is none. */
  async delete(ref: Ref): Promise<void> {
    const answer = await this.call("DELETE", await this.pathOf(ref));
    if (answer.status !== 404) checked(answer, `delete ${ref.kind} ${ref.name}`);
  }

  /** Reads an object until the condition holds, and resolves with it. A failure shows the object as it was last. */
  async wait(ref: Ref, what: string, holds: (object: KubeObject) => boolean): Promise<KubeObject> {
    let last: KubeObject | undefined;
    const started = performance.now();
    while (performance.now() - started < PATIENCE_MS) {
      last = await this.get(ref);
      if (last !== undefined && holds(last)) return last;
      await sleep(POLL_MS);
    }
    throw new Error(`${what}: not within ${PATIENCE_MS} ms; last: ${JSON.stringify(last)}`);
  }

  /** Waits until there is no such object. */
  async gone(ref: Ref): Promise<void> {
    const started = performance.now();
    while ((await this.get(ref)) !== undefined) {
      if (performance.now() - started > PATIENCE_MS) throw new Error(`${ref.name} is not gone`);
      await sleep(POLL_MS);
    }
  }

  /** A token of a service account, as pods get it. `seconds`: at least 600. */
  async tokenOf(namespace: string, account: string, seconds = 3_600): Promise<string> {
    const answer = await this.call(
      "POST",
      `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`,
      {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: { expirationSeconds: seconds },
      },
    );
    return checked(answer, `token of ${account}`)["status"].token;
  }

  /** Path of an object or of its collection. Waits until the server knows the kind. */
  async pathOf({ apiVersion, kind, name, namespace }: Ref): Promise<string> {
    const group = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    const { plural, isNamespaced } = await this.#resource(group, kind);
    const inside = isNamespaced && namespace !== undefined ? `/namespaces/${namespace}` : "";
    return `${group}${inside}/${plural}${name === undefined ? "" : `/${name}`}`;
  }

  async #resource(group: string, kind: string): Promise<Resource> {
    const started = performance.now();
    for (;;) {
      const known = this.#resources.get(group)?.get(kind);
      if (known !== undefined) return known;
      const { status, body } = await this.call("GET", group);
      if (status === 200) this.#resources.set(group, resourcesOf(body.resources));
      else if (status !== 404) throw new Error(`${group}: ${JSON.stringify(body)}`);
      if (this.#resources.get(group)?.has(kind)) continue;
      if (performance.now() - started > PATIENCE_MS) throw new Error(`no kind ${kind} in ${group}`);
      await sleep(POLL_MS);
    }
  }
}

interface Resource {
  readonly plural: string;
  readonly isNamespaced: boolean;
}

function resourcesOf(
  listed: readonly {
    readonly name: string;
    readonly kind: string;
    readonly namespaced: boolean;
  }[],
): ReadonlyMap<string, Resource> {
  return new Map(
    listed
      .filter(({ name }) => !name.includes("/"))
      .map(({ name, kind, namespaced }) => [kind, { plural: name, isNamespaced: namespaced }]),
  );
}

/** The documents of a YAML text that are objects. */
export function objectsIn(text: string): readonly KubeObject[] {
  return parseAllDocuments(text)
    .map((document) => {
      if (document.errors[0] !== undefined) throw document.errors[0];
      return document.toJS() as KubeObject | null;
    })
    .filter((object) => object !== null);
}

function namespaced(namespace: string | undefined): { readonly namespace?: string } {
  return namespace === undefined ? {} : { namespace };
}

function checked({ status, body }: Answer, what: string): KubeObject {
  if (status >= 200 && status < 300) return body;
  throw new Error(`${what}: ${status} ${body?.message ?? JSON.stringify(body)}`);
}

function bodyOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
