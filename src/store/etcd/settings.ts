// The `etcd` object of the configuration, and the servers that it names.

import { Fault } from "#base/fault.ts";
import { joinHostPort, namedServer } from "#base/net/host-port.ts";
import type { ClientTlsSettings } from "#client/http-settings.ts";

export interface EtcdSettings {
  /** `host:port`, `http://host:port` or `https://host:port`. */
  readonly endpoints: readonly string[];
  /** Milliseconds. */
  readonly lease_ttl: number;
  readonly log_level: string;
  /** Prefix of every key. */
  readonly namespace: string;
  readonly username: string;
  readonly password: string;
  readonly tls: ClientTlsSettings;
}

export interface Endpoint {
  /** `host:port`, for calls and for messages. */
  readonly address: string;
  readonly tls: boolean;
}

const DEFAULT_PORT = "2379";

/** The servers, each once. Throws a Fault INVALID_ARGUMENT for settings that contradict each other. */
export function endpointsOf({ endpoints, tls }: EtcdSettings): readonly Endpoint[] {
  const { ca_file, cert_file, insecure_skip_verify } = tls;
  const tlsIsSet = ca_file !== "" || cert_file !== "" || insecure_skip_verify;
  const found = endpoints.map((text): Endpoint => {
    const { scheme, host, port } = namedServer(text);
    const address = joinHostPort(host, port || DEFAULT_PORT);
    if (scheme === "http" && tlsIsSet) {
      const wanted = `etcd.endpoints: wanted https:// because etcd.tls is set`;
      throw new Fault("INVALID_ARGUMENT", `${wanted}, got http://${address}`);
    }
    return { address, tls: scheme === "https" || tlsIsSet };
  });
  if (found.length === 0) {
    throw new Fault("INVALID_ARGUMENT", "etcd.endpoints: wanted the address of a server, got none");
  }
  return [...new Map(found.map((endpoint) => [JSON.stringify(endpoint), endpoint])).values()];
}
