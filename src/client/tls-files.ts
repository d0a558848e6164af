// The TLS files of a client. They are read again when they change, since certificates of a service mesh live for hours.
// Unusable files never replace good ones.

import { X509Certificate } from "node:crypto";
import { createSecureContext, type SecureContext } from "node:tls";
import type { Clock } from "#base/clock.ts";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { WatchedFiles } from "#runtime/life/watched-files.ts";

/** Paths of PEM files; empty where there is none. */
export interface TlsPaths {
  /** Empty: the platform's certificate authorities. */
  readonly ca_file: string;
  readonly cert_file: string;
  readonly key_file: string;
}

/** Contents of PEM files from another source, used where there is no path. */
export type InlineTls = Partial<Readonly<Record<"ca" | "cert" | "key", Buffer>>>;

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
  readonly material?: InlineTls | undefined;
}

export class TlsFiles {
  readonly #files: WatchedFiles<keyof TlsPaths, TlsMaterial>;

  /** Throws a Fault INVALID_ARGUMENT that names the bad file. */
  constructor(paths: TlsPaths, { clock, log, key, material = {} }: TlsFilesOptions) {
    const { ca_file, cert_file, key_file } = paths;
    if ((cert_file === "") !== (key_file === "")) {
      const wanted = `${key}: wanted cert_file and key_file together, got one`;
      throw new Fault("INVALID_ARGUMENT", wanted);
    }
    this.#files = new WatchedFiles({
      setting: key,
      what: "certificates",
      files: { ca_file, cert_file, key_file },
      use: ({ ca_file: ca = material.ca, cert_file: cert, key_file }) => {
        const pair = cert === undefined ? material : { cert, key: key_file };
        return materialOf({ ca, cert: pair.cert, key: pair.key }, key, clock.wall());
      },
      clock,
      log,
    });
  }

  /** The material in use: the same object until other files are accepted. Read it before each connection. */
  get current(): TlsMaterial {
    return this.#files.current;
  }

  close(): void {
    this.#files.close();
  }
}

/** `wall` is the time in Unix ms. */
function materialOf(
  { ca, cert, key }: Omit<TlsMaterial, "context">,
  name: string,
  wall: number,
): TlsMaterial {
  let expires: Date | undefined;
  let context: SecureContext;
  try {
    // Node treats text without a certificate as an empty list of authorities; this throws instead.
    if (ca !== undefined) new X509Certificate(ca);
    if (cert !== undefined) expires = new X509Certificate(cert).validToDate;
    context = createSecureContext({ ca, cert, key, minVersion: "TLSv1.2" });
  } catch (thrown) {
    const wanted = `${name}: wanted certificates and a key in PEM that belong together`;
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${systemErrorText(thrown)}`);
  }
  if (expires !== undefined && expires.getTime() <= wall) {
    const message = `${name}.cert_file: the certificate expired on ${expires.toISOString()}`;
    throw new Fault("INVALID_ARGUMENT", message);
  }
  return { ca, cert, key, context };
}
