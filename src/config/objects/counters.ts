// Keys of the counters that agents share.

import { anyText, plainEndpoint, redisNamespace, redisUrl } from "../table/format.ts";
import {
  bool,
  choice,
  duration,
  group,
  number,
  object,
  string,
  strings,
  table,
} from "../table/row.ts";
import { type KeyRule, textAt } from "../table/rule.ts";
import { PAIR_OF_FILES } from "./client.ts";

const OWN = { own: true } as const;

const redisTlsConfig = table(
  "CountersRedisTLSConfig",
  "TLS of connections to Redis, used where the URL begins with `rediss:`.",
  {
    ca_file: string(
      "",
      anyText,
      "File with the certificate authorities for server certificates.",
      OWN,
    ),
    cert_file: string("", anyText, "File with the client certificate.", OWN),
    insecure_skip_verify: bool(false, "Accept any server certificate. Not for production.", OWN),
    key_file: string("", anyText, "File with the private key of the client certificate.", OWN),
  },
  PAIR_OF_FILES,
);

const redisConfig = table(
  "CountersRedisConfig",
  "Redis or Valkey as the place of shared counters.",
  {
    url: string(
      "redis://127.0.0.1:6379",
      redisUrl,
      "The server, or one node of the cluster: `redis://host:port/database`, with TLS `rediss://…`. A cluster has only the database 0. With Sentinel, only the scheme and the database count.",
      OWN,
    ),
    username: string("", anyText, "User of an access control list. Empty means `default`.", OWN),
    password: string("", anyText, "Password.", { secret: true, own: true }),
    cluster: bool(false, "The server is a node of a cluster.", OWN),
    nodes: strings(plainEndpoint, "Further nodes of the cluster to start from.", OWN),
    sentinel: group({
      master: string(
        "",
        anyText,
        "Name of the group of servers that the Sentinels watch. Empty means no Sentinel.",
        OWN,
      ),
      addresses: strings(plainEndpoint, "Addresses of the Sentinels.", OWN),
      username: string("", anyText, "User name at the Sentinels.", OWN),
      password: string("", anyText, "Password at the Sentinels.", { secret: true, own: true }),
    }),
    tls: object(redisTlsConfig),
    namespace: string(
      "sluice",
      redisNamespace,
      "Prefix of every key. Installations that share a server differ in it.",
      OWN,
    ),
    timeout: duration(
      "100ms",
      "Longest wait for a reply. After it, `on_failure` of each component answers, without any wait, until Redis answers a probe.",
      { least: "above 0s", own: true },
    ),
    probe_interval: duration("1s", "Time between two probes while Redis is away.", {
      least: "above 0s",
      own: true,
    }),
    max_pending: number(
      "int64",
      10_000,
      "Most checks that wait for Redis at one time. `on_failure` answers further ones.",
      { min: 1, own: true },
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

const peersConfig = table("CountersPeersConfig", "Counters that agents keep for each other.", {
  timeout: duration(
    "100ms",
    "Longest wait for tokens of another agent. After it, `on_failure` of each component answers for the keys of that agent, without any wait, until it answers a probe.",
    { least: "above 0s", own: true },
  ),
  probe_interval: duration("1s", "Time between two probes of an agent that gave no answer.", {
    least: "above 0s",
    own: true,
  }),
  max_pending: number(
    "int64",
    10_000,
    "Most checks that wait for one other agent at one time. `on_failure` answers further ones.",
    { min: 1, own: true },
  ),
});

export const countersConfig = table(
  "CountersConfig",
  "Where the numbers of rate limiters and concurrency limiters are counted.",
  {
    engine: choice(
      "auto",
      ["auto", "local", "peers", "redis"] as const,
      "`auto`: `peers` in `sluice agent`, `local` in `sluice standalone`. `local`: each process counts for itself. `peers`: the agents of a group count for each other. `redis`: all agents of a group share their counts in Redis or Valkey.",
      OWN,
    ),
    lease: group({
      enabled: bool(
        true,
        "With `peers` and `redis`, agents lease tokens of keys that are used often, and spend them without asking. False: each flow is counted in the engine before it passes.",
        OWN,
      ),
      duration: duration(
        "1s",
        "How long leased tokens count as outstanding. A longer lease takes fewer requests; an agent that dies loses what it has leased for that long.",
        // As `counters/leases/bucket-owner.ts` has it; a test compares the two.
        { least: "above 0s", most: "1m", own: true },
      ),
      max_keys: number(
        "int64",
        10_000,
        "Most keys, of all rate limiters together, that an agent follows to lease their tokens. About 500 bytes each. The engine is asked about each flow of further keys.",
        { min: 0, own: true },
      ),
    }),
    peers: object(peersConfig),
    redis: object(redisConfig),
  },
);
