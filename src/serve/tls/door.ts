// Ends TLS for connections that the listener hands in: versions, client certificates, who may enter, which
// tongue follows, and new certificates while running.

import type { Socket } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { PortLog, TlsSettings } from "../settings.ts";
import { judgeMaterial, readMaterial } from "./material.ts";
import { watchFiles } from "./watch.ts";

export interface TlsDoor {
  enter(socket: Socket): void;
  close(): void;
}

/** `admitted` gets connections whose handshake is complete and whose client may enter. Throws Faults. */
export async function openTlsDoor(
  settings: TlsSettings,
  handshakeTimeout: number,
  clock: Clock,
  log: PortLog,
  admitted: (socket: TLSSocket, tongue: "http1" | "http2") => void,
): Promise<TlsDoor> {
  const material = await readMaterial(settings);
  judgeMaterial(material);
  const { allowed_cn, client_ca_file } = settings;
  const mutual = client_ca_file !== "";
  const server = createServer({
    ...material.context,
    // 0 leaves Node's own 120 s.
    handshakeTimeout,
    requestCert: mutual,
    rejectUnauthorized: mutual,
    ALPNCallback: ({ protocols }) => chooseProtocol(protocols),
  });
  server.on("secureConnection", (socket) => {
    socket.on("error", () => socket.destroy());
    if (allowed_cn !== "" && !(socket.authorized && commonName(socket) === allowed_cn)) {
      log.warn("refused a client certificate: its common name is not allowed");
      socket.destroy();
      return;
    }
    admitted(socket, socket.alpnProtocol === "h2" ? "http2" : "http1");
  });
  server.on("tlsClientError", (_error, socket) => socket.destroy());

  let current = material.digest;
  let refused = "";
  const look = async () => {
    try {
      const found = await readMaterial(settings);
      if (found.digest === current || found.digest === refused) return;
      refused = found.digest;
      judgeMaterial(found);
      server.setSecureContext(found.context);
      current = found.digest;
      refused = "";
      log.info("took up new certificate files");
    } catch (thrown) {
      log.warn("keeping the certificates in use: the changed files are no good", {
        error: Fault.from(thrown),
      });
    }
  };
  const files = [settings.cert_file, settings.key_file, client_ca_file].filter(
    (path) => path !== "",
  );
  const unwatch = watchFiles(files, clock, () => void look());
  return {
    enter: (socket) => void server.emit("connection", socket),
    close: unwatch,
  };
}

/**
 * HTTP/1.1 first while JSON is only served there: a client that offers both wants JSON, gRPC clients offer
 * h2 alone. undefined ends the handshake with no_application_protocol.
 */
function chooseProtocol(offered: readonly string[]): string | undefined {
  return ["http/1.1", "h2"].find((protocol) => offered.includes(protocol));
}

function commonName(socket: TLSSocket): string | string[] | undefined {
  return socket.getPeerCertificate().subject?.CN;
}
