// Terminates TLS on the connections of a listener: versions, client certificates, ALPN, reloading of changed
// certificates; or a shared key in place of certificates.

import type { Socket } from "node:net";
import { createServer, type SecureContextOptions, type Server, type TLSSocket } from "node:tls";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import { PRE_SHARED_KEY_TLS, type PreSharedKey } from "#base/net/pre-shared-key.ts";
import type { RefusedConnection, ServerMeter } from "#base/server-meter.ts";
import { WatchedFiles } from "#runtime/life/watched-files.ts";
import type { TlsSettings } from "../settings.ts";
import type { ApplicationProtocol } from "../transport.ts";
import { credentialsOf, requireFiles } from "./credentials.ts";
import { ExpiryReminder } from "./expiry.ts";

export interface TlsTerminator {
  terminate(socket: Socket): void;
  close(): void;
}

interface TlsTerminatorOptions {
  readonly settings: TlsSettings;
  /** In ms; 0 leaves Node's default of 120 s. */
  readonly handshakeTimeout: number;
  readonly clock: Clock;
  readonly log: Log;
  /** The protocol to select by ALPN if a client offers both. */
  readonly preferredProtocol: ApplicationProtocol;
  /** Receives connections whose handshake is complete and whose client is allowed. */
  readonly accept: (socket: TLSSocket, protocol: ApplicationProtocol) => void;
  readonly refused: (why: RefusedConnection) => void;
  readonly meter?: Pick<ServerMeter, "certificate"> | undefined;
}

/** Throws a Fault if the credentials are not usable. */
export function openTlsTerminator(options: TlsTerminatorOptions): TlsTerminator {
  const { settings, clock, log, meter } = options;
  requireFiles(settings);
  const { cert_file, key_file, client_ca_file } = settings;
  const reminder = new ExpiryReminder(cert_file, clock, log);
  const files = new WatchedFiles({
    setting: settings.key ?? "server.tls",
    what: "certificates",
    files: { cert_file, key_file, client_ca_file },
    use: (contents) => credentialsOf(contents, clock.wall(), settings.key),
    looked: (found) => {
      if (found !== inUse) server.setSecureContext(found.context);
      inUse = found;
      reminder.remind(inUse.expiry);
    },
    clock,
    log,
  });
  let inUse = files.current;
  const server = serverOf(options, inUse.context);
  reminder.remind(inUse.expiry);
  meter?.certificate(cert_file, () => ({
    left: (inUse.expiry.expiresAt - clock.wall()) / 1_000,
    lifetime: inUse.expiry.lifetime / 1_000,
  }));
  return {
    terminate: (socket) => void server.emit("connection", socket),
    close: () => files.close(),
  };
}

interface SharedKeyTerminatorOptions
  extends Pick<TlsTerminatorOptions, "handshakeTimeout" | "accept" | "refused"> {
  /** Called for each handshake. Without a key none succeeds. */
  readonly sharedKey: () => PreSharedKey | undefined;
  /** The client did not prove that it knows the key. */
  readonly keyNotProved: () => void;
}

/** Accepts only clients that know the shared key. */
export function openSharedKeyTerminator(options: SharedKeyTerminatorOptions): TlsTerminator {
  const { sharedKey, handshakeTimeout, accept, refused, keyNotProved } = options;
  const server = createServer({
    ...PRE_SHARED_KEY_TLS,
    handshakeTimeout,
    ALPNProtocols: ["h2"],
    pskCallback: (_socket, identity) => {
      const known = sharedKey();
      return known?.identity === identity ? known.key : null;
    },
  });
  server.on("secureConnection", (socket) => {
    socket.on("error", () => socket.destroy());
    accept(socket, "http2");
  });
  server.on("tlsClientError", (error, socket) => {
    if (brokenHandshake(error, socket, refused)) keyNotProved();
  });
  return { terminate: (socket) => void server.emit("connection", socket), close: () => undefined };
}

/** Counts a failed handshake; returns false if it was merely slow. */
function brokenHandshake(
  error: NodeJS.ErrnoException,
  socket: TLSSocket,
  refused: (why: RefusedConnection) => void,
): boolean {
  const late = error.code === "ERR_TLS_HANDSHAKE_TIMEOUT";
  refused(late ? "slow_tls_handshake" : "broken_tls_handshake");
  socket.destroy();
  return !late;
}

function serverOf(
  { settings, handshakeTimeout, log, preferredProtocol, accept, refused }: TlsTerminatorOptions,
  context: SecureContextOptions,
): Server {
  const { allowed_cn, client_ca_file } = settings;
  const mutual = client_ca_file !== "";
  const server = createServer({
    ...context,
    handshakeTimeout,
    requestCert: mutual,
    rejectUnauthorized: mutual,
    // In order of preference. The handshake of a client that offers none of them fails (no_application_protocol).
    ALPNProtocols: preferredProtocol === "http2" ? ["h2", "http/1.1"] : ["http/1.1", "h2"],
  });
  server.on("secureConnection", (socket) => {
    socket.on("error", () => socket.destroy());
    if (allowed_cn !== "" && !(socket.authorized && commonName(socket) === allowed_cn)) {
      log.warn({}, "refused a client certificate: its common name is not allowed");
      refused("client_name");
      socket.destroy();
      return;
    }
    // RFC 9113 §3.3: HTTP/2 over TLS is negotiated by ALPN, never guessed.
    accept(socket, socket.alpnProtocol === "h2" ? "http2" : "http1");
  });
  server.on("tlsClientError", (error, socket) => {
    brokenHandshake(error, socket, refused);
  });
  return server;
}

function commonName(socket: TLSSocket): string | string[] | undefined {
  return socket.getPeerCertificate().subject?.CN;
}
