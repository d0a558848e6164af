// The TLS files of a client, which are read again when they change: certificates that a service mesh or an operator
// issues live for hours. Files that cannot be used never replace good ones.

import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext, type SecureContext } from "node:tls";
import type { Clock } from "#base/clock.ts";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { Log } from "#base/log.ts";

/** Paths of PEM files; empty where there is none. */
export interface TlsPaths {
  /** Empty: the platform's certificate authorities. */
  readonly ca_file: string;
  readonly cert_file: string;
  readonly key_file: string;
}

/** The contents of the files, which belong together. */
export interface TlsMaterial {
  readonly ca: Buffer | undefined;
  readonly cert: Buffer | undefined;
  readonly key: Buffer | undefined;
  readonly context: SecureContext;
}

export interface TlsFilesOptions {
  readonly clock: Clock;
  readonly log?: Pick<Log, "info" | "warn"> | undefined;
  /** Key of the settings in messages, such as `tls`. */
  readonly key: string;
}

/** Milliseconds between two looks at the files. They happen when a connection is made, at no other time. */
const LOOK_MS = 10_000;

export class TlsFiles {
  readonly #paths: TlsPaths;
  readonly #options: TlsFilesOptions;
  #material: TlsMaterial;
  #digest: string;
  /** Digest of files that were refused, so that they are reported once. */
  #refused = "";
  /** On the monotonic clock. */
  #lookedAt: number;

  /** Throws a Fault that names the bad file. */
  constructor(paths: TlsPaths, options: TlsFilesOptions) {
    this.#paths = paths;
    this.#options = options;
    if ((paths.cert_file === "") !== (paths.key_file === "")) {
      const wanted = `${options.key}: wanted cert_file and key_file together, got one`;
      throw new Fault("INVALID_ARGUMENT", wanted);
    }
    const files = this.#read();
    this.#digest = files.digest;
    this.#material = this.#use(files);
    this.#lookedAt = options.clock.now();
  }

  /** The material in use: the same object until other files are accepted. Call it before each connection. */
  current(): TlsMaterial {
    const { clock, log, key } = this.#options;
    const now = clock.now();
    if (now - this.#lookedAt < LOOK_MS) return this.#material;
    this.#lookedAt = now;
    let digest = "unreadable";
    try {
      const files = this.#read();
      ({ digest } = files);
      if (digest === this.#digest) this.#refused = "";
      if (digest === this.#digest || digest === this.#refused) return this.#material;
      this.#material = this.#use(files);
      this.#digest = digest;
      this.#refused = "";
      log?.info({}, `${key}: reloaded the certificate files`);
    } catch (thrown) {
      if (this.#refused !== digest) {
        const { message } = Fault.from(thrown);
        log?.warn(
          {},
          `keeping the current certificates: the changed files are invalid: ${message}`,
        );
      }
      this.#refused = digest;
    }
    return this.#material;
  }

  #read() {
    const [ca, cert, key] = (["ca_file", "cert_file", "key_file"] as const).map((name) =>
      this.#paths[name] === "" ? undefined : read(this.#options.key, name, this.#paths[name]),
    );
    const digest = createHash("sha256");
    for (const part of [ca, cert, key]) digest.update(`${part?.length ?? "-"}:`).update(part ?? "");
    return { ca, cert, key, digest: digest.digest("hex") };
  }

  #use({ ca, cert, key }: Omit<TlsMaterial, "context">): TlsMaterial {
    const { key: name, clock } = this.#options;
    let expires: Date | undefined;
    let context: SecureContext;
    try {
      // Node takes text without a certificate as an empty list of authorities; this throws instead.
      if (ca !== undefined) new X509Certificate(ca);
      if (cert !== undefined) expires = new X509Certificate(cert).validToDate;
      context = createSecureContext({ ca, cert, key, minVersion: "TLSv1.2" });
    } catch (thrown) {
      const message = `${name}: wanted certificates and a key in PEM that belong together`;
      throw new Fault("FAILED_PRECONDITION", message, { cause: thrown });
    }
    if (expires !== undefined && expires.getTime() <= clock.wall()) {
      const message = `${name}.cert_file: the certificate expired on ${expires.toISOString()}`;
      throw new Fault("FAILED_PRECONDITION", message);
    }
    return { ca, cert, key, context };
  }
}

function read(key: string, name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (thrown) {
    const message = `${key}.${name}: cannot read ${path}: ${systemErrorText(thrown)}`;
    throw new Fault("FAILED_PRECONDITION", message, { cause: thrown });
  }
}
