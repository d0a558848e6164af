// Objects that the kubelet has read from the API: ConfigMaps, Secrets and tokens. While the API server is away, the last that it said
// counts, as with a real kubelet.

import type { KubeClient, KubeObject, Ref } from "../../../kit/kube/client.ts";

export class KnownObjects {
  readonly client: KubeClient;
  readonly #last = new Map<string, KubeObject | undefined>();

  constructor(client: KubeClient) {
    this.client = client;
  }

  /** The data of a ConfigMap or a Secret, decoded; undefined where there is none. */
  async dataOf(
    kind: "ConfigMap" | "Secret",
    name: string,
    namespace: string,
  ): Promise<Readonly<Record<string, Buffer>> | undefined> {
    const object = await this.#read({ apiVersion: "v1", kind, name, namespace });
    if (object === undefined) return undefined;
    const decode = (entries: object | undefined, encoding: "utf8" | "base64") =>
      Object.entries(entries ?? {}).map(([key, text]) => [key, Buffer.from(text, encoding)]);
    return Object.fromEntries([
      ...decode(object["data"], kind === "Secret" ? "base64" : "utf8"),
      ...decode(object["binaryData"], "base64"),
    ]);
  }

  /** The spec of an object that has to exist. */
  // biome-ignore lint/suspicious/noExplicitAny: specs of all kinds, whose fields the caller names
  async specOf(ref: Ref): Promise<any> {
    const object = await this.#read(ref);
    if (object === undefined) throw new Error(`${ref.kind} "${ref.name}" not found`);
    return object["spec"];
  }

  async #read(ref: Ref): Promise<KubeObject | undefined> {
    const key = JSON.stringify(ref);
    try {
      this.#last.set(key, await this.client.get(ref));
    } catch (error) {
      if (!this.#last.has(key)) throw error;
    }
    return this.#last.get(key);
  }
}
