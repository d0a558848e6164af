// TLS of an HTTP client. A bad file stops the process from starting.

import { appendFile, closeSync, openSync } from "node:fs";
import type { Socket } from "node:net";
import { type SecureContext, TLSSocket } from "node:tls";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { ClientTlsSettings } from "../http-settings.ts";
import { TlsFiles, type TlsFilesOptions } from "../tls-files.ts";

export interface Tls {
  /** The context for the next connection: the same object until other files are in use. */
  secureContext(): SecureContext;
  readonly rejectUnauthorized: boolean;
  close(): void;
  /** Appends the session keys of a connection to the key log file, if one is configured. */
  logKeys(socket: Socket): void;
}

/** Falls back to the file `keyLog` when the settings have no key log file. Throws a Fault that names the bad file. */
export function openTls(
  settings: ClientTlsSettings,
  keyLog: string,
  options: Omit<TlsFilesOptions, "key">,
): Tls {
  const file = settings.key_log_file || keyLog;
  if (file !== "") appendable(file);
  const files = new TlsFiles(settings, { ...options, key: "tls" });
  return {
    secureContext: () => files.current.context,
    rejectUnauthorized: !settings.insecure_skip_verify,
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
