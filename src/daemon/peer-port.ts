// The port for other agents of the group: one service, for peers that prove their membership.

import { Fault } from "#base/fault.ts";
import type { GrpcService } from "#base/handler.ts";
import { joinHostPort, splitHostPort } from "#base/net/host-port.ts";
import type { PreSharedKey } from "#base/net/pre-shared-key.ts";
import { NO_ACCESS_CONTROL } from "#serve/administration.ts";
import { openPort, type Port } from "#serve/port.ts";
import type { TlsSettings } from "#serve/settings.ts";
import type { SluiceProcess } from "./process.ts";

interface PeerPortOptions {
  readonly addr: string;
  /** The configuration key of the address. */
  readonly key: string;
  readonly service: GrpcService;
  /** Certificates; used without a key. */
  readonly tls: TlsSettings;
  readonly sharedKey: (() => PreSharedKey | undefined) | undefined;
}

/**
 * Opens the port. If the default one is taken, by a second agent on one machine, a free one is used: other agents read its
 * number from the record of this agent. Throws a Fault when a port that a person chose cannot be opened.
 */
export async function openPeerPort(
  process: SluiceProcess,
  { addr, key, service, tls, sharedKey }: PeerPortOptions,
): Promise<Port> {
  const { clock, serverMetrics, settings, readScheduler, isChosen } = process;
  const log = process.log.child("peer-port");
  const { server } = settings;
  const open = (at: string) =>
    openPort({
      settings: {
        ...server,
        listener: { ...server.listener, addr: at, key, network: "tcp" },
        grpc: { ...server.grpc, enable_reflection: false, transport: "own" },
        tls,
      },
      services: [service],
      routes: [],
      accessControl: NO_ACCESS_CONTROL,
      readScheduler,
      clock,
      log,
      meter: serverMetrics,
      ...(sharedKey === undefined ? {} : { sharedKey }),
    });
  try {
    return await open(addr);
  } catch (thrown) {
    const fault = Fault.from(thrown);
    if (isChosen(key)) throw fault;
    log.warn({}, `using another port: ${fault.message}`);
    return open(joinHostPort(splitHostPort(addr).host, 0));
  }
}
