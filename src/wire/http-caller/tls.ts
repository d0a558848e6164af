// The TLS side of calls: files are read once, when the caller is made, so that a bad one refuses the start.

import { X509Certificate } from "node:crypto";
import { appendFile, closeSync, openSync, readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { createSecureContext, type SecureContext, TLSSocket } from "node:tls";
import { Fault } from "#base/fault.ts";
import { reasonOf } from "#base/reason.ts";
import type { ClientTlsSettings } from "../http-caller.ts";

export interface Tls {
  readonly secureContext: SecureContext;
  readonly rejectUnauthorized: boolean;
  /** Appends the session keys of a connection to the key log, where there is one. */
  keep(socket: Socket): void;
}

/** `keyLog` counts where the settings name no file of their own. Throws a Fault that names the file. */
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
    keep(socket) {
      if (file === "" || !(socket instanceof TLSSocket)) return;
      // It could be written when the caller was made; a line lost since then is lost for debugging only.
      socket.on("keylog", (line) => appendFile(file, line, { mode: 0o600 }, () => undefined));
    },
  };
}

function read(name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (thrown) {
    const message = `tls.${name}: cannot read ${path}: ${reasonOf(thrown)}`;
    throw new Fault("FAILED_PRECONDITION", message, { cause: thrown });
  }
}

function appendable(path: string): void {
  try {
    closeSync(openSync(path, "a", 0o600));
  } catch (thrown) {
    const message = `tls.key_log_file: cannot write ${path}: ${reasonOf(thrown)}`;
    throw new Fault("FAILED_PRECONDITION", message, { cause: thrown });
  }
}

function contextOf(files: {
  readonly ca: Buffer | undefined;
  readonly cert: Buffer | undefined;
  readonly key: Buffer | undefined;
}): SecureContext {
  try {
    // Text without a certificate in it would be taken for no authorities at all.
    if (files.ca !== undefined) new X509Certificate(files.ca);
    return createSecureContext({ ...files, minVersion: "TLSv1.2" });
  } catch (thrown) {
    const message = "tls: wanted certificates and a key in PEM that belong together";
    throw new Fault("FAILED_PRECONDITION", message, { cause: thrown });
  }
}
