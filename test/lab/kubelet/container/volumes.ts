// The volumes of a pod as folders of this machine. Files from the API are kept up to date as a kubelet does it: a folder
// with the new ones takes the place of the old folder in one step.

import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { DownwardFiles, KeyFiles, VolumeSpec } from "../objects.ts";
import { fieldOf, type PodFacts } from "./environment.ts";
import type { KnownObjects } from "./known.ts";

/** Stands for the disk of the node: volumes that outlive their pod. */
const DISK = "/run/disk";
const DATA = "..data";

interface File {
  readonly path: string;
  readonly content: Buffer;
  readonly mode: number;
}

export class Volumes {
  readonly #folder: string;
  readonly #facts: PodFacts;
  readonly #known: KnownObjects;
  /** Files as they were written, by volume, to notice a change. */
  readonly #written = new Map<string, string>();
  /** Tokens by volume and path: asked for once, because tests are shorter than their lives. */
  readonly #tokens = new Map<string, Buffer>();
  readonly #paths = new Map<string, string>();

  constructor(folder: string, facts: PodFacts, known: KnownObjects) {
    this.#folder = folder;
    this.#facts = facts;
    this.#known = known;
  }

  /** Folder of a volume. */
  pathOf(name: string): string {
    const path = this.#paths.get(name);
    if (path === undefined) throw new Error(`the pod has no volume ${name}`);
    return path;
  }

  /** Makes all volumes, or brings their files up to date. Rejects where something does not exist yet. */
  async fill(): Promise<void> {
    for (const volume of this.#facts.pod.spec.volumes ?? []) await this.#fill(volume);
  }

  async #fill(volume: VolumeSpec): Promise<void> {
    const { name, emptyDir, persistentVolumeClaim: claim } = volume;
    if (emptyDir !== undefined) {
      this.#make(name, join(this.#folder, name));
      return;
    }
    if (claim !== undefined) {
      if (!this.#paths.has(name)) this.#make(name, await this.#claimed(claim.claimName));
      return;
    }
    const files = await this.#filesOf(volume);
    const folder = join(this.#folder, name);
    const content = files.map((file) => [file.path, file.content.toString("base64"), file.mode]);
    const text = JSON.stringify(content);
    if (this.#written.get(name) === text) return;
    mkdirSync(folder, { recursive: true });
    this.#write(folder, files);
    this.#written.set(name, text);
    this.#paths.set(name, folder);
  }

  #make(name: string, path: string): void {
    if (this.#paths.has(name)) return;
    mkdirSync(path, { recursive: true });
    const { fsGroup } = this.#facts.pod.spec.securityContext ?? {};
    if (fsGroup !== undefined) chownSync(path, 0, fsGroup);
    chmodSync(path, fsGroup === undefined ? 0o777 : 0o2777);
    this.#paths.set(name, path);
  }

  async #claimed(name: string): Promise<string> {
    const { namespace } = this.#facts.pod.metadata;
    const ref = { apiVersion: "v1", kind: "PersistentVolumeClaim", name, namespace };
    const { volumeName } = await this.#known.specOf(ref);
    const volume = { apiVersion: "v1", kind: "PersistentVolume", name: volumeName };
    const { hostPath } = await this.#known.specOf(volume);
    return join(DISK, hostPath.path);
  }

  async #filesOf(volume: VolumeSpec): Promise<readonly File[]> {
    const { name, configMap, secret, downwardAPI, projected } = volume;
    if (configMap !== undefined) return this.#keys("ConfigMap", configMap);
    if (secret !== undefined) return this.#keys("Secret", secret);
    if (downwardAPI !== undefined) return this.#fields(downwardAPI);
    if (projected === undefined) {
      const [, kind] = Object.keys(volume);
      throw new Error(`volume ${name}: this kubelet does not know ${kind}`);
    }
    const files: File[] = [];
    for (const source of projected.sources) {
      if (source.configMap !== undefined)
        files.push(...(await this.#keys("ConfigMap", source.configMap)));
      if (source.secret !== undefined) files.push(...(await this.#keys("Secret", source.secret)));
      if (source.downwardAPI !== undefined) files.push(...this.#fields(source.downwardAPI));
      const token = source.serviceAccountToken;
      if (token !== undefined)
        files.push({ path: token.path, content: await this.#token(name, token), mode: 0o644 });
    }
    return files;
  }

  async #keys(kind: "ConfigMap" | "Secret", from: KeyFiles): Promise<readonly File[]> {
    const name = from.secretName ?? from.name ?? "";
    const data = await this.#known.dataOf(kind, name, this.#facts.pod.metadata.namespace);
    if (data === undefined && from.optional !== true)
      throw new Error(`${kind} "${name}" not found`);
    const mode = from.defaultMode ?? 0o644;
    const items = from.items ?? Object.keys(data ?? {}).map((key) => ({ key, path: key, mode }));
    return items.flatMap((item) => {
      const content = data?.[item.key];
      if (content !== undefined) return [{ path: item.path, content, mode: item.mode ?? mode }];
      if (from.optional === true) return [];
      throw new Error(`no key ${item.key} in ${kind} "${name}"`);
    });
  }

  #fields({ items = [] }: DownwardFiles): readonly File[] {
    return items.map(({ path, fieldRef }) => ({
      path,
      content: Buffer.from(fieldOf(fieldRef?.fieldPath ?? "", this.#facts)),
      mode: 0o644,
    }));
  }

  async #token(
    volume: string,
    {
      path,
      audience,
      expirationSeconds,
    }: { readonly path: string; readonly audience?: string; readonly expirationSeconds?: number },
  ): Promise<Buffer> {
    const key = `${volume}/${path}`;
    const known = this.#tokens.get(key);
    if (known !== undefined) return known;
    const { metadata, spec } = this.#facts.pod;
    const account = spec.serviceAccountName ?? "default";
    const answer = await this.#known.client.call(
      "POST",
      `/api/v1/namespaces/${metadata.namespace}/serviceaccounts/${account}/token`,
      {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: {
          audiences: audience === undefined ? [] : [audience],
          expirationSeconds,
          boundObjectRef: { apiVersion: "v1", kind: "Pod", name: metadata.name, uid: metadata.uid },
        },
      },
    );
    if (answer.status !== 201) throw new Error(`token of ${account}: ${answer.body?.message}`);
    const token = Buffer.from(answer.body.status.token);
    this.#tokens.set(key, token);
    return token;
  }

  /** Writes the files into a new folder, to which `..data` points from then on. */
  #write(folder: string, files: readonly File[]): void {
    const { fsGroup } = this.#facts.pod.spec.securityContext ?? {};
    const fresh = mkdtempSync(join(folder, "..files-"));
    chmodSync(fresh, 0o755);
    for (const { path, content, mode } of files) {
      const file = join(fresh, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
      // Members of the group may read what belongs to it.
      chmodSync(file, fsGroup === undefined ? mode : mode | 0o040);
      if (fsGroup !== undefined) chownSync(file, 0, fsGroup);
    }
    const link = join(folder, DATA);
    const old = existsSync(link) ? join(folder, readlinkSync(link)) : undefined;
    const next = join(folder, "..data_tmp");
    symlinkSync(fresh.slice(folder.length + 1), next);
    renameSync(next, link);
    for (const { path } of files) {
      const [top = ""] = path.split("/");
      if (!existsSync(join(folder, top))) symlinkSync(join(DATA, top), join(folder, top));
    }
    if (old !== undefined) rmSync(old, { recursive: true });
  }
}
