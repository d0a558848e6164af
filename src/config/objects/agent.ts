// Keys of the agent: its identity, flow control, agent functions, and the caches behind it.

import { anyText, bindAddress, endpoint, hostPort, someText } from "../table/format.ts";
import { bool, choice, duration, number, object, string, strings, table } from "../table/row.ts";
import { clientConfig } from "./client.ts";

export const agentInfoConfig = table("AgentInfoConfig", "Identity of this agent.", {
  agent_group: string(
    "default",
    someText,
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
    token: string(
      "",
      anyText,
      "Administration token of these controllers (`server.administration.token`), sent with the call.",
      { secret: true },
    ),
    client: object(clientConfig),
  },
);

export const distCacheConfig = table(
  "DistCacheConfig",
  "Counters that agents share with each other.",
  {
    bind_addr: string(":3320", bindAddress, "Address on which peers reach the counters."),
    memberlist_advertise_addr: string(
      "",
      hostPort,
      "Membership address announced to peers, if it differs from the bound one.",
    ),
    memberlist_bind_addr: string(
      ":3322",
      bindAddress,
      "Address on which membership messages arrive.",
    ),
    replica_count: number("int64", 1, "Number of copies of every counter.", { min: 1 }),
    sync_replication: bool(false, "Reply only after all copies are written."),
  },
);

const flowPreviewConfig = table(
  "FlowPreviewConfig",
  "Samples of live traffic for authors of policies.",
  {
    enabled: bool(true, "Serve previews."),
  },
);

export const flowControlConfig = table("FlowControlConfig", "Flow control.", {
  max_keys: number(
    "uint64",
    1_000_000,
    "Maximum number of keys that a limiter counts apart; limiters with equal selectors and key label share it. `on_failure` decides about further keys; by default they share one bucket.",
    { min: 1_024, own: true },
  ),
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
  bucket: string("", anyText, "Name of the bucket."),
  key_prefix: string("", anyText, "Prefix of every key."),
  operations_channel_size: number("int64", 1_000, "Maximum number of queued writes.", { min: 0 }),
  retry_policy: object(objectStorageRetry),
});
