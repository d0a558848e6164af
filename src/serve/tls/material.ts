// The files that TLS needs, read and judged together: either all of them make a working context, or the
// port does not start (or keeps the context it has).

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import { Fault } from "#base/fault.ts";
import { reasonOf } from "#base/reason.ts";
import type { TlsSettings } from "../settings.ts";

export interface Material {
  readonly context: SecureContextOptions;
  /** Equal for equal file contents. */
  readonly digest: string;
}

/** Reads the files; their content is not yet judged. */
export async function readMaterial(settings: TlsSettings): Promise<Material> {
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

/** Throws a Fault when the files do not make a context together. */
export function judgeMaterial({ context }: Material): void {
  try {
    createSecureContext(context);
  } catch (cause) {
    const wanted =
      "server.tls: the files do not hold a certificate, its key and (if set) an authority";
    throw new Fault("INVALID_ARGUMENT", `${wanted}: ${reasonOf(cause)}`);
  }
  // Node takes an authority file without any certificate silently, and would then trust nobody.
  if (context.ca !== undefined && !String(context.ca).includes("-----BEGIN CERTIFICATE-----")) {
    throw new Fault("INVALID_ARGUMENT", "server.tls.client_ca_file holds no certificate");
  }
}

async function read(path: string, key: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (cause) {
    const wanted = `server.tls.${key}: wanted a file that can be read at ${path}`;
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${reasonOf(cause)}`);
  }
}
