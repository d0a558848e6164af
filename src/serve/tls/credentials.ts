// Certificate, key and client CA, read and validated together: either all of them form a working TLS context, or the
// port does not start (or keeps the context that it has).

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { TlsSettings } from "../settings.ts";
import { expiryOf } from "./expiry.ts";

export interface TlsCredentials {
  readonly context: SecureContextOptions;
  /** Equal if the contents of the files are equal. */
  readonly digest: string;
}

/** Reads the files without validating their contents. */
export async function readCredentials(settings: TlsSettings): Promise<TlsCredentials> {
  const { cert_file, key_file, client_ca_file, allowed_cn } = settings;
  if (cert_file === "" || key_file === "") {
    throw new Fault("INVALID_ARGUMENT", "server.tls.enabled needs cert_file and key_file");
  }
  if (allowed_cn !== "" && client_ca_file === "") {
    throw new Fault("INVALID_ARGUMENT", "server.tls.allowed_cn needs client_ca_file");
  }
  const [cert, key, ca] = await Promise.all([
    read(cert_file, "cert_file"),
    read(key_file, "key_file"),
    client_ca_file === "" ? undefined : read(client_ca_file, "client_ca_file"),
  ]);
  const digest = createHash("sha256");
  for (const part of [cert, key, ca ?? Buffer.alloc(0)])
    digest.update(`${part.length}:`).update(part);
  return {
    context: { cert, key, minVersion: "TLSv1.2", ...(ca !== undefined && { ca }) },
    digest: digest.digest("hex"),
  };
}

/**
 * Throws a Fault if the files do not form a TLS context together, or if a certificate has expired at `wall`, Unix ms.
 * Returns when the first certificate expires.
 */
export function validateCredentials({ context }: TlsCredentials, wall: number): number {
  try {
    createSecureContext(context);
  } catch (cause) {
    const wanted = "server.tls: the files do not contain a certificate, its key and (if set) a CA";
    throw new Fault("INVALID_ARGUMENT", `${wanted}: ${systemErrorText(cause)}`);
  }
  // Node silently accepts a CA file without any certificate, and would then trust no client.
  if (context.ca !== undefined && !String(context.ca).includes("-----BEGIN CERTIFICATE-----")) {
    throw new Fault("INVALID_ARGUMENT", "server.tls.client_ca_file contains no certificate");
  }
  const expiresAt = expiryOf(String(context.cert));
  if (expiresAt > wall) return expiresAt;
  const wanted = "server.tls.cert_file: wanted a certificate that is still valid";
  const got = `one that expired on ${new Date(expiresAt).toISOString()}`;
  throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${got}`);
}

async function read(path: string, key: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (cause) {
    const wanted = `server.tls.${key}: wanted a file that can be read at ${path}`;
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${systemErrorText(cause)}`);
  }
}
