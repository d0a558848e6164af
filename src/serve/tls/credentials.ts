// Certificate, key and client CA of a port. Unless all of them form a working TLS context, the port does not start, or
// keeps the context that it has.

import { createSecureContext, type SecureContextOptions } from "node:tls";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { Contents } from "#runtime/life/watched-files.ts";
import type { TlsSettings } from "../settings.ts";
import { type Expiry, expiryOf } from "./expiry.ts";

export interface TlsCredentials {
  readonly context: SecureContextOptions;
  /** Of the certificate that expires first. */
  readonly expiry: Expiry;
}

/** Throws a Fault if settings are missing that others need. */
export function requireFiles({
  cert_file,
  key_file,
  client_ca_file,
  allowed_cn,
  key = "server.tls",
}: TlsSettings): void {
  if (cert_file === "" || key_file === "") {
    throw new Fault("INVALID_ARGUMENT", `${key}.enabled needs cert_file and key_file`);
  }
  if (allowed_cn !== "" && client_ca_file === "") {
    throw new Fault("INVALID_ARGUMENT", `${key}.allowed_cn needs client_ca_file`);
  }
}

/**
 * Throws a Fault if the contents of the files do not form a TLS context together, or if a certificate has expired at
 * `wall`, Unix ms. `setting` is the configuration key of the files.
 */
export function credentialsOf(
  files: Contents<"cert_file" | "key_file" | "client_ca_file">,
  wall: number,
  setting = "server.tls",
): TlsCredentials {
  const { cert_file: cert, key_file: key, client_ca_file: ca } = files;
  const context = { cert, key, minVersion: "TLSv1.2", ...(ca !== undefined && { ca }) } as const;
  try {
    createSecureContext(context);
  } catch (cause) {
    const wanted = `${setting}: the files do not contain a certificate, its key and (if set) a CA`;
    throw new Fault("INVALID_ARGUMENT", `${wanted}: ${systemErrorText(cause)}`);
  }
  // Node silently accepts a CA file without any certificate, and would then trust no client.
  if (ca !== undefined && !String(ca).includes("-----BEGIN CERTIFICATE-----")) {
    throw new Fault("INVALID_ARGUMENT", `${setting}.client_ca_file contains no certificate`);
  }
  const expiry = expiryOf(String(cert));
  const { expiresAt } = expiry;
  if (expiresAt > wall) return { context, expiry };
  const wanted = `${setting}.cert_file: wanted a certificate that is still valid`;
  const got = `one that expired on ${new Date(expiresAt).toISOString()}`;
  throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${got}`);
}
