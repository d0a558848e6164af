// TLS of a gRPC client: the credentials of its channel.

import { appendFile } from "node:fs";
import { isIP } from "node:net";
import { type ConnectionOptions, connect, createSecureContext, type SecureContext } from "node:tls";
import type { ChannelCredentials } from "@grpc/grpc-js";
import { PRE_SHARED_KEY_TLS, type PreSharedKey } from "#base/net/pre-shared-key.ts";
import type { TlsMaterial } from "./tls-files.ts";

export type Grpc = typeof import("@grpc/grpc-js");

export interface GrpcTlsOptions {
  /** Accept any server certificate. */
  readonly insecure_skip_verify?: boolean;
  /** File to which session keys are appended; empty or absent for none. */
  readonly key_log_file?: string;
  /**
   * The exact common name of the server's certificate, instead of the host in its address; empty or absent: the host.
   */
  readonly common_name?: string;
}

/** Credentials for a server at `host:port`. */
export function secureCredentials(
  grpc: Grpc,
  material: TlsMaterial,
  address: string,
  { insecure_skip_verify = false, key_log_file = "", common_name = "" }: GrpcTlsOptions,
): ChannelCredentials {
  const rejectUnauthorized = !insecure_skip_verify;
  const { context: secureContext } = material;
  const host = address.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
  const servername = isIP(host) === 0 ? { servername: host } : {};
  const checkServerIdentity = common_name === "" ? {} : { checkServerIdentity: named(common_name) };
  return credentialsOf(
    grpc,
    secureContext,
    { secureContext, host, rejectUnauthorized, ...servername, ...checkServerIdentity },
    (line) => {
      // A lost line only matters for debugging.
      if (key_log_file !== "") appendFile(key_log_file, line, { mode: 0o600 }, () => undefined);
    },
  );
}

/** Credentials for a server that knows the same key. */
export function sharedKeyCredentials(
  grpc: Grpc,
  { identity, key: psk }: PreSharedKey,
): ChannelCredentials {
  return credentialsOf(grpc, createSecureContext(PRE_SHARED_KEY_TLS), {
    ...PRE_SHARED_KEY_TLS,
    pskCallback: () => ({ psk, identity }),
    // There are no certificates: the key proves the identity.
    checkServerIdentity: () => undefined,
  });
}

/**
 * The library's own connections send an IP address as server name, which Node refuses, cannot report session keys, and
 * do not support shared keys.
 */
function credentialsOf(
  grpc: Grpc,
  context: SecureContext,
  options: ConnectionOptions,
  keylog?: (line: Buffer) => void,
): ChannelCredentials {
  const { rejectUnauthorized = true } = options;
  const credentials = grpc.credentials.createFromSecureContext(context, { rejectUnauthorized });
  credentials._createSecureConnector = (_target, _options, callCredentials) => ({
    waitForReady: async () => undefined,
    getCallCredentials: () => callCredentials ?? grpc.CallCredentials.createEmpty(),
    destroy: () => undefined,
    connect: (socket) =>
      new Promise((resolve, reject) => {
        const secured = connect({ ...options, socket, ALPNProtocols: ["h2"] }, () =>
          resolve({ socket: secured, secure: true }),
        );
        secured.on("error", reject);
        if (keylog !== undefined) secured.on("keylog", keylog);
      }),
  });
  return credentials;
}

function named(commonName: string): NonNullable<ConnectionOptions["checkServerIdentity"]> {
  return (_host, { subject }) =>
    subject?.CN === commonName
      ? undefined
      : new Error(`wanted a certificate for ${commonName}, got another one`);
}
