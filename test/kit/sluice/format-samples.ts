// Texts that each format of the configuration must accept and refuse, by the format's description.

import assert from "node:assert/strict";
import type { TextFormat } from "#config/table/format.ts";

interface Samples {
  readonly good: readonly string[];
  readonly bad: readonly string[];
}

const SAMPLES: Readonly<Record<string, Samples>> = {
  "empty, host:port, a URL or a fully qualified name": {
    good: ["", "metrics:9090", "http://metrics:9090/x", "metrics.example.com", "[::1]:443"],
    bad: ["metrics", "http://", "a b", "http://a b", "10.0.0"],
  },
  text: { good: ["", "words and more"], bad: ["a\u0000b"] },
  "host:port, :port or [IPv6%zone]:port (port 0 picks a free one)": {
    good: [":0", ":3320", "[::]:3322", "10.0.0.1:3320"],
    bad: ["", "3320", "unix:/run/a.sock", ":99999"],
  },
  "empty or the name of a control point: at most 1024 characters, none of them a control character, and no blank at either end":
    {
      good: ["", "ingress", "a", "the ingress", "é"],
      bad: [
        " ingress",
        "ingress ",
        "a\nb",
        "�",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
      ],
    },
  "host:port, a URL or a fully qualified name, without user, password, query and fragment": {
    good: ["etcd:2379", "https://etcd.example.com:2379", "http://etcd:2379/"],
    bad: [
      "",
      "etcd",
      "http://",
      "http://ann:secret@etcd:2379",
      "http://ann@etcd:2379",
      "http://etcd:2379?password=secret",
      "http://etcd:2379/?",
      "http://etcd:2379#secret",
    ],
  },
  "empty or a fully qualified name such as client.example.com": {
    good: ["", "client.example.com"],
    bad: ["client", "not a name", "*.example.com", "10.0.0.1"],
  },
  "empty or host:port": {
    good: ["", "agent.internal:8080", ":8080", "[2001:db8::1]:443"],
    bad: [":0", "agent", "http://agent:80", "host_name:80"],
  },
  "a host name without a port": {
    good: ["sluice", "sluice.example.com"],
    bad: ["", "sluice:8080", "a b", "http://a", "10.0.0.1", "*.example.com"],
  },
  "a name without /": { good: ["default"], bad: ["", "a/b"] },
  "a Prometheus label name (letters, digits and _, not starting with a digit)": {
    good: ["cluster", "_x1"],
    bad: ["", "1a", "a-b"],
  },
  "host:port, :port, [IPv6%zone]:port or unix:/path (port 0 picks a free one)": {
    good: [
      ":0",
      ":8080",
      "localhost:80",
      "127.0.0.1:1",
      "[::1]:8080",
      "[fe80::1%eth0]:80",
      "unix:/run/a.sock",
    ],
    bad: [
      "",
      "8080",
      "::1:8080",
      ":65536",
      "[::1]",
      "256.1.1.1:80",
      "unix:",
      "unix:a.sock",
      "a b:1",
      ":-1",
      ":+8",
    ],
  },
  "the name of a baggage member, not http.* or aperture.*": {
    good: ["user", "tenant.id"],
    bad: ["", "a b", "a=1", "http.method", "aperture.x"],
  },
  "an IP address, a CIDR range, a host name, .domain, host:port or *": {
    good: ["*", "localhost", ".example.com", "10.0.0.0/8", "::1", "db.internal:5432"],
    bad: ["", "10.0.0.0/33", "10.0.0", "a b", "http://a"],
  },
  "empty or an IP address": {
    good: ["", "0.0.0.0", "::", "127.0.0.1"],
    bad: ["localhost", "0.0.0.0:80", "[::]", "10.0.0"],
  },
  "empty, host:port, :port, [IPv6%zone]:port or unix:/path (port 0 picks a free one)": {
    good: [
      "",
      ":0",
      ":8080",
      "localhost:80",
      "127.0.0.1:1",
      "[::1]:8080",
      "[fe80::1%eth0]:80",
      "unix:/run/a.sock",
    ],
    bad: [
      "8080",
      "::1:8080",
      ":65536",
      "[::1]",
      "256.1.1.1:80",
      "unix:",
      "unix:a.sock",
      "a b:1",
      ":-1",
      ":+8",
    ],
  },
  "host:port": {
    good: ["redis-1:6379", "[::1]:26379"],
    bad: ["", ":6379", "redis", "redis://redis:6379"],
  },
  "empty, a URL or host:port": {
    good: ["", "http://proxy:3128", "proxy:3128"],
    bad: ["proxy", "proxy.example.com", "http:///x"],
  },
  "a name without braces": { good: ["sluice", "team/a"], bad: ["", "{a}"] },
  "redis://host:port or rediss://host:port, with or without a database number, and without user, password, query and fragment":
    {
      good: ["redis://redis", "redis://127.0.0.1:6379/2", "rediss://[::1]:6380"],
      bad: [
        "",
        "redis",
        "http://redis",
        "redis://redis/x",
        "redis://:secret@redis",
        "redis://redis?password=secret",
        "redis://redis/2?",
        "redis://redis#secret",
      ],
    },
  "empty or NAME.NAMESPACE.svc.DOMAIN:PORT": {
    good: ["", "sluice-agent.sluice.svc.cluster.local:8080"],
    bad: [
      "sluice-agent:8080",
      "sluice-agent.sluice.svc.cluster.local",
      "a.b.svc:80",
      "A.b.svc.c:1",
    ],
  },
  "text that is not empty": { good: ["default", "a/b"], bad: ["", " "] },
  "the name of a Kubernetes namespace": {
    good: ["shop", "team-a"],
    bad: [
      "",
      "Shop",
      "a.b",
      "a/b",
      "-a",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ],
  },
  "empty or a quantity, such as 100m or 128Mi": {
    good: ["", "100m", "0.5", "128Mi"],
    bad: ["fast", "1e3", "-1", "1 Gi"],
  },
  "the name of a Kubernetes object": {
    good: ["sluice-injector", "a.b"],
    bad: ["", "Sluice", "a/b", "-a"],
  },
  "empty or the name of a Kubernetes object": {
    good: ["", "sluice-injector", "a.b"],
    bad: ["Sluice", "a/b", "-a"],
  },
  "NAME=VALUE: a variable that is no key of the agent (SVC_AGENT_…), and its value": {
    good: ["NODE_OPTIONS=--max-old-space-size=256", "EMPTY="],
    bad: ["", "NAME", "=value", "1A=b", "SVC_AGENT_LOG_LEVEL=debug"],
  },
  "KEY=SECRET/ENTRY: a key of the agent, and the Secret and its entry that hold the value": {
    good: ["etcd.password=sluice-agent/etcd-password"],
    bad: ["", "etcd.password", "etcd.password=secret", "ETCD=a/b", "a=B/c"],
  },
};

export function samplesOf({ wanted }: TextFormat): Samples {
  return SAMPLES[wanted] ?? assert.fail(`no samples for the format "${wanted}"`);
}
