// TLS settings of an HTTP client. Files are read once, when the client is created, so that a bad file stops the
// process from starting.

import { X509Certificate } from "node:crypto";
import { appendFile, closeSync, openSync, readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { createSecureContext, type SecureContext, TLSSocket } from "node:tls";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { ClientTlsSettings } from "../http-settings.ts";

export interface Tls {
  readonly secureContext: SecureContext;
  readonly rejectUnauthorized: boolean;
  /** Appends the session keys of a connection to the key log file, if one is configured. */
  logKeys(socket: Socket): void;
}

/** Falls back to the file `keyLog` when the settings have no key log file. Throws a Fault that names the bad file. */
export function openTls(settings: ClientTlsSettings, keyLog: string): Tls {
  const [ca, cert, key] = (["ca_file", "cert_file", "key_file"] as const).map((name) =>
    settings[name] === "" ? undefined : read(name, settings[name]),
  );
  if ((cert === undefined) !== (key === undefined)) {
    throw new Fault("INVALID_ARGUMENT", "tls: wanted cert_file and key_file together, got one");
  }
  const file = settings.key_log_file || keyLog;
  if (file !== "") appendable(file);
  return {
    secureContext: contextOf({ ca, cert, key }),
    rejectUnauthorized: !settings.insecure_skip_verify,
    logKeys(socket) {
      if (file === "" || !(socket instanceof TLSSocket)) return;
      // The file was writable when the client was created. A line lost later only matters for debugging.
      socket.on("keylog", (line) => appendFile(file, line, { mode: 0o600 }, () => undefined));
    },
  };
}

function read(name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (thrown) {
    const message = `tls.${name}: cannot read ${path}: ${systemErrorText(thrown)}`;
    throw new Fault("FAILED_PRECONDITION", message, { cause: thrown });
  }
}

function appendable(path: string): void {
  try {
    closeSync(openSync(path, "a", 0o600));
  } catch (thrown) {
    const message = `tls.key_log_file: cannot write ${path}: ${systemErrorText(thrown)}`;
    throw new Fault("FAILED_PRECONDITION", message, { cause: thrown });
  }
}

function contextOf(files: {
  readonly ca: Buffer | undefined;
  readonly cert: Buffer | undefined;
  readonly key: Buffer | undefined;
}): SecureContext {
  try {
    // Node takes text without a certificate as an empty list of authorities; this throws instead.
    if (files.ca !== undefined) new X509Certificate(files.ca);
    return createSecureContext({ ...files, minVersion: "TLSv1.2" });
  } catch (thrown) {
    const message = "tls: wanted certificates and a key in PEM that belong together";
    throw new Fault("FAILED_PRECONDITION", message, { cause: thrown });
  }
}
