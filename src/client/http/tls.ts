// TLS of an HTTP client. A bad file stops the process from starting.

import { appendFile, closeSync, openSync } from "node:fs";
import type { Socket } from "node:net";
import { type SecureContext, TLSSocket } from "node:tls";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { HttpClientSettings } from "../http-settings.ts";
import { type InlineTls, TlsFiles, type TlsFilesOptions, type TlsPaths } from "../tls-files.ts";

export interface Tls {
  /** The context for the next connection: the same object until other files are in use. */
  secureContext(): SecureContext;
  readonly rejectUnauthorized: boolean;
  close(): void;
  /** Appends the session keys of a connection to the key log file, if there is one. */
  logKeys(socket: Socket): void;
}

/** TLS for calls whose settings name no files. */
export interface TlsFallback {
  readonly files: TlsPaths;
  readonly material: InlineTls;
  /** Accept any server certificate. */
  readonly insecure: boolean;
}

/** `key` is that of the settings. Throws a Fault that names the bad file and its key. */
export function openTls(
  { tls: settings, key_log_file }: Pick<HttpClientSettings, "tls" | "key_log_file">,
  {
    fallback,
    key,
    ...options
  }: Omit<TlsFilesOptions, "material"> & { readonly fallback?: TlsFallback | undefined },
): Tls {
  const file = settings.key_log_file || key_log_file;
  if (file !== "")
    appendable(file, `${key}.${settings.key_log_file === "" ? "" : "tls."}key_log_file`);
  const paths = {
    ca_file: settings.ca_file || (fallback?.files.ca_file ?? ""),
    cert_file: settings.cert_file || (fallback?.files.cert_file ?? ""),
    key_file: settings.key_file || (fallback?.files.key_file ?? ""),
  };
  const files = new TlsFiles(paths, {
    ...options,
    key: `${key}.tls`,
    material: fallback?.material,
  });
  return {
    secureContext: () => files.current.context,
    rejectUnauthorized: !(settings.insecure_skip_verify || fallback?.insecure),
    close: () => files.close(),
    logKeys(socket) {
      if (file === "" || !(socket instanceof TLSSocket)) return;
      // The file was writable at the start. A lost line only matters for debugging.
      socket.on("keylog", (line) => appendFile(file, line, { mode: 0o600 }, () => undefined));
    },
  };
}

function appendable(path: string, key: string): void {
  try {
    closeSync(openSync(path, "a", 0o600));
  } catch (thrown) {
    const message = `${key}: ${path}: wanted a file that can be written, got ${systemErrorText(thrown)}`;
    throw new Fault("INVALID_ARGUMENT", message);
  }
}
