// Keys of the counters that agents share.

import { plainEndpoint, redisNamespace, redisUrl } from "../table/format.ts";
import {
  bool,
  choice,
  count,
  duration,
  group,
  object,
  ownTable,
  string,
  strings,
  text,
} from "../table/row.ts";
import { type KeyRule, textAt } from "../table/rule.ts";
import { PAIR_OF_FILES } from "./client.ts";

const redisTlsConfig = ownTable(
  "CountersRedisTLSConfig",
  "TLS of connections to Redis, used where the URL begins with `rediss:`.",
  {
    ca_file: text("File with the certificate authorities for server certificates."),
    cert_file: text("File with the client certificate."),
    insecure_skip_verify: bool(false, "Accept any server certificate. Not for production."),
    key_file: text("File with the private key of the client certificate."),
  },
  PAIR_OF_FILES,
);

const redisConfig = ownTable(
  "CountersRedisConfig",
  "Redis or Valkey as the place of shared counters.",
  {
    url: string(
      "redis://127.0.0.1:6379",
      redisUrl,
      "The server, or one node of the cluster: `redis://host:port/database`, with TLS `rediss://…`. A cluster has only the database 0. With Sentinel, only the scheme and the database count.",
    ),
    username: text("User of an access control list. Empty means `default`."),
    password: text("Password.", { secret: true }),
    cluster: bool(false, "The server is a node of a cluster."),
    nodes: strings(plainEndpoint, "Further nodes of the cluster to start from."),
    sentinel: group({
      master: text(
        "Name of the group of servers that the Sentinels watch. Empty means no Sentinel.",
      ),
      addresses: strings(plainEndpoint, "Addresses of the Sentinels."),
      username: text("User name at the Sentinels."),
      password: text("Password at the Sentinels.", { secret: true }),
    }),
    tls: object(redisTlsConfig),
    namespace: string(
      "sluice",
      redisNamespace,
      "Prefix of every key. Installations that share a server differ in it.",
    ),
    timeout: duration(
      "100ms",
      "Longest wait for a reply. After it, `on_failure` of each component answers, without any wait, until Redis answers a probe.",
      { least: "above 0s" },
    ),
    probe_interval: duration("1s", "Time between two probes while Redis is away.", {
      least: "above 0s",
    }),
    max_pending: count(
      10_000,
      "Most checks that wait for Redis at one time. `on_failure` answers further ones.",
      { min: 1 },
    ),
  },
  [
    ...["tls.ca_file", "tls.cert_file"].map(
      (key): KeyRule => ({
        key,
        when: [
          [key, "is not", ""],
          ["url", "lacks", "rediss:"],
        ],
        wanted: "nothing, because url does not begin with rediss:, which asks for TLS",
        got: (settings) => `"${textAt(settings, key)}"`,
      }),
    ),
    {
      key: "cluster",
      when: [
        ["sentinel.master", "is not", ""],
        ["cluster", "is", "true"],
      ],
      wanted: "false where sentinel.master is set: it is one or the other",
      got: () => "true",
    },
    {
      key: "sentinel.addresses",
      when: [
        ["sentinel.master", "is not", ""],
        ["sentinel.addresses", "is", ""],
      ],
      wanted: "at least one address, because sentinel.master is set",
      got: () => "none",
    },
  ],
);

const peersConfig = ownTable("CountersPeersConfig", "Counters that agents keep for each other.", {
  timeout: duration(
    "100ms",
    "Longest wait for tokens of another agent. After it, `on_failure` of each component answers for the keys of that agent, without any wait, until it answers a probe.",
    { least: "above 0s" },
  ),
  probe_interval: duration("1s", "Time between two probes of an agent that gave no answer.", {
    least: "above 0s",
  }),
  max_pending: count(
    10_000,
    "Most checks that wait for one other agent at one time. `on_failure` answers further ones.",
    { min: 1 },
  ),
});

export const countersConfig = ownTable(
  "CountersConfig",
  "Where the numbers of rate limiters and concurrency limiters are counted.",
  {
    engine: choice(
      "auto",
      ["auto", "local", "peers", "redis"] as const,
      "`auto`: `peers` in `sluice agent`, `local` in `sluice standalone`. `local`: each process counts for itself. `peers`: the agents of a group count for each other. `redis`: all agents of a group share their counts in Redis or Valkey.",
    ),
    lease: group({
      enabled: bool(
        true,
        "With `peers` and `redis`, agents lease tokens of keys that are used often, and spend them without asking. False: each flow is counted in the engine before it passes.",
      ),
      duration: duration(
        "1s",
        "How long leased tokens count as outstanding. A longer lease takes fewer requests; an agent that dies loses what it has leased for that long.",
        // As `counters/leases/bucket-owner.ts` has it; a test compares the two.
        { least: "above 0s", most: "1m" },
      ),
      max_keys: count(
        10_000,
        "Most keys, of all rate limiters together, that an agent follows to lease their tokens. About 500 bytes each. The engine is asked about each flow of further keys.",
      ),
    }),
    peers: object(peersConfig),
    redis: object(redisConfig),
  },
);
