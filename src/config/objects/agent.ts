// Keys of the agent: its identity, flow control, agent functions, and the caches behind it.

import {
  bindAddress,
  controlPoint,
  endpoint,
  hostPort,
  keyPart,
  memberName,
} from "../table/format.ts";
import {
  bool,
  choice,
  count,
  duration,
  number,
  object,
  ownTable,
  string,
  strings,
  table,
  text,
} from "../table/row.ts";
import { type KeyRule, needed } from "../table/rule.ts";
import { clientConfig } from "./client.ts";

export const agentInfoConfig = table("AgentInfoConfig", "Identity of this agent.", {
  agent_group: string(
    "default",
    keyPart,
    "Group of this agent. All agents of a group receive the same policies.",
  ),
});

export const agentFunctionsConfig = table(
  "AgentFunctionsConfig",
  "Servers that may call functions of this agent.",
  {
    endpoints: strings(
      endpoint,
      "Controllers to connect to, which then ask this agent over the connection instead of through etcd. Without a scheme, `client.grpc.insecure` decides about TLS; without a port, it is 8080.",
    ),
    token: text(
      "Administration token of these controllers (`server.administration.token`), sent with the call.",
      { own: true, secret: true },
    ),
    client: object(clientConfig),
  },
);

const FILES = ["ca_file", "cert_file", "key_file"] as const;

const distCacheTlsConfig = ownTable(
  "DistCacheTLSConfig",
  "Certificates of the connections between agents that count for each other. Without them these are encrypted as well, and agents know each other by a secret that the first agent of a group leaves in etcd.",
  {
    allowed_cn: text(
      "Exact common name of the certificates of all agents of the group. Empty means any certificate of the authority, and agents are known by the host in their address.",
    ),
    ca_file: text("File with the certificate authority of all agents."),
    cert_file: text("File with the certificate of this agent."),
    key_file: text("File with the private key of the certificate."),
  },
  // If any of the keys is set, all of the files are needed.
  [...FILES, "allowed_cn"].flatMap((present) =>
    FILES.map(
      (missing): KeyRule => ({
        ...needed(missing, present, "ca_file, cert_file and key_file together, for mutual TLS"),
        key: "cert_file",
        got: (settings) => `${FILES.filter((key) => settings[key] !== "").length} of them`,
      }),
    ),
  ),
);

export const distCacheConfig = table(
  "DistCacheConfig",
  "Counters that agents share with each other.",
  {
    bind_addr: string(
      ":3320",
      bindAddress,
      "Address on which peers reach the counters. Where the default is taken, a free port is used, since peers read the number from the agent's record.",
    ),
    memberlist_advertise_addr: string(
      "",
      hostPort,
      "Membership address announced to peers, if it differs from the bound one.",
    ),
    memberlist_bind_addr: string(
      ":3322",
      bindAddress,
      "Address on which membership messages (probes, over UDP) arrive. Where the default is taken, a free port is used.",
    ),
    replica_count: count(
      1,
      "Number of agents that have every counter. With 1, the loss of an agent loses what it counted.",
      { min: 1 },
    ),
    sync_replication: bool(
      false,
      "Reply only after all copies are written. Otherwise the loss of an agent loses what it counted in its last milliseconds.",
    ),
    tls: object(distCacheTlsConfig),
  },
);

const flowPreviewConfig = table(
  "FlowPreviewConfig",
  "Samples of live traffic for authors of policies.",
  {
    enabled: bool(true, "Serve previews."),
  },
);

const overloadConfig = ownTable(
  "OverloadConfig",
  "Shedding of checks while an agent has more of them than it can judge. Callers that take more than their fair share of the time are shed first, and the least important checks among them.",
  {
    enabled: bool(true, "Shed checks. Otherwise all wait until they are judged."),
    max_delay: duration(
      "50ms",
      "Checks are shed when callers wait for longer than this, by the median, until it is their turn, and the agent has not been idle for 200 ms (for a second in the first five seconds with checks). Where `server.grpc.transport` is grpc-js, waits of gRPC calls are not measured.",
      { least: "above 0s" },
    ),
    max_in_progress: count(
      10_000,
      "Most checks that wait for other servers (Redis, other agents) at one time. From four fifths of it on, the least important ones are shed. Checks in the queue of a scheduler do not count.",
      { min: 1 },
    ),
  },
);

const baggageConfig = ownTable(
  "BaggageConfig",
  "Labels from the `baggage` header of checked requests, which clients choose unless the proxy removes or replaces it. Baggage never sets `http.*`, `aperture.*` or a label that a classifier makes.",
  {
    enabled: bool(true, "Read labels from baggage. Otherwise the header is ignored."),
    members: strings(
      memberName,
      "Names of the members that become labels. Empty: all of them; rules read those that they name.",
    ),
  },
);

export const flowControlConfig = ownTable("FlowControlConfig", "Flow control.", {
  baggage: object(baggageConfig),
  default_control_point: string(
    "",
    controlPoint,
    "Control point of checks over Envoy's protocol (ext_authz) that name none, for proxies that cannot send one, such as those of Istio's extension providers. Empty: such a check gets an error, which proxies that fail open let pass; `sluice_anomalies_total{kind=\"no_control_point\"}` counts them.",
  ),
  max_keys: number(
    "uint64",
    1_000_000,
    "Maximum number of keys that a limiter counts apart; limiters with equal selectors and key label share it. For a further key, a rate limiter forgets the one that has used the least of its limit. `docs/counters.md` says what other limiters do.",
    { min: 1_024 },
  ),
  overload: object(overloadConfig),
  preview_service: object(flowPreviewConfig),
});

const objectStorageBackoff = table("ObjectStorageBackoffConfig", "Delays between attempts.", {
  initial: duration("0.5s", "Delay after the first failure."),
  multiplier: number("float64", 1.5, "Factor by which the delay grows after each failure.", {
    min: 0,
  }),
  maximum: duration("2s", "Maximum delay."),
});

const objectStorageRetry = table("ObjectStorageRetryPolicy", "Attempts for one request.", {
  timeout: duration("10s", "Time limit for all attempts together."),
  backoff: object(objectStorageBackoff),
});

export const objectStorageConfig = table("ObjectStorageConfig", "A bucket behind the caches.", {
  enabled: bool(false, "Store cache entries in the bucket as well."),
  backend: choice("gcs", ["gcs"] as const, "Kind of storage."),
  bucket: text("Name of the bucket."),
  key_prefix: text("Prefix of every key."),
  operations_channel_size: count(1_000, "Maximum number of queued writes."),
  retry_policy: object(objectStorageRetry),
});
