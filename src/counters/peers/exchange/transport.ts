// Calls between agents over gRPC: the caller's side, and the service.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { GrpcService } from "#base/handler.ts";
import type { PreSharedKey } from "#base/net/pre-shared-key.ts";
import { GrpcClient } from "#client/grpc.ts";
import { TlsFiles } from "#client/tls-files.ts";
import type { PeerTlsSettings } from "../../settings.ts";
import type { PeerGroup } from "../peer-group.ts";
import type { Caller } from "./link.ts";
import { readTakes, writeReplies } from "./messages.ts";
import { readStore } from "./transfers.ts";

const SERVICE = "sluice.fleet.v1.Counters";
/** Time limit of a call, ms. Checks do not wait for as long. */
const CALL_MS = 2_000;

const CHANNEL = {
  "grpc.use_local_subchannel_pool": 1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1_000,
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 5_000,
} as const;

/** The means by which agents authenticate each other. */
interface PeerSecurity {
  readonly tls: PeerTlsSettings;
  /** Used instead of certificates; undefined while it is not known. */
  readonly sharedKey: () => PreSharedKey | undefined;
  readonly clock: Clock;
}

export function isMutualTls({ cert_file }: PeerTlsSettings): boolean {
  return cert_file !== "";
}

/** Calls the agent whose counters are at `host:port`. */
export function callerOf(address: string, security: PeerSecurity): Caller {
  const { tls, sharedKey } = security;
  const key = sharedKey();
  let client: GrpcClient | undefined;
  let closed = false;
  return {
    async call(method, message) {
      // A client that is opened now would never be closed.
      if (closed) throw new Fault("UNAVAILABLE", "the connection was closed");
      // Never fall back to cleartext.
      if (!isMutualTls(tls) && key === undefined) {
        throw new Fault("UNAVAILABLE", "the secret of the group is not known yet");
      }
      // Opened here, so that unusable certificates fail only this call, and the next call reads the files again.
      client ??= openClient(address, security, key);
      return client.call(`/${SERVICE}/${method}`, message, { timeoutMs: CALL_MS });
    },
    close() {
      closed = true;
      void client?.close();
    },
  };
}

/** Throws a Fault for TLS files that cannot be used. */
function openClient(
  address: string,
  { tls, clock }: PeerSecurity,
  key: PreSharedKey | undefined,
): GrpcClient {
  return new GrpcClient({
    address,
    channel: CHANNEL,
    ...(isMutualTls(tls)
      ? {
          tls: new TlsFiles(tls, { clock, key: "dist_cache.tls" }),
          tlsOptions: { common_name: tls.allowed_cn },
        }
      : key === undefined
        ? {}
        : { sharedKey: key }),
  });
}

/** The service that other agents call. */
export function countersService(group: PeerGroup): GrpcService {
  return {
    name: SERVICE,
    access: "data",
    methods: {
      Take: {
        kind: "unary",
        handle: (message) => {
          const takes = readTakes(message);
          const replies = group.answer(takes);
          return replies instanceof Promise
            ? replies.then((later) => writeReplies(takes, later))
            : writeReplies(takes, replies);
        },
      },
      Store: {
        kind: "unary",
        handle: (message) => {
          const applied = group.receive(readStore(message));
          return applied?.then(() => new Uint8Array()) ?? new Uint8Array();
        },
      },
    },
  };
}
