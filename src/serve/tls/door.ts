// Ends TLS for connections that the listener hands in: versions, client certificates, who may enter, which
// tongue follows, and new certificates while running.

import type { Socket } from "node:net";
import { createServer, type SecureContextOptions, type Server, type TLSSocket } from "node:tls";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { PlainTongue } from "../listen/tongue.ts";
import type { PortLog, RefusedConnection, TlsSettings } from "../settings.ts";
import { judgeMaterial, readMaterial } from "./material.ts";
import { watchFiles } from "./watch.ts";

export interface TlsDoor {
  enter(socket: Socket): void;
  close(): void;
}

export interface TlsDoorParts {
  readonly settings: TlsSettings;
  /** ms; 0 leaves Node's own 120 s. */
  readonly handshakeTimeout: number;
  readonly clock: Clock;
  readonly log: PortLog;
  /** What ALPN takes of a client that offers both. */
  readonly prefers: (socket: Socket) => PlainTongue;
  /** Gets connections whose handshake is complete and whose client may enter. */
  readonly admitted: (socket: TLSSocket, tongue: PlainTongue) => void;
  readonly refused: (why: RefusedConnection) => void;
}

/** Throws Faults. */
export async function openTlsDoor(parts: TlsDoorParts): Promise<TlsDoor> {
  const { settings, clock, log, prefers } = parts;
  const material = await readMaterial(settings);
  judgeMaterial(material);
  const { cert_file, key_file, client_ca_file } = settings;
  // ALPN's callback is not told whose handshake it is: there is one server for each preference.
  const servers: Readonly<Record<PlainTongue, Server>> = {
    http1: serverOf(parts, material.context, ["http/1.1", "h2"]),
    http2: serverOf(parts, material.context, ["h2", "http/1.1"]),
  };

  let current = material.digest;
  let refused = "";
  const look = async () => {
    try {
      const found = await readMaterial(settings);
      if (found.digest === current || found.digest === refused) return;
      refused = found.digest;
      judgeMaterial(found);
      for (const server of Object.values(servers)) server.setSecureContext(found.context);
      current = found.digest;
      refused = "";
      log.info("took up new certificate files");
    } catch (thrown) {
      log.warn("keeping the certificates in use: the changed files are no good", {
        error: Fault.from(thrown),
      });
    }
  };
  const files = [cert_file, key_file, client_ca_file].filter((path) => path !== "");
  const unwatch = watchFiles(files, clock, () => void look());
  return {
    enter: (socket) => void servers[prefers(socket)].emit("connection", socket),
    close: unwatch,
  };
}

function serverOf(
  { settings, handshakeTimeout, log, admitted, refused }: TlsDoorParts,
  context: SecureContextOptions,
  inOrder: readonly string[],
): Server {
  const { allowed_cn, client_ca_file } = settings;
  const mutual = client_ca_file !== "";
  const server = createServer({
    ...context,
    handshakeTimeout,
    requestCert: mutual,
    rejectUnauthorized: mutual,
    // undefined ends the handshake with no_application_protocol. Clients without ALPN do not come here.
    ALPNCallback: ({ protocols }) => inOrder.find((protocol) => protocols.includes(protocol)),
  });
  server.on("secureConnection", (socket) => {
    socket.on("error", () => socket.destroy());
    if (allowed_cn !== "" && !(socket.authorized && commonName(socket) === allowed_cn)) {
      log.warn("refused a client certificate: its common name is not allowed");
      refused("client_name");
      socket.destroy();
      return;
    }
    // RFC 9113 §3.3: HTTP/2 over TLS is agreed by ALPN, never guessed.
    admitted(socket, socket.alpnProtocol === "h2" ? "http2" : "http1");
  });
  server.on("tlsClientError", (error: NodeJS.ErrnoException, socket) => {
    const late = error.code === "ERR_TLS_HANDSHAKE_TIMEOUT";
    refused(late ? "slow_tls_handshake" : "broken_tls_handshake");
    socket.destroy();
  });
  return server;
}

function commonName(socket: TLSSocket): string | string[] | undefined {
  return socket.getPeerCertificate().subject?.CN;
}
