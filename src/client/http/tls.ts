// TLS of an HTTP client. A bad file stops the process from starting.

import { appendFile, closeSync, openSync } from "node:fs";
import type { Socket } from "node:net";
import { type SecureContext, TLSSocket } from "node:tls";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { ClientTlsSettings } from "../http-settings.ts";
import { type InlineTls, TlsFiles, type TlsFilesOptions, type TlsPaths } from "../tls-files.ts";

export interface Tls {
  /** The context for the next connection: the same object until other files are in use. */
  secureContext(): SecureContext;
  readonly rejectUnauthorized: boolean;
  close(): void;
  /** Appends the session keys of a connection to the key log file, if one is configured. */
  logKeys(socket: Socket): void;
}

/** TLS settings for calls whose own settings name none. */
export interface TlsFallback {
  readonly files: TlsPaths;
  readonly material: InlineTls;
  /** Accept any server certificate. */
  readonly insecure: boolean;
}

/** Falls back to the file `keyLog` when the settings have no key log file. Throws a Fault that names the bad file. */
export function openTls(
  settings: ClientTlsSettings,
  keyLog: string,
  {
    fallback,
    ...options
  }: Omit<TlsFilesOptions, "key" | "material"> & { readonly fallback?: TlsFallback | undefined },
): Tls {
  const file = settings.key_log_file || keyLog;
  if (file !== "") appendable(file);
  const paths = {
    ca_file: settings.ca_file || (fallback?.files.ca_file ?? ""),
    cert_file: settings.cert_file || (fallback?.files.cert_file ?? ""),
    key_file: settings.key_file || (fallback?.files.key_file ?? ""),
  };
  const files = new TlsFiles(paths, { ...options, key: "tls", material: fallback?.material });
  return {
    secureContext: () => files.current.context,
    rejectUnauthorized: !(settings.insecure_skip_verify || fallback?.insecure),
    close: () => files.close(),
    logKeys(socket) {
      if (file === "" || !(socket instanceof TLSSocket)) return;
      // The file was writable when the client was created. A line lost later only matters for debugging.
      socket.on("keylog", (line) => appendFile(file, line, { mode: 0o600 }, () => undefined));
    },
  };
}

function appendable(path: string): void {
  try {
    closeSync(openSync(path, "a", 0o600));
  } catch (thrown) {
    const message = `tls.key_log_file: cannot write ${path}: ${systemErrorText(thrown)}`;
    throw new Fault("FAILED_PRECONDITION", message, { cause: thrown });
  }
}
